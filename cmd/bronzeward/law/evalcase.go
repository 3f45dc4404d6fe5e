package law

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
	"bronzeward/policytest"
)

// text is the call's facts as JSON: of the book's record as it stands there.
func (c *evalCall) text() ([]byte, error) {
	if c.raw != nil {
		return c.raw, nil
	}
	return json.Marshal(c.facts)
}

// print prints the facts, so that they can be edited and judged again.
func (c *evalCall) print(g *cli.Globals) error {
	raw, err := c.text()
	if err != nil {
		return err
	}
	return asDocument(g, json.RawMessage(raw))
}

// printCase prints a case file of the call that holds by this law.
func (c *evalCall) printCase(ctx context.Context, g *cli.Globals, claim string, e *policy.Engine) error {
	if c.recorded != nil && c.recorded.Act != nil {
		return cli.Usage(errors.New("cases are of calls, and this is an act"))
	}
	raw, err := c.text()
	if err != nil {
		return err
	}
	doc, err := policy.DecodeDocument(raw)
	if err != nil {
		return err
	}
	f := policytest.File{Base: doc.(map[string]any)}
	if c.of != nil {
		f.Data = c.of.Data
	}
	// A case's facts are read as a file's are, whatever the record lacks.
	facts, err := policy.DecodeFacts(raw)
	if err != nil {
		return err
	}
	d := e.Decide(ctx, facts)
	want := policytest.Want{Verdict: "allow", Codes: codesOf(d.Denials()), Warnings: codesOf(d.Warnings()), Required: &d.Approvals.Required}
	if !d.Allow {
		want.Verdict = "deny"
	}
	f.Cases = []policytest.Case{{Name: claim, Facts: map[string]any{}, Want: want}}
	return asDocument(g, f)
}

// codesOf are the codes of reasons, each once.
func codesOf(reasons []policy.Reason) (out []string) {
	for _, r := range reasons {
		if !slices.Contains(out, r.Code) {
			out = append(out, r.Code)
		}
	}
	return out
}

// asDocument prints a value for another program to read: YAML, or JSON where that is asked for.
func asDocument(g *cli.Globals, value any) error {
	to := *g
	to.Out = g.Raw()
	if to.Output == "table" {
		to.Output = "yaml"
	}
	return to.Print(value, nil, nil)
}
