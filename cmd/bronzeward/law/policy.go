// Package law is the commands about the law: check, test, explain and activate it.
package law

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

// Commands are the commands about the law.
type Commands struct {
	Init     policyInitCmd     `cmd:"" help:"Write the shipped law into a directory, to edit."`
	Check    policyCheckCmd    `cmd:"" help:"Say everything that is wrong with a directory of rules; exit code 3 if anything is."`
	Test     policyTestCmd     `cmd:"" help:"Run the directory's Rego tests, with coverage; exit code 3 if one fails."`
	Eval     policyEvalCmd     `cmd:"" help:"Judge the facts of one call and say which rules fired, and why the others did not."`
	Explain  policyExplainCmd  `cmd:"" help:"Judge a past decision again and say which rules fired on which facts, and why the others did not."`
	Replay   policyReplayCmd   `cmd:"" help:"Judge past decisions again, by a draft or by their own law; exit code 3 when one comes out otherwise. It needs a database login."`
	Shadow   policyShadowCmd   `cmd:"" help:"Say whom rules on the steps shadow and warn would have refused. It needs a database login."`
	Diff     policyDiffCmd     `cmd:"" help:"Say how two laws differ: files, rules, data; exit code 3 when they do."`
	Save     policySaveCmd     `cmd:"" help:"Keep a law after its trial, for others to agree to, without making it live."`
	Approve  policyApproveCmd  `cmd:"" help:"Agree that a saved law becomes live, which somebody else then makes it."`
	Activate policyActivateCmd `cmd:"" help:"Make a directory, an archive or a saved law the live one, after its trial."`
	Rollback policyRollbackCmd `cmd:"" help:"Go back to a law that was live before, after its trial."`
	History  policyHistoryCmd  `cmd:"" help:"Say which laws were live, and who made them so."`
	Status   policyStatusCmd   `cmd:"" help:"Say which law is live, who made it so, and which replicas have loaded it."`
}

// loadBundle reads a directory, or an archive as OPA packs one; the shipped law without a name.
func loadBundle(name string) (*policy.Bundle, error) {
	if name == "" {
		return policy.Shipped()
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, cli.Usage(err)
	}
	load := func() (*policy.Bundle, error) { return policy.Load(os.DirFS(name)) }
	if !info.IsDir() {
		f, err := os.Open(name)
		if err != nil {
			return nil, cli.Usage(err)
		}
		defer f.Close()
		load = func() (*policy.Bundle, error) { return policy.LoadArchive(f) }
	}
	b, err := load()
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading the law in %s:\n%w", name, err))
	}
	return b, nil
}

type policyInitCmd struct {
	Dir string `arg:"" help:"Directory to write; it must not exist or be empty."`
}

func (p *policyInitCmd) Run(g *cli.Globals) error {
	if entries, err := os.ReadDir(p.Dir); err == nil && len(entries) > 0 {
		return cli.Usage(fmt.Errorf("%s is not empty", p.Dir))
	}
	shipped, err := policy.Shipped()
	if err != nil {
		return err
	}
	if err := writeBundle(p.Dir, shipped); err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "%d files written to %s\nnext: bronzeward policy test %s\n", len(shipped.Files()), p.Dir, p.Dir)
	return nil
}

type policyCheckCmd struct {
	Dir string `arg:"" help:"Directory with the law." type:"existingdir"`
}

func (p *policyCheckCmd) Run(ctx context.Context, g *cli.Globals) error {
	faults, err := policy.Check(ctx, os.DirFS(p.Dir))
	if err != nil {
		return cli.Usage(err)
	}
	if err := g.Print(faults, []string{"PLACE", "PROBLEM"}, func(row func(...string)) {
		for _, f := range faults {
			row(fmt.Sprintf("%s:%d", f.File, f.Line), f.Message)
		}
	}); err != nil {
		return err
	}
	if len(faults) > 0 {
		return cli.ErrChanged
	}
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

type policyTestCmd struct {
	Dir     string `arg:"" optional:"" help:"Directory with the law; the shipped one when left out."`
	Verbose bool   `short:"v" help:"Name the tests that passed and the lines no test reaches, too."`
}

func (p *policyTestCmd) Run(ctx context.Context, g *cli.Globals) error {
	b, err := loadBundle(p.Dir)
	if err != nil {
		return err
	}
	report, err := policy.Test(ctx, b)
	if err != nil {
		return err
	}
	if g.Output != "table" {
		if err := g.Print(report, nil, nil); err != nil {
			return err
		}
	} else {
		showTests(g, report, p.Verbose)
	}
	if len(report.Failed) > 0 || len(report.Passed) == 0 {
		return cli.ErrChanged
	}
	return nil
}

func showTests(g *cli.Globals, report policy.TestReport, verbose bool) {
	for _, t := range report.Failed {
		fmt.Fprintf(g.Out, "FAIL  %s (%s:%d)\n      %s\n", t.Name, t.File, t.Line, t.Message)
	}
	if verbose {
		for _, t := range report.Passed {
			fmt.Fprintf(g.Out, "ok    %s\n", t.Name)
		}
		for _, m := range report.Missed {
			fmt.Fprintf(g.Out, "no test reaches %s\n", m)
		}
	}
	fmt.Fprintf(g.Out, "%d passed, %d failed, coverage %.1f %%\n", len(report.Passed), len(report.Failed), report.Coverage)
}

type policyEvalCmd struct {
	Call   string `arg:"" help:"YAML file with the facts of a call." type:"existingfile"`
	Bundle string `short:"b" placeholder:"DIR" help:"Directory with the law; the shipped one when left out."`
}

func (p *policyEvalCmd) Run(ctx context.Context, g *cli.Globals) error {
	raw, err := os.ReadFile(p.Call)
	if err != nil {
		return cli.Usage(err)
	}
	b, err := loadBundle(p.Bundle)
	if err != nil {
		return err
	}
	why, err := policy.Eval(ctx, b, raw)
	if err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", p.Call, err))
	}
	if g.Output != "table" {
		return g.Print(why, nil, nil)
	}
	showExplanation(g.Out, why)
	return nil
}
