package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// Commands are the decisions commands.
type Commands struct {
	List listCmd `cmd:"" help:"List decisions, newest first." aliases:"ls"`
	Show showCmd `cmd:"" help:"Show one decision: who, what, which rules, and what became of it."`
}

type listCmd struct {
	DatabaseFlags
	Machine string        `short:"m" help:"Only decisions about this machine."`
	Cluster string        `help:"Only decisions about this cluster."`
	Subject string        `help:"Only decisions about this person's calls."`
	Issuer  string        `help:"Only callers of this issuer."`
	Method  string        `help:"Only this method; ApplyConfiguration is enough for the full name."`
	Class   string        `help:"Only this class of method: read, apply, mutate and so on."`
	Verdict string        `help:"Only this verdict: allow, deny or refuse."`
	Kind    string        `help:"Only this kind: rpc, http, policy or system."`
	Code    string        `help:"Only decisions with this reason, such as BW-MODE-001."`
	Digest  string        `help:"Only decisions about this configuration digest."`
	Change  string        `help:"Only decisions about this change."`
	Attempt string        `help:"Only the decision of this attempt."`
	Since   time.Duration `help:"Only the last so much time, such as 24h."`
	From    string        `help:"Only from this time on: 2026-11-30T08:00:00Z, or a day, 2026-11-30, in your zone."`
	Until   string        `help:"Only before this time, written like --from."`
	Limit   int           `default:"50" help:"At most this many, up to 1000."`
	Oldest  bool          `help:"Oldest first."`
	After   string        `help:"Continue after this cursor, as printed by the page before."`
}

func (d *listCmd) filter() (audit.Filter, error) {
	f := audit.Filter{
		Machine: d.Machine, Cluster: d.Cluster, Subject: d.Subject, Issuer: d.Issuer, Class: d.Class, Verdict: audit.Verdict(d.Verdict),
		Kind: audit.Kind(d.Kind), Code: d.Code, Digest: d.Digest, ChangeID: d.Change, Method: fullMethod(d.Method),
	}
	var errs [2]error
	f.Since, errs[0] = cli.Moment("--from", d.From)
	f.Until, errs[1] = cli.Moment("--until", d.Until)
	if err := errors.Join(errs[:]...); err != nil {
		return f, cli.Usage(err)
	}
	if d.Since > 0 {
		f.Since = time.Now().Add(-d.Since)
	}
	if d.Attempt != "" {
		id, err := cli.ParseID(d.Attempt)
		if err != nil {
			return f, err
		}
		f.AttemptID = id
	}
	if err := f.Validate(); err != nil {
		return f, cli.Usage(fmt.Errorf("these filters find nothing: %w", err))
	}
	return f, nil
}

// fullMethod completes a bare method name: almost all are MachineService's.
func fullMethod(m string) string {
	if m == "" || strings.ContainsAny(m, "/.") {
		return m
	}
	return "/machine.MachineService/" + m
}

func (d *listCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	f, err := d.filter()
	if err != nil {
		return err
	}
	after, err := audit.ParseCursor(d.After)
	if err != nil {
		return cli.Usage(fmt.Errorf("--after %q is no cursor that a page before printed", d.After))
	}
	if d.Limit < 1 || d.Limit > audit.MaxLimit {
		return cli.Usage(fmt.Errorf("--limit %d is not between 1 and %d; --after continues where a page ended", d.Limit, audit.MaxLimit))
	}
	page := audit.Page{Limit: d.Limit, After: after}
	if d.Oldest {
		page.Order = audit.OldestFirst
	}
	pool, err := d.OpenBook(ctx, from)
	if err != nil {
		return err
	}
	defer pool.Close()
	book := audit.NewReader(pool)
	rows, next, err := book.List(ctx, f, page)
	if err != nil {
		return err
	}
	views := make([]decisionView, 0, len(rows))
	for i := range rows {
		views = append(views, viewDecision(&rows[i]))
	}
	if err := g.Print(views, []string{"TIME", "WHO", "MACHINE", "METHOD", "VERDICT", "WHY", "OUTCOME", "ID"}, func(row func(...string)) {
		for _, v := range views {
			row(cli.Stamp(&v.Time), v.Subject, v.Machine, shortMethod(v), v.Verdict, shortCodes(v.Codes), v.Outcome, v.ID)
		}
	}); err != nil {
		return err
	}
	if len(views) == 0 {
		fmt.Fprintln(g.ErrOut, "no decision matches")
	}
	if !next.IsZero() {
		fmt.Fprintf(g.ErrOut, "more: --after %s\n", next)
	}
	return nil
}

// shortCodes are the first two codes, and how many more there are.
func shortCodes(codes []string) string {
	codes = slices.Compact(slices.Clone(codes))
	const most = 2
	if len(codes) <= most {
		return strings.Join(codes, ",")
	}
	return fmt.Sprintf("%s +%d", strings.Join(codes[:most], ","), len(codes)-most)
}

// shortMethod is a method as a table shows it.
func shortMethod(v decisionView) string {
	m := path.Base(v.Method)
	if v.DryRun {
		m += " (dry run)"
	} else if v.Mode != "" {
		m += " (" + v.Mode + ")"
	}
	if v.Count > 1 {
		m += fmt.Sprintf(" ×%d", v.Count)
	}
	return m
}

type showCmd struct {
	DatabaseFlags
	ID string `arg:"" help:"Decision id, as a refusal, a trailer or the list names it."`
}

func (d *showCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	id, err := cli.ParseID(d.ID)
	if err != nil {
		return err
	}
	pool, err := d.OpenBook(ctx, from)
	if err != nil {
		return err
	}
	defer pool.Close()
	book := audit.NewReader(pool)
	row, err := book.Get(ctx, id)
	if errors.Is(err, audit.ErrNotFound) {
		return fmt.Errorf("no decision has the id %s", id)
	}
	if err != nil {
		return err
	}
	entry, err := audit.ParseEntry(row.Record)
	if err != nil {
		return fmt.Errorf("reading the record of %s: %w", id, err)
	}
	if g.Output != "table" {
		var whole any
		if err := json.Unmarshal(row.Record, &whole); err != nil {
			return err
		}
		return g.Print(map[string]any{"decision": viewDecision(&row), "record": whole, "outcomes": viewOutcomes(row.Outcomes)}, nil, nil)
	}
	showDecision(g.Out, &row, &entry)
	return nil
}
