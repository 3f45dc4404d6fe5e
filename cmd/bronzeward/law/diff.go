package law

import (
	"context"
	"fmt"
	"strings"

	"github.com/neticdk/go-stdlib/diff/myers"

	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

type policyDiffCmd struct {
	book.ReachFlags
	A     string `arg:"" help:"A law: a directory, a revision, live or shipped."`
	B     string `arg:"" help:"Another."`
	Brief bool   `help:"Leave the lines of the files out."`
}

// lawDiff is how two laws differ, with the lines of their files.
type lawDiff struct {
	policy.Difference
	// Unified is a unified diff of all files, as patch and git apply read it.
	Unified string `json:"unified"`
}

// Run says how two laws differ.
func (p *policyDiffCmd) Run(ctx context.Context, g *cli.Globals, from book.Settings) error {
	laws, closing := namedAt(p.ReachFlags, g, from)
	defer closing()
	a, err := laws.find(ctx, p.A)
	if err != nil {
		return err
	}
	b, err := laws.find(ctx, p.B)
	if err != nil {
		return err
	}
	d := lawDiff{}
	if d.Difference, err = policy.Diff(a, b); err != nil {
		return err
	}
	if !p.Brief {
		if d.Unified, err = unified(d.Files); err != nil {
			return err
		}
	}
	if err := showDiff(g, &d); err != nil {
		return err
	}
	if !d.Empty() {
		return cli.ErrChanged
	}
	return nil
}

func showDiff(g *cli.Globals, d *lawDiff) error {
	if g.Output != "table" {
		return g.Print(d, nil, nil)
	}
	if d.Empty() {
		g.Say("no difference: both are revision %.12s", d.To)
		return nil
	}
	g.Say("from revision %.12s to %.12s", d.From, d.To)
	if err := g.Table([]string{"WHAT", "HOW", "WHICH", "BEFORE", "AFTER"}, func(row func(...string)) {
		for _, f := range d.Files {
			row("file", f.How, f.Path, "", "")
		}
		for _, r := range d.Rules {
			row("rule", r.How, r.Code+" "+r.Title, "", "")
		}
		for _, v := range d.Data {
			row("data", v.How, v.Key, cut(string(v.Before)), cut(string(v.After)))
		}
	}); err != nil {
		return err
	}
	if d.Unified != "" {
		fmt.Fprintf(g.Out, "\n%s", d.Unified)
	}
	return nil
}

// cut shortens a value for a table; the lines below have all of it.
func cut(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}

// mostLines is how long a file may be whose lines are compared; a longer one is said to differ.
const mostLines = 75_000

// unified is a unified diff of files.
func unified(files []policy.FileDifference) (string, error) {
	// Of the library's ways only the one whose time and space are linear is taken.
	differ := myers.NewCustomDiffer(myers.WithUnifiedFormatter(), myers.WithLinearSpace(true), myers.WithSmallInputThreshold(0), myers.WithLargeInputThreshold(mostLines))
	var out strings.Builder
	for _, f := range files {
		before, after := "a/"+f.Path, "b/"+f.Path
		switch f.How {
		case policy.DiffAdded:
			before = "/dev/null"
		case policy.DiffRemoved:
			after = "/dev/null"
		}
		fmt.Fprintf(&out, "--- %s\n+++ %s\n", before, after)
		if n := strings.Count(string(f.Before), "\n") + strings.Count(string(f.After), "\n"); n > mostLines {
			fmt.Fprintf(&out, "too many lines to compare (%d)\n", n)
			continue
		}
		if len(f.Before)+len(f.After) == 0 {
			continue // an empty file came or went
		}
		text, err := differ.Diff(string(f.Before), string(f.After))
		if err != nil {
			return "", fmt.Errorf("comparing %s: %w", f.Path, err)
		}
		lines, ok := strings.CutPrefix(text, "--- a\n+++ b\n")
		if !ok {
			return "", fmt.Errorf("comparing %s: no unified diff came", f.Path)
		}
		out.WriteString(lines)
	}
	return out.String(), nil
}
