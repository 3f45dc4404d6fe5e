package law

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policytest/replay"
)

type policyReplayCmd struct {
	book.ReachFlags
	book.RangeFlags
	Bundle string `short:"b" placeholder:"LAW" help:"The law to judge by: a directory, a revision, live or shipped. Left out, each decision is judged by its own law, and has to come out the same."`
	Limit  int    `default:"50" help:"List at most so many changed decisions, up to 1000; all are counted."`
}

// Run judges past decisions again.
func (p *policyReplayCmd) Run(ctx context.Context, g *cli.Globals, from book.Settings) error {
	r, err := p.Range()
	if err != nil {
		return err
	}
	if p.Limit < 0 || p.Limit > replay.MaxChanged {
		return cli.Usage(fmt.Errorf("--limit %d is not between 0 and %d", p.Limit, replay.MaxChanged))
	}
	past, err := p.OpenPast(ctx, g, from)
	if err != nil {
		return err
	}
	defer past.Close()
	cfg := replay.Config{}
	if p.Bundle == "" {
		cfg.Laws, err = own(past)
	} else {
		b, err := named{func(context.Context) (book.Past, error) { return past, nil }}.find(ctx, p.Bundle)
		if err != nil {
			return err
		}
		cfg.Draft = b.Revision()
		if cfg.Laws, err = draft(ctx, b); err != nil {
			return cli.Usage(fmt.Errorf("the law in %s cannot judge:\n%w", p.Bundle, err))
		}
	}
	if err != nil {
		return err
	}
	report, err := replayRange(ctx, g, past, r, cfg)
	if err != nil {
		return err
	}
	left := max(0, len(report.Changed)-p.Limit)
	report.NotKept += int64(left)
	report.Changed = report.Changed[:len(report.Changed)-left]
	if err := showReport(g, &report); err != nil {
		return err
	}
	if report.AnyChanged() {
		return cli.ErrChanged
	}
	return nil
}

// replayGC lets the heap grow to five times of what is held before it is collected.
const replayGC = 400

// replayRange judges the decisions of a range, and shows how far it is.
func replayRange(ctx context.Context, g *cli.Globals, past book.Past, r book.Range, cfg replay.Config) (replay.Report, error) {
	// What judging leaves behind is a third of its work; what is held is small, so it may lie longer.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(replayGC))
	}
	progress := g.NewProgress()
	defer progress.Begin("counting decisions")()
	bound, n, err := past.Bound(ctx, r)
	if err != nil {
		return replay.Report{}, err
	}
	cfg.Pages = past.Pages(bound)
	cfg.Tell = func(done int64) { progress.Note(cli.Bar("judging again", done, n)) }
	report, err := replay.Run(ctx, cfg)
	if err != nil {
		return report, fmt.Errorf("replaying: %w", err)
	}
	return report, nil
}

// showReport prints a report.
func showReport(g *cli.Globals, r *replay.Report) error {
	if g.Output != "table" {
		return g.Print(r, nil, nil)
	}
	if r.Law == "" {
		g.Say("%s, each judged by its own law", cli.Plural(int(r.Decisions), "decision"))
	} else {
		g.Say("%s, judged by revision %.12s", cli.Plural(int(r.Decisions), "decision"), r.Law)
	}
	if err := g.Table([]string{"OUTCOME", "DECISIONS"}, func(row func(...string)) {
		count := func(what string, n int64) { row(what, strconv.FormatInt(n, 10)) }
		count(string(replay.Same), r.Same)
		count(string(replay.NowDenied), r.NowDenied)
		count(string(replay.NowAllowed), r.NowAllowed)
		count(string(replay.OtherReasons), r.OtherReasons)
		count("by the gateway, not by a law", r.ByGateway)
		for _, cause := range slices.Sorted(maps.Keys(r.Unjudged)) {
			count("not judged: "+cause, r.Unjudged[cause])
		}
	}); err != nil {
		return err
	}
	for _, fact := range slices.Sorted(maps.Keys(r.Lacking)) {
		g.Say("%s judged without %s, which their record does not have", cli.Plural(int(r.Lacking[fact]), "decision"), fact)
	}
	if len(r.Codes) > 0 {
		fmt.Fprintln(g.Out)
		if err := g.Table([]string{"CODE", "NEW", "GONE"}, func(row func(...string)) {
			for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
				row(code, strconv.FormatInt(r.Codes[code].New, 10), strconv.FormatInt(r.Codes[code].Gone, 10))
			}
		}); err != nil {
			return err
		}
	}
	if len(r.Changed) > 0 {
		fmt.Fprintln(g.Out)
		if err := g.Table([]string{"OUTCOME", "TIME", "WHO", "MACHINE", "METHOD", "NEW", "GONE", "LACKS", "ID"}, func(row func(...string)) {
			for i := range r.Changed {
				row(changedRow(&r.Changed[i])...)
			}
		}); err != nil {
			return err
		}
	}
	if r.NotKept > 0 {
		g.Say("and %d more that are not listed", r.NotKept)
	}
	return nil
}

func changedRow(c *replay.Change) []string {
	method := c.Method[strings.LastIndex(c.Method, "/")+1:]
	if c.DryRun {
		method += " (dry run)"
	}
	more := c.New
	if c.Approvals != nil {
		more = append(slices.Clone(more), fmt.Sprintf("approvals %d instead of %d", c.Approvals[1], c.Approvals[0]))
	}
	if len(more)+len(c.Gone) == 0 {
		more = []string{"other words: " + c.Message}
	}
	return []string{
		string(c.Kind), stamp(c.Time), cli.ASCII(c.Subject), c.Machine, method, strings.Join(more, ","), strings.Join(c.Gone, ","),
		strings.Join(c.Lacks, ","), c.ID,
	}
}

func stamp(t time.Time) string { return cli.Stamp(&t) }
