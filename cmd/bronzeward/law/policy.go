// Package law is the commands about the law: check, test, explain and activate it.
package law

import (
	"fmt"
	"os"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

// Commands are the commands about the law.
type Commands struct {
	Init     policyInitCmd     `cmd:"" help:"Write the shipped law, or --from another, into a directory, to edit."`
	Check    policyCheckCmd    `cmd:"" help:"Say everything that is wrong with a directory of rules; exit code 3 if anything is."`
	Test     policyTestCmd     `cmd:"" help:"Run the directory's Rego tests and case files, with coverage; exit code 3 if one fails."`
	Fmt      policyFmtCmd      `cmd:"" help:"Write the directory's Rego files as opa fmt does."`
	Bench    policyBenchCmd    `cmd:"" help:"Measure how long the law takes for the sample calls, or for the facts of one."`
	Docs     policyDocsCmd     `cmd:"" help:"Print a page of every code: what it means, its step, how to pass it, where it is."`
	Eval     policyEvalCmd     `cmd:"" help:"Judge one call, recorded or supposed, and say which rules fired on which facts, and why the others did not; exit code 4 when it is denied."`
	Explain  policyExplainCmd  `cmd:"" help:"Judge a past decision again and say which rules fired on which facts, and why the others did not."`
	Replay   policyReplayCmd   `cmd:"" help:"Judge past decisions again, by a draft or by their own law; exit code 3 when one comes out otherwise."`
	Shadow   policyShadowCmd   `cmd:"" help:"Say whom rules on the steps shadow and warn would have refused."`
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
