package law

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
	"bronzeward/policytest"
)

type policyTestCmd struct {
	Dir         string  `arg:"" optional:"" help:"Directory with the law; the shipped one when left out."`
	Verbose     bool    `short:"v" help:"Name what passed with its time, and the lines no test reaches, too."`
	Run_        string  `name:"run" placeholder:"REGEX" help:"Only tests and cases with such a name, data.PACKAGE.test_NAME or FILE: CASE."`
	CoverageMin float64 `placeholder:"PERCENT" help:"Fail when the Rego tests reach fewer of the law's lines."`
	Junit       string  `name:"junit" placeholder:"FILE" help:"Write the results as JUnit XML too."`
	Watch       bool    `help:"Run again when a file of the directory changes, until Ctrl-C."`
}

// tested is how a law's tests and cases went.
type tested struct {
	policy.TestReport
	Cases []policytest.Result `json:"cases"`
	// CasesFailed is how many of them do not hold.
	CasesFailed int `json:"cases_failed"`
}

func (t tested) good() bool {
	return len(t.Failed) == 0 && t.CasesFailed == 0 && len(t.Passed)+len(t.Cases) > 0
}

// Run runs the tests, once or at every change.
func (p *policyTestCmd) Run(ctx context.Context, g *cli.Globals) error {
	match, err := regexp.Compile(p.Run_)
	switch {
	case err != nil:
		return cli.Usage(fmt.Errorf("--run: %w", err))
	case p.Watch && p.Dir == "":
		return cli.Usage(fmt.Errorf("--watch needs a directory"))
	case p.CoverageMin > 0 && p.Run_ != "":
		return cli.Usage(fmt.Errorf("--coverage-min is about all tests: leave --run out"))
	}
	if !p.Watch {
		return p.once(ctx, g, match)
	}
	return watch(ctx, p.Dir, func() {
		fmt.Fprintf(g.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), p.Dir)
		if err := p.once(ctx, g, match); err != nil && err != cli.ErrChanged && ctx.Err() == nil {
			fmt.Fprintln(g.Out, err)
		}
	})
}

// once runs them all one time.
func (p *policyTestCmd) once(ctx context.Context, g *cli.Globals, match *regexp.Regexp) error {
	b, err := loadBundle(p.Dir)
	if err != nil {
		return err
	}
	var t tested
	if t.TestReport, err = policy.TestSome(ctx, b, p.Run_); err != nil {
		return err
	}
	cases, err := casesOf(p.Dir)
	if err != nil {
		return err
	}
	if cases != nil {
		if t.Cases, err = policytest.RunSome(ctx, b, cases, match.MatchString); err != nil {
			return cli.Usage(fmt.Errorf("running the cases: %w", err))
		}
	}
	for _, c := range t.Cases {
		if !c.Holds() {
			t.CasesFailed++
		}
	}
	if p.Junit != "" {
		if err := writeJUnit(p.Junit, &t); err != nil {
			return err
		}
	}
	if g.Output != "table" {
		if err := g.Print(t, nil, nil); err != nil {
			return err
		}
	} else {
		showTests(g, &t, p.Verbose)
	}
	if !t.good() {
		return cli.ErrChanged
	}
	if t.Coverage < p.CoverageMin {
		fmt.Fprintf(g.ErrOut, "the tests reach %.1f %% of the law's lines, fewer than %g %%; -v names the others\n", t.Coverage, p.CoverageMin)
		return cli.ErrChanged
	}
	return nil
}

// casesOf are the case files of a directory, nil when it has none.
func casesOf(dir string) (fs.FS, error) {
	if dir == "" {
		return policytest.Shipped()
	}
	at := filepath.Join(dir, casesDir)
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return nil, nil // an archive holds none either
	}
	return os.DirFS(at), nil
}

func showTests(g *cli.Globals, t *tested, verbose bool) {
	for _, f := range t.Failed {
		fmt.Fprintf(g.Out, "FAIL  %s (%s:%d)\n      %s\n", f.Name, f.File, f.Line, f.Message)
	}
	for _, c := range t.Cases {
		if c.Holds() {
			continue
		}
		fmt.Fprintf(g.Out, "FAIL  %s (%s/%s:%d)\n", c.Name, casesDir, c.File, c.Line)
		for _, f := range c.Failures {
			fmt.Fprintf(g.Out, "      %s\n", f)
		}
	}
	if verbose {
		for _, f := range t.Passed {
			fmt.Fprintf(g.Out, "ok    %s (%s)\n", f.Name, f.Took.Round(time.Microsecond))
		}
		for _, c := range t.Cases {
			if c.Holds() {
				fmt.Fprintf(g.Out, "ok    %s (%s)\n", c.Name, c.Took.Round(time.Microsecond))
			}
		}
		for _, m := range t.Missed {
			fmt.Fprintf(g.Out, "no test reaches %s\n", m)
		}
	}
	fmt.Fprintf(g.Out, "%d passed, %d failed, coverage %.1f %%", len(t.Passed), len(t.Failed), t.Coverage)
	if len(t.Cases) > 0 {
		fmt.Fprintf(g.Out, "; %d cases hold, %d do not", len(t.Cases)-t.CasesFailed, t.CasesFailed)
	}
	fmt.Fprintln(g.Out)
}
