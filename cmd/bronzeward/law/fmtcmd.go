package law

import (
	"fmt"
	"os"
	"path/filepath"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

type policyFmtCmd struct {
	Dir   string `arg:"" help:"Directory with the law." type:"existingdir"`
	Check bool   `xor:"how" help:"Write nothing; name the files that would change, with code 3 if there are any."`
	Diff  bool   `xor:"how" help:"Write nothing; show what would change, with code 3 if anything would."`
}

// Run writes the Rego files as OPA's formatter does.
func (p *policyFmtCmd) Run(g *cli.Globals) error {
	changed, err := policy.Format(os.DirFS(p.Dir))
	if err != nil {
		return cli.Usage(fmt.Errorf("formatting the law in %s; nothing was written:\n%w", p.Dir, err))
	}
	if p.Diff {
		text, err := unified(changed)
		if err != nil {
			return err
		}
		fmt.Fprint(g.Out, text)
	}
	for _, f := range changed {
		if !p.Diff {
			fmt.Fprintln(g.Out, f.Path)
		}
		if p.Check || p.Diff {
			continue
		}
		name := filepath.Join(p.Dir, filepath.FromSlash(f.Path))
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, f.After, info.Mode().Perm()); err != nil {
			return err
		}
	}
	if (p.Check || p.Diff) && len(changed) > 0 {
		return cli.ErrChanged
	}
	return nil
}
