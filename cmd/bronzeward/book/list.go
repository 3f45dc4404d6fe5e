package book

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// Commands are the decisions commands.
type Commands struct {
	List     listCmd     `cmd:"" help:"List decisions, newest first." aliases:"ls"`
	Show     showCmd     `cmd:"" help:"Show one decision: who, what, which rules, and what became of it."`
	Tail     tailCmd     `cmd:"" help:"Show the newest decisions, and follow those to come, in the order of the book's tree."`
	Timeline timelineCmd `cmd:"" help:"Tell what was done to one machine, or tried, oldest first."`
	Stats    statsCmd    `cmd:"" help:"Count decisions by verdict, reason, machine and person. It needs a database login."`
	Export   exportCmd   `cmd:"" help:"Write the book as JSON Lines, in the order of its tree. It needs a database login."`

	Verify     verifyCmd     `cmd:"" help:"Verify the whole book: every row, the tree, all checkpoints. It needs a database login."`
	Prove      proveCmd      `cmd:"" help:"Print the proof that a decision and its outcomes stand in the book, as a file for anybody."`
	Check      checkCmd      `cmd:"" help:"Check a proof with the public key alone: no database, no gateway, no network."`
	Checkpoint checkpointCmd `cmd:"" help:"Print the newest signed checkpoint, and keep it on this computer."`
}

// filterFlags say which decisions are wanted.
type filterFlags struct {
	Machine string `short:"m" help:"Only decisions about this machine."`
	Cluster string `help:"Only decisions about this cluster."`
	Subject string `help:"Only decisions about this person's calls."`
	Issuer  string `help:"Only callers of this issuer."`
	Method  string `help:"Only this method; ApplyConfiguration is enough for the full name."`
	Class   string `help:"Only this class of method: read, apply, mutate and so on."`
	Verdict string `help:"Only this verdict: allow, deny or refuse."`
	Kind    string `help:"Only this kind: rpc, http, policy or system."`
	Code    string `help:"Only decisions with this reason, such as BW-MODE-001."`
	Digest  string `help:"Only decisions about this configuration digest."`
	File    string `placeholder:"FILE" help:"Only decisions about the configuration in this file, or - for standard input: a gateway is asked for its digests, under every key it keeps."`
	Path    string `help:"Only decisions that change this path of the configuration, or something in it: machine.sysctls."`
	Change  string `help:"Only decisions about this change."`
	Attempt string `help:"Only the decision of this attempt."`
	Since   string `help:"Only the last so much time, such as 24h or 7d, or from a time on, written like --from."`
	From    string `help:"Only from this time on: 2026-11-30T08:00:00Z, or a day, 2026-11-30, in your zone."`
	Until   string `help:"Only before this time, written like --from."`
}

func (d *filterFlags) filter() (audit.Filter, error) {
	f := audit.Filter{
		Machine: d.Machine, Cluster: d.Cluster, Subject: d.Subject, Issuer: d.Issuer, Class: d.Class, Verdict: audit.Verdict(d.Verdict),
		Kind: audit.Kind(d.Kind), Code: d.Code, Path: d.Path, ChangeID: d.Change, Method: fullMethod(d.Method),
	}
	if d.Digest != "" {
		f.Digests = []string{d.Digest}
	}
	if d.Since != "" && d.From != "" {
		return f, cli.Usage(errors.New("--since and --from both say where to begin: give one"))
	}
	if d.Change != "" && !strings.HasPrefix(d.Change, "chg_") {
		return f, cli.Usage(fmt.Errorf("--change %q is no change: those begin with chg_", d.Change))
	}
	if d.Digest != "" && !strings.Contains(d.Digest, ":") {
		return f, cli.Usage(fmt.Errorf("--digest %q is no digest: those begin with a scheme and a key, as in hmac-sha256:k1:6f1086a9", d.Digest))
	}
	var errs [3]error
	f.Since, errs[0] = cli.Moment("--from", d.From)
	f.Until, errs[1] = cli.Moment("--until", d.Until)
	if d.Since != "" {
		f.Since, errs[2] = endOf("--since", d.Since)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return f, cli.Usage(err)
	}
	if d.Attempt != "" {
		id, err := cli.ParseID(d.Attempt)
		if err != nil {
			return f, err
		}
		f.AttemptID = id
	}
	if err := f.Validate(); err != nil {
		return f, cli.Usage(fmt.Errorf("these filters find nothing: %w", err))
	}
	return f, nil
}

