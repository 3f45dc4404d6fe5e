package law

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
	"bronzeward/policytest"
)

type policyInitCmd struct {
	book.ReachFlags
	Dir  string `arg:"" help:"Directory to write; it must not exist or be empty."`
	From string `placeholder:"LAW" default:"shipped" help:"The law to begin with: live, a revision or a directory; the shipped one when left out. What is saved is read at a gateway, or in the database."`
}

// Run lays down what a security engineer edits: the law, its tests, case files, schemas for editors,
// Regal's configuration and the contract on one page.
func (p *policyInitCmd) Run(ctx context.Context, g *cli.Globals, from book.Settings) error {
	if entries, err := os.ReadDir(p.Dir); err == nil && len(entries) > 0 {
		return cli.Usage(fmt.Errorf("%s is not empty", p.Dir))
	}
	files, err := template()
	if err != nil {
		return err
	}
	what := ""
	if p.From != "shipped" {
		laws, closing := namedAt(p.ReachFlags, g, from)
		defer closing()
		law, err := laws.find(ctx, p.From)
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f policy.File) bool { return policy.Belongs(f.Path) })
		files = append(files, law.Files()...)
		what = fmt.Sprintf(", among them the law %s, revision %.12s", p.From, law.Revision())
		if p.From == "live" {
			what = fmt.Sprintf(", among them the live law, revision %.12s", law.Revision())
		}
	}
	if err := writeFiles(p.Dir, files); err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "%d files written to %s%s; %s says what they are\nnext: bronzeward policy test %s\n",
		len(files), p.Dir, what, filepath.Join(p.Dir, "README.md"), p.Dir)
	return nil
}

// casesDir is where a law's directory keeps its case files. Each has a folder of its own there, so
// that OPA, which reads every YAML file of a directory as data, finds no two at one place.
const casesDir = "cases"

// template is what init writes.
func template() ([]policy.File, error) {
	law, err := policy.Template()
	if err != nil {
		return nil, err
	}
	files, err := filesOf(law, func(p string) string { return p }, nil)
	if err != nil {
		return nil, err
	}
	cases, err := policytest.Shipped()
	if err != nil {
		return nil, err
	}
	more, err := filesOf(cases, func(p string) string {
		name := strings.TrimSuffix(path.Base(p), path.Ext(p))
		return path.Join(casesDir, name, name+".yaml")
	}, []byte("# yaml-language-server: $schema=../schema/schema.json\n"))
	if err != nil {
		return nil, err
	}
	files = append(files, more...)
	return append(files, policy.File{Path: casesDir + "/schema/schema.json", Body: policytest.CaseSchema()}), nil
}

func filesOf(fsys fs.FS, to func(string) string, head []byte) ([]policy.File, error) {
	var out []policy.File
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(fsys, p)
		out = append(out, policy.File{Path: to(p), Body: append(append([]byte{}, head...), body...)})
		return err
	})
	return out, err
}
