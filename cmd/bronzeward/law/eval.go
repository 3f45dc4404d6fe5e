package law

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway"
	"bronzeward/policy"
)

type policyEvalCmd struct {
	File   string `arg:"" optional:"" help:"What to judge: the facts of a call as YAML or JSON, a decision as decisions show -o json or yaml prints it, or a case file; - reads standard input. Left out, the apply that --proposed supposes."`
	Bundle string `short:"b" placeholder:"DIR" help:"Directory or archive with the law; the shipped one when left out."`
	Case   string `placeholder:"NAME" help:"Which case of a case file; needed when it has several."`
	supposeFlags
	PrintFacts bool   `help:"Print the facts, and judge nothing: YAML, or JSON with -o json."`
	PrintCase  string `placeholder:"CLAIM" help:"Print a case file of this call under that claim, wanting what the law says of it now."`
}

// evaluated is what a law says of one call.
type evaluated struct {
	policy.Explanation
	// Assumed is what was supposed and not given; empty for what is recorded.
	Assumed []string `json:"assumed"`
	// Lacks are facts that a record does not have.
	Lacks []string `json:"lacks"`
}

// Run judges a call.
func (p *policyEvalCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := p.check(); err != nil {
		return cli.Usage(err)
	}
	b, err := loadBundle(p.Bundle)
	if err != nil {
		return err
	}
	c, err := p.call(g)
	if err != nil {
		return cli.Usage(err)
	}
	if b, err = c.law(b); err != nil {
		return cli.Usage(err)
	}
	engine, err := ready(ctx, b)
	if err != nil {
		return cli.Usage(fmt.Errorf("the law cannot judge:\n%w", err))
	}
	x := evaluated{Assumed: []string{}, Lacks: []string{}}
	var beyond policy.Decision // what a gateway would decide, which no law can waive
	if p.Proposed != "" {
		if c.facts, beyond, err = p.suppose(ctx, g, engine); err != nil {
			return cli.Usage(err)
		}
		x.Assumed = p.assumed()
	}
	switch {
	case p.PrintFacts:
		return c.print(g)
	case p.PrintCase != "":
		return c.printCase(ctx, g, p.PrintCase, engine)
	}
	if x.Explanation, err = c.explain(ctx, engine); err != nil {
		return err
	}
	if p.Proposed != "" {
		x.Decision.Allow, x.Decision.Reasons = beyond.Allow, beyond.Reasons
	}
	if c.recorded != nil {
		x.Lacks = append(x.Lacks, c.recorded.Lacking...)
	}
	if err := x.print(g); err != nil {
		return err
	}
	return verdict(x.Decision)
}

// check refuses flags that contradict each other.
func (p *policyEvalCmd) check() error {
	given := p.given()
	switch {
	case p.File == "" && p.Proposed == "":
		return errors.New("nothing to judge: name a file, or a configuration with --proposed and who applies it with --as")
	case p.File != "" && len(given) > 0:
		return fmt.Errorf("%s is of a supposed apply, and %s says what was asked: give one of both", given[0], p.File)
	case p.File == "" && p.Case != "":
		return errors.New("--case is of a case file: name it")
	case p.PrintFacts && p.PrintCase != "":
		return errors.New("--print-facts and --print-case both say what to print: give one")
	case p.Proposed != "" && p.As == "":
		return errors.New("--as says who applies the configuration: the common name of their certificate, or a token's sub")
	}
	return nil
}

// call is what a file says was asked; nothing yet of what is supposed.
func (p *policyEvalCmd) call(g *cli.Globals) (*evalCall, error) {
	if p.File == "" {
		return &evalCall{}, nil
	}
	text, err := read(g, p.File, maxCallFile)
	if err != nil {
		return nil, err
	}
	c, err := readCall(text, p.Case)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.File, err)
	}
	return c, nil
}

// print prints the explanation, and what it rests on.
func (x *evaluated) print(g *cli.Globals) error {
	if g.Output != "table" {
		return g.Print(x, nil, nil)
	}
	showExplanation(g.Out, x.Explanation)
	if len(x.Assumed) > 0 {
		fmt.Fprintln(g.Out, "\nassumed")
	}
	for _, what := range x.Assumed {
		fmt.Fprintf(g.Out, "  %s\n", what)
	}
	if len(x.Lacks) > 0 {
		fmt.Fprintf(g.Out, "\nthe record does not have, so that it is undefined above: %s\n", strings.Join(x.Lacks, ", "))
	}
	return nil
}

// verdict is the end of the command: nothing of a call that is allowed.
func verdict(d policy.Decision) error {
	if d.Allow {
		return nil
	}
	var codes []string
	for _, r := range d.Denials() {
		codes = append(codes, r.Code)
	}
	if gateway.OnlyApprovals(d) {
		return cli.NotYet(fmt.Errorf("not yet: only approvals are missing (%s)", codes[0]))
	}
	return cli.Denied(fmt.Errorf("denied: %s", strings.Join(codes, ", ")))
}