// ownOnly refuses another person's calls together with --own.
func (d *filterFlags) ownOnly(own bool) error {
	if own && (d.Subject != "" || d.Issuer != "") {
		return cli.Usage(errors.New("--own shows your own calls: leave --subject and --issuer out"))
	}
	return nil
}

// fullMethod completes a bare method name: almost all are MachineService's.
func fullMethod(m string) string {
	if m == "" || strings.ContainsAny(m, "/.") {
		return m
	}
	return "/machine.MachineService/" + m
}

type listCmd struct {
	SourceFlags
	filterFlags
	Limit  int    `default:"50" help:"At most this many, up to 1000."`
	Oldest bool   `help:"Oldest first."`
	After  string `help:"Continue after this cursor, as printed by the page before."`
}

// Formats are what this prints beside table, json and yaml.
func (*listCmd) Formats() []string { return []string{"csv", "wide"} }

// Run prints one page.
func (d *listCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	f, err := d.filter()
	if err != nil {
		return err
	}
	if err := d.ownOnly(d.Own); err != nil {
		return err
	}
	if d.Limit < 1 || d.Limit > audit.MaxLimit {
		return cli.Usage(fmt.Errorf("--limit %d is not between 1 and %d; --after continues where a page ended", d.Limit, audit.MaxLimit))
	}
	if err := d.checkCursor(from, d.After); err != nil {
		return err
	}
	if err := d.digests(ctx, g, d.Flags, &f); err != nil {
		return err
	}
	where, done, err := d.open(ctx, g, from)
	if err != nil {
		return err
	}
	defer done()
	end := g.NewProgress().Begin("looking for decisions")
	list, next, err := where.list(ctx, question{Filter: f, limit: d.Limit, oldest: d.Oldest, after: d.After})
	end()
	if err != nil {
		return err
	}
	if err := printList(g, list); err != nil {
		return err
	}
	g.More(len(list), "no decision matches", next)
	return nil
}

// printList prints decisions in the format that is asked for.
func printList(g *cli.Globals, list []decision) error {
	switch g.Output {
	case "csv":
		return writeCSV(g.Out, list)
	case "wide":
		return g.Table([]string{"TIME", "WHO", "ISSUER", "FROM", "MACHINE", "CLUSTER", "METHOD", "CLASS", "VERDICT", "WHY", "OUTCOME", "CHANGE", "ATTEMPT", "DIGEST", "ID"}, func(row func(...string)) {
			for _, v := range list {
				row(cli.Stamp(&v.Time), cli.ASCII(v.Subject), cli.ASCII(v.Issuer), v.Client, v.Machine, v.Cluster, methodText(v), v.Class, v.Verdict,
					strings.Join(slices.Compact(slices.Clone(v.Codes)), ","), v.Outcome, v.Change, v.Attempt, v.Digest, v.ID)
			}
		})
	}
	return g.Print(list, tableHeader(), func(row func(...string)) {
		for _, v := range list {
			row(tableRow(v)...)
		}
	})
}

func tableHeader() []string {
	return []string{"TIME", "WHO", "MACHINE", "METHOD", "VERDICT", "WHY", "OUTCOME", "ID"}
}

func tableRow(v decision) []string {
	return []string{cli.Stamp(&v.Time), cli.ASCII(v.Subject), v.Machine, methodText(v), v.Verdict, shortCodes(v.Codes), v.Outcome, v.ID}
}

// shortCodes are the first two codes, and how many more there are.
func shortCodes(codes []string) string {
	codes = slices.Compact(slices.Clone(codes))
	const most = 2
	if len(codes) <= most {
		return strings.Join(codes, ",")
	}
	return fmt.Sprintf("%s +%d", strings.Join(codes[:most], ","), len(codes)-most)
}

// methodText is a method as a table shows it.
func methodText(v decision) string {
	m := path.Base(v.Method)
	if v.Method == "" {
		m = ""
	}
	if v.Resource != "" {
		m += " " + v.Resource
	}
	if v.DryRun {
		m += " (dry run)"
	} else if v.Mode != "" {
		m += " (" + v.Mode + ")"
	}
	if v.Count > 1 {
		m += fmt.Sprintf(" ×%d", v.Count)
	}
	return strings.TrimSpace(m)
}

// at is a time as RFC 3339, empty for the zero time.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(recordedFormat)
}
