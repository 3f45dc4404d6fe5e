package law

import (
	"fmt"
	"io"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

type policyDocsCmd struct {
	Dir string `arg:"" optional:"" help:"Directory with the law; the shipped one when left out."`
}

// Run writes a page of every code of a law.
func (p *policyDocsCmd) Run(g *cli.Globals) error {
	b, err := loadBundle(p.Dir)
	if err != nil {
		return err
	}
	rules := policy.Catalogue(b)
	if g.Output != "table" {
		return g.Print(rules, nil, nil)
	}
	writeCatalogue(g.Out, rules)
	return nil
}

// writeCatalogue writes the rules as Markdown, a table for each area.
func writeCatalogue(w io.Writer, rules []policy.RuleEntry) {
	fmt.Fprintf(w, "# The rules of the law\n\n<!-- Written by bronzeward policy docs from the rules' METADATA. DO NOT EDIT. -->\n\n")
	fmt.Fprintf(w, "%d rules have a code. The step is the ladder's: `deny` refuses, `warn` is shown, `shadow` is recorded.\n", len(rules))
	area := ""
	for _, r := range rules {
		if r.Area != area {
			area = r.Area
			fmt.Fprintf(w, "\n## %s\n\n| code | step | what it means | how to pass it | where |\n|---|---|---|---|---|\n", area)
		}
		hint := "–"
		if r.Hint != "" {
			hint = cell(r.Hint)
		}
		fmt.Fprintf(w, "| `%s` | %s | **%s**. %s | %s | `%s:%d` |\n", r.Code, r.Step, cell(r.Title), cell(r.Description), hint, r.File, r.Line)
	}
}

// cell keeps a text within its cell of a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}
