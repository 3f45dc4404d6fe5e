// Package law is the commands about the law: check, test, explain and activate it.
package law

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway"
	"bronzeward/policy"
)

// Commands are the commands about the law.
type Commands struct {
	Init     policyInitCmd     `cmd:"" help:"Write the shipped law into a directory, to edit."`
	Check    policyCheckCmd    `cmd:"" help:"Say everything that is wrong with a directory of rules; exit code 3 if anything is."`
	Test     policyTestCmd     `cmd:"" help:"Run the directory's Rego tests and case files, with coverage; exit code 3 if one fails."`
	Fmt      policyFmtCmd      `cmd:"" help:"Write the directory's Rego files as opa fmt does."`
	Bench    policyBenchCmd    `cmd:"" help:"Measure how long the law takes for the sample calls, or for the facts of one."`
	Docs     policyDocsCmd     `cmd:"" help:"Print a page of every code: what it means, its step, how to pass it, where it is."`
	Eval     policyEvalCmd     `cmd:"" help:"Judge the facts of one call and say which rules fired, and why the others did not."`
	Explain  policyExplainCmd  `cmd:"" help:"Judge a past decision again and say which rules fired on which facts, and why the others did not."`
	Replay   policyReplayCmd   `cmd:"" help:"Judge past decisions again, by a draft or by their own law; exit code 3 when one comes out otherwise. It needs a database login."`
	Shadow   policyShadowCmd   `cmd:"" help:"Say whom rules on the steps shadow and warn would have refused. It needs a database login."`
	Diff     policyDiffCmd     `cmd:"" help:"Say how two laws differ: files, rules, data; exit code 3 when they do."`
	Activate policyActivateCmd `cmd:"" help:"Make a directory the live law, after its trial."`
	Status   policyStatusCmd   `cmd:"" help:"Say which revision is live."`
}

func loadBundle(dir string) (*policy.Bundle, error) {
	if dir == "" {
		return policy.Shipped()
	}
	b, err := policy.Load(os.DirFS(dir))
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading the law in %s:\n%w", dir, err))
	}
	return b, nil
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

type policyActivateCmd struct {
	ask.CredentialFlags
	GateFlags
	Dir string `arg:"" help:"Directory with the law."`
}

func (p *policyActivateCmd) Run(ctx context.Context, g *cli.Globals) error {
	b, err := loadBundle(p.Dir)
	if err != nil {
		return fmt.Errorf("%w\nthe live one stays", err)
	}
	since, limited, err := p.span()
	if err != nil {
		return err
	}
	if _, err := requestOf(p.CredentialFlags); err != nil { // before the trial, which takes a while
		return err
	}
	fmt.Fprintln(g.ErrOut, "trying the law: compiled strictly, its own tests, the sample calls …")
	began := time.Now()
	if err := policy.Trial(ctx, b); err != nil {
		return fmt.Errorf("the law in %s does not pass its trial, and the live one stays:\n%w", p.Dir, err)
	}
	fmt.Fprintf(g.ErrOut, "trial passed after %s\n", time.Since(began).Round(time.Millisecond))
	d, err := openDesk(ctx, g, p.CredentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	if limited {
		if err := p.pass(ctx, g, book.PastOf(d.store.Pool()), since, b); err != nil {
			return err
		}
	}
	receipt, err := d.acts.Activate(ctx, d.actor, b)
	if untold := (*gateway.NotAnchoredError)(nil); errors.As(err, &untold) {
		return fmt.Errorf("revision %s is live: %w", b.Revision(), err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "revision %s is live (decision %s)\n", b.Revision(), receipt.ID)
	return nil
}

type policyStatusCmd struct{}

func (p *policyStatusCmd) Run(ctx context.Context, g *cli.Globals) error {
	store, done, err := openStore(ctx, g)
	if err != nil {
		return err
	}
	defer done()
	snap := store.Snapshot()
	shipped, err := policy.Shipped()
	if err != nil {
		return err
	}
	return g.Print(map[string]any{
		"live_revision": snap.LiveRevision, "counter": snap.BundleCounter, "shipped_revision": shipped.Revision(), "opa": policy.OPAVersion(),
	}, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		row("live revision", snap.LiveRevision)
		row("activations", fmt.Sprint(snap.BundleCounter))
		row("shipped with this binary", shipped.Revision())
		row("opa", policy.OPAVersion())
	})
}
