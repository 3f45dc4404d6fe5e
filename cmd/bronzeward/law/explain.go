package law

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
	"bronzeward/policytest/replay"
)

type policyExplainCmd struct {
	book.SourceFlags
	ID     string `arg:"" help:"Decision id, as a refusal, a receipt or the list names it: all of it."`
	Bundle string `short:"b" placeholder:"LAW" help:"The law to judge by: a directory, a revision, live or shipped. Left out, the law that decided then."`
}

// explained is a past decision and what a law says of it.
type explained struct {
	// Decision is what stands in the book.
	Decision struct {
		ID       string          `json:"id"`
		Verdict  audit.Verdict   `json:"verdict"`
		Method   string          `json:"method"`
		Machine  string          `json:"machine"`
		Subject  string          `json:"subject"`
		Revision string          `json:"revision"`
		Reasons  []policy.Reason `json:"reasons"`
	} `json:"decision"`
	// Again is what the law says of the facts recorded with it.
	Again policy.Explanation `json:"again"`
	// Lacks are facts that the record does not have.
	Lacks []string `json:"lacks"`
}

// Run says why a past decision came out as it did, or how it would by another law.
func (p *policyExplainCmd) Run(ctx context.Context, g *cli.Globals, from book.Settings) error {
	e, past, done, err := p.OpenOne(ctx, g, from, p.ID)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case len(e.Facts) == 0:
		return cli.Usage(fmt.Errorf("no law decided %s, so that there are no facts to judge it on: bronzeward decisions show %s says what did", e.ID, e.ID))
	case p.Bundle == "" && e.PolicyRevision == "":
		return cli.Usage(fmt.Errorf("no law decided %s: give --bundle to see what one says of its facts", e.ID))
	}
	facts, err := policy.ReadRecorded(e.Facts)
	if err != nil {
		return fmt.Errorf("reading the facts of %s: %w", e.ID, err)
	}
	b, err := p.law(ctx, past, &e)
	if err != nil {
		return err
	}
	engine, err := ready(ctx, b)
	if err != nil {
		return cli.Usage(fmt.Errorf("the law cannot judge:\n%w", err))
	}
	x := explained{Lacks: append([]string{}, facts.Lacking...)}
	d := &x.Decision
	d.ID, d.Verdict, d.Method, d.Machine, d.Subject, d.Revision = e.ID.String(), e.Verdict, e.Method, e.MachineName, e.Caller.Subject, e.PolicyRevision
	d.Reasons = append([]policy.Reason{}, e.Reasons...)
	if x.Again, err = engine.ExplainRecorded(ctx, facts); err != nil {
		return err
	}
	if g.Output != "table" {
		return g.Print(x, nil, nil)
	}
	showExplained(g.Out, &x)
	return nil
}

// law is the law to judge by.
func (p *policyExplainCmd) law(ctx context.Context, past book.Past, e *audit.Entry) (*policy.Bundle, error) {
	open := func(context.Context) (book.Past, error) { return past, nil }
	name := p.Bundle
	if name == "" {
		shipped, err := policy.Shipped()
		if err != nil {
			return nil, err
		}
		if shipped.Revision() == e.PolicyRevision {
			return shipped, nil
		}
		name = e.PolicyRevision
		if !book.RevisionLike(name) {
			return nil, fmt.Errorf("%w: %q is no revision", replay.ErrNotKept, name)
		}
	}
	return named{open}.find(ctx, name)
}

// showExplained prints what was decided and what a law says of it.
func showExplained(w io.Writer, x *explained) {
	d := &x.Decision
	fmt.Fprintf(w, "decision %s: %s, by revision %.12s\n", d.ID, strings.ToUpper(string(d.Verdict)), d.Revision)
	fmt.Fprintf(w, "  %s %s %s\n", cli.ASCII(d.Subject), cli.OneLine(d.Method), cli.OneLine(d.Machine))
	for _, r := range d.Reasons {
		if !slices.Contains(x.Again.Decision.Reasons, r) {
			fmt.Fprintf(w, "  %s %-6s %s (then, by %s)\n", r.Code, r.Severity, cli.OneLine(r.Message), r.Rule)
		}
	}
	for _, fact := range x.Lacks {
		fmt.Fprintf(w, "  the record does not have %s: it is undefined below\n", fact)
	}
	fmt.Fprintln(w)
	showExplanation(w, x.Again)
}
