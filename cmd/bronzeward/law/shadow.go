package law

import (
	"context"
	"fmt"
	"strconv"

	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policytest/replay"
)

type policyShadowCmd struct {
	book.ReachFlags
	book.RangeFlags
	Code string `help:"Only this rule, such as BW-SITE-001."`
}

// Run sums up what rules said that do not refuse yet.
func (p *policyShadowCmd) Run(ctx context.Context, g *cli.Globals, from book.Settings) error {
	r, err := p.Range()
	if err != nil {
		return err
	}
	r.Said = true
	past, err := p.OpenPast(ctx, g, from)
	if err != nil {
		return err
	}
	defer past.Close()
	report, err := shadows(ctx, g, past, r, p.Code)
	if err != nil {
		return err
	}
	if err := g.Print(report, []string{"CODE", "STEP", "WHO", "MACHINE", "WOULD REFUSE", "REFUSED ANYWAY", "LAST", "SAMPLE"}, func(row func(...string)) {
		for _, s := range report.Rows {
			row(s.Code, string(s.Step), cli.ASCII(s.Subject), s.Machine, strconv.FormatInt(s.WouldRefuse, 10), strconv.FormatInt(s.RefusedAnyway, 10), stamp(s.Last), s.Sample)
		}
	}); err != nil {
		return err
	}
	g.More(len(report.Rows), "no rule on the steps shadow or warn said anything", "")
	if report.NotListed > 0 {
		fmt.Fprintf(g.ErrOut, "%d decisions by further people or about further machines are not listed: give --code, --machine or a shorter time\n", report.NotListed)
	}
	if report.Unreadable > 0 {
		fmt.Fprintf(g.ErrOut, "%d decisions have no record that reads as one: bronzeward decisions verify tells whether they were changed\n", report.Unreadable)
	}
	return nil
}

func shadows(ctx context.Context, g *cli.Globals, past book.Past, r book.Range, code string) (replay.ShadowReport, error) {
	progress := g.NewProgress()
	defer progress.Begin("counting decisions")()
	bound, n, err := past.Bound(ctx, r)
	if err != nil {
		return replay.ShadowReport{}, err
	}
	return replay.Shadows(ctx, past.Pages(bound), code, func(done int64) { progress.Note(cli.Bar("reading", done, n)) })
}
