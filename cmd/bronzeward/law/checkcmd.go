package law

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

type policyCheckCmd struct {
	Dir   string `arg:"" help:"Directory with the law." type:"existingdir"`
	Regal string `default:"regal" placeholder:"FILE" help:"Regal's program, whose findings are listed too; \"\" leaves it out. Without it on PATH the rest is checked."`
}

// Run says everything that is wrong with a directory.
func (p *policyCheckCmd) Run(ctx context.Context, g *cli.Globals) error {
	faults, err := policy.Check(ctx, os.DirFS(p.Dir))
	if err != nil {
		return cli.Usage(err)
	}
	linted, err := p.lint(ctx, g)
	if err != nil {
		return err
	}
	faults = append(faults, linted...)
	slices.SortStableFunc(faults, func(a, b policy.Fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	if g.Output == "table" && len(faults) == 0 {
		return p.whole(g)
	}
	if err := g.Print(faults, []string{"PLACE", "PROBLEM", "WHAT TO DO"}, func(row func(...string)) {
		for _, f := range faults {
			row(fmt.Sprintf("%s:%d", f.File, f.Line), f.Message, f.Hint)
		}
	}); err != nil {
		return err
	}
	if len(faults) > 0 {
		return cli.ErrChanged
	}
	return p.whole(g)
}

// whole says that nothing is wrong, unless the directory holds no law.
func (p *policyCheckCmd) whole(g *cli.Globals) error {
	if b, err := policy.Load(os.DirFS(p.Dir)); err != nil || !slices.ContainsFunc(b.Files(), func(f policy.File) bool {
		return strings.HasPrefix(f.Path, "bronzeward/") && strings.HasSuffix(f.Path, ".rego")
	}) {
		fmt.Fprintf(g.ErrOut, "%s holds no rule under bronzeward/: is it the law's top folder, as `policy init` writes it?\n", p.Dir)
		return cli.ErrChanged
	}
	if g.Output == "table" {
		fmt.Fprintln(g.Out, "no problem found")
	}
	return nil
}
