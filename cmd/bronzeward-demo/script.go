package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"bronzeward/fixtures/world"
)

// step is one command of the demo, and what its output must show. In args CHANGE, DIGEST and
// DECISION stand for what earlier steps showed.
type step struct {
	says   string
	person string
	tool   string // "talosctl" or "bronzeward"
	args   []string
	fails  bool
	home   bool // runs with what the person's login wrote, and nothing else
	must   []string
	grep   string // shows the lines with it only, and the ones after
	into   string // a file that takes what it prints
}

// seen is what earlier steps showed.
type seen struct{ change, digest, decision string }

var (
	digestOf    = regexp.MustCompile(`(?m)^digest +(\S+)`)
	completedOf = regexp.MustCompile(`(?m) completed +([0-9a-f-]{36})$`)
)

// look keeps a change's id and digest, and the id of the apply that was completed, when an output shows them.
func (s *seen) look(out string) {
	if s.change == "" {
		s.change = changeID.FindString(out)
	}
	if m := digestOf.FindStringSubmatch(out); m != nil {
		s.digest = m[1]
	}
	if m := completedOf.FindStringSubmatch(out); m != nil {
		s.decision = m[1]
	}
}

// with gives the step's arguments with what was seen; a person sees an ellipsis before that.
func (s step) with(v seen) []string {
	if v.change == "" {
		v.change = "chg_…"
	}
	if v.digest == "" {
		v.digest = "hmac-sha256:k1:…"
	}
	if v.decision == "" {
		v.decision = "ID"
	}
	out := make([]string, len(s.args))
	for i, a := range s.args {
		out[i] = strings.NewReplacer("CHANGE", v.change, "DIGEST", v.digest, "DECISION", v.decision).Replace(a)
	}
	return out
}

// shown is the command as a person types it.
func (s step) shown(v seen) string {
	line := "as " + s.person + " " + s.tool + " " + strings.Join(s.with(v), " ")
	if s.home {
		line = strings.Replace(line, "as ", "home ", 1)
	}
	if s.grep != "" {
		line += " | grep -A1 " + s.grep
	}
	if s.into != "" {
		line += " > " + s.into
	}
	return line
}

// filtered is what a person sees of the output.
func (s step) filtered(out string) string {
	if s.grep == "" {
		return out
	}
	var kept strings.Builder
	after := false
	for line := range strings.Lines(out) {
		found := strings.Contains(line, s.grep)
		if found || after {
			kept.WriteString(line)
		}
		after = found
	}
	return kept.String()
}

// steps are the commands the demo is about.
func steps(w *world.World) []step {
	label, keys, proof := w.Path("examples", "label.yaml"), w.Path("examples", "book.pub"), w.Path("examples", "proof.json")
	apply := []string{"-n", "worker-1", "apply-config", "--mode=no-reboot", "-f", label}
	return []step{
		{
			says: "olga, an operator, logs in: her key stays here, and the gateway has a certificate signed for it by OpenBao", person: "olga", tool: "bronzeward",
			home: true, args: w.LogInArguments(), must: []string{"you are olga of", "certificate good until", "context lab in"},
		},
		{
			says: "talosctl works with no more steps", person: "olga", tool: "talosctl", home: true,
			args: []string{"-n", "worker-1", "version", "--short"}, must: []string{"worker-1", "v1.13.6"},
		},
		{
			says: "\"as NAME\" gives a command credentials that are there already; olga asks two workers for their version, as against the nodes", person: "olga", tool: "talosctl",
			args: []string{"-n", "worker-1,worker-2", "version", "--short"},
			must: []string{"worker-1", "worker-2", "v1.13.6"},
		},
		{
			says: "vera, a viewer, may not read a machine configuration: it holds secrets", person: "vera", tool: "talosctl",
			args: []string{"-n", "worker-1", "get", "machineconfig"}, fails: true, must: []string{"DENIED BW-"},
		},
		{
			says: "an apply that would reboot is refused, with what to do instead", person: "olga", tool: "talosctl",
			args: []string{"-n", "worker-1", "apply-config", "--mode=reboot", "-f", label}, fails: true,
			must: []string{"DENIED BW-MODE-", "--mode=no-reboot"},
		},
		{
			says: "without a reboot it waits for an approval of exactly these bytes for exactly this machine", person: "olga", tool: "talosctl",
			args: apply, fails: true, must: []string{"DENIED BW-APPROVAL-001", "chg_", "bronzeward changes apply"},
		},
		{
			says: "ada, an approver, looks at it: who, which machine, what would change", person: "ada", tool: "bronzeward",
			args: []string{"changes", "show", "CHANGE"}, must: []string{"olga", "worker-1", "example.com/zone", "digest"},
		},
		{
			says: "and approves it, by its id and the digest she was shown", person: "ada", tool: "bronzeward",
			args: []string{"changes", "approve", "CHANGE", "--digest", "DIGEST"}, must: []string{"approved"},
		},
		{
			says: "the same command again goes through, once", person: "olga", tool: "talosctl",
			args: apply, must: []string{"Applied configuration without a reboot"},
		},
		{
			says: "and the worker has it", person: "olga", tool: "talosctl",
			args: []string{"-n", "worker-1", "get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}"}, must: []string{"example.com/zone: a"}, grep: "nodeLabels",
		},
		{
			says: "who did what, and what became of it", person: "audrey", tool: "bronzeward",
			args: []string{"decisions", "list", "--machine", "worker-1", "--class", "apply"},
			must: []string{"olga", "completed", "BW-MODE-", "BW-APPROVAL-001"},
		},
		{
			says: "one decision, as a story", person: "audrey", tool: "bronzeward",
			args: []string{"decisions", "show", "DECISION"}, must: []string{"ALLOWED", "approved by ada", "now completed"},
		},
		{
			says: "is the book whole? Every row, the tree over them, every signature; an auditor does it with a read-only login", person: "audrey", tool: "bronzeward",
			args: []string{"decisions", "verify", "--public-key", keys}, must: []string{"the book is whole"},
		},
		{
			says: "a proof of one decision, for somebody who has no access to anything", person: "audrey", tool: "bronzeward",
			args: []string{"decisions", "prove", "--wait", "DECISION"}, into: proof,
		},
		{
			says: "who checks it offline, with the public key alone", person: "audrey", tool: "bronzeward",
			args: []string{"decisions", "check", proof, "--public-key", keys}, must: []string{"now completed", "proven: the decision stands in the book"},
		},
	}
}

// writeExamples writes the configurations the demo applies: what worker-1 runs with one
// label more, and the same with a document that would shut its Talos API; and the public keys of
// the book's checkpoints.
func writeExamples(ctx context.Context, w *world.World) error {
	active, _ := w.Nodes["worker-1"].Active()
	changed := strings.Replace(string(active), "\nmachine:\n", "\nmachine:\n    nodeLabels:\n        example.com/zone: a\n", 1)
	if strings.Contains(string(active), "nodeLabels:") {
		changed = string(active)
	}
	if err := os.MkdirAll(w.Path("examples"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(w.Path("examples", "label.yaml"), []byte(changed), 0o600); err != nil {
		return err
	}
	keys, err := w.AsOpenBaoOperator(ctx, "openbao", "checkpoint-key", "--public-key")
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.Path("examples", "book.pub"), []byte(keys), 0o600); err != nil {
		return err
	}
	block := strings.TrimRight(changed, "\n") + "\n---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"
	return os.WriteFile(w.Path("examples", "block-all.yaml"), []byte(block), 0o600)
}

// script runs the commands, prints each with its output, and checks it.
func script(ctx context.Context) (err error) {
	w, _, err := startWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var v seen
	for i, s := range steps(w) {
		fmt.Printf("\n%d. %s\n$ %s\n", i+1, s.says, s.shown(v))
		out, err := s.run(ctx, w, v)
		v.look(out)
		out = s.filtered(out)
		fmt.Print(out)
		if !strings.HasSuffix(out, "\n") {
			fmt.Println()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	fmt.Println("\ndemo script ok")
	return nil
}

// run runs the step and checks its end and its output.
func (s step) run(ctx context.Context, w *world.World, v seen) (string, error) {
	var out string
	var err error
	switch {
	case s.home && s.args[0] == "login":
		out, err = w.LogIn(ctx, s.person)
	case s.home:
		out, err = w.FromHome(ctx, s.person, s.tool, s.with(v)...)
	case s.tool == "talosctl":
		out, err = w.Talosctl(ctx, s.person, s.with(v)...)
	default:
		out, err = w.Bronzeward(ctx, s.person, s.with(v)...)
	}
	var failed *world.CommandError
	if errors.As(err, &failed) {
		out = failed.Output
		if s.fails {
			err = nil
		}
	} else if err == nil && s.fails {
		err = errors.New("it went through, and must be refused")
	}
	if err != nil {
		return out, err
	}
	if s.into != "" {
		out, err = "", os.WriteFile(s.into, []byte(out), 0o600)
		return out, err
	}
	for _, m := range s.must {
		if !strings.Contains(out, m) {
			return out, fmt.Errorf("the output does not show %q", m)
		}
	}
	return out, nil
}
