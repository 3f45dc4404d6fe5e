package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"bronzeward/fixtures/world"
)

// step is one command of the demo, and what its output must show.
type step struct {
	says   string
	person string
	tool   string // "talosctl" or "bronzeward"
	args   []string
	fails  bool
	must   []string
}

// shown is the command as a person types it.
func (s step) shown(w *world.World) string {
	line := s.tool + " " + strings.Join(s.args, " ")
	if s.tool == "talosctl" {
		line = "talosctl --talosconfig " + w.Talosconfig(s.person) + " " + strings.Join(s.args, " ")
	}
	return line
}

// steps are the five commands the demo is about.
func steps(w *world.World) []step {
	return []step{
		{
			says: "olga, an operator, asks two workers for their version, as against the nodes", person: "olga", tool: "talosctl",
			args: []string{"-n", "worker-1,worker-2", "version", "--short"},
			must: []string{"worker-1", "worker-2", "v1.13.6"},
		},
		{
			says: "vera, a viewer, may not read a machine configuration: it holds secrets", person: "vera", tool: "talosctl",
			args: []string{"-n", "worker-1", "get", "machineconfig"}, fails: true, must: []string{"DENIED BW-"},
		},
		{
			says: "an apply that would reboot is refused, with what to do instead", person: "olga", tool: "talosctl",
			args: []string{"-n", "worker-1", "apply-config", "--mode=reboot", "-f", w.Path("examples", "label.yaml")}, fails: true,
			must: []string{"DENIED BW-MODE-", "--mode=no-reboot"},
		},
		{
			says: "the same change without a reboot goes on, once, and is read back", person: "olga", tool: "talosctl",
			args: []string{"-n", "worker-1", "apply-config", "--mode=no-reboot", "-f", w.Path("examples", "label.yaml")},
			must: []string{"Applied configuration without a reboot"},
		},
		{
			says: "who did what, and what became of it; `bronzeward decisions show ID` has the digests and the rules", tool: "bronzeward",
			args: []string{"decisions", "list", "--machine", "worker-1", "--class", "apply"},
			must: []string{"olga", "completed", "BW-MODE-"},
		},
	}
}

// writeExamples writes the configurations the demo applies: what worker-1 runs with one
// label more, and the same with a document that would shut its Talos API.
func writeExamples(w *world.World) error {
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
	block := strings.TrimRight(changed, "\n") + "\n---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"
	return os.WriteFile(w.Path("examples", "block-all.yaml"), []byte(block), 0o600)
}

// script runs the five commands, prints each with its output, and checks it.
func script(ctx context.Context) (err error) {
	w, _, err := startWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for i, s := range steps(w) {
		fmt.Printf("\n%d. %s\n$ %s\n", i+1, s.says, s.shown(w))
		out, err := s.run(ctx, w)
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
func (s step) run(ctx context.Context, w *world.World) (string, error) {
	var out string
	var err error
	if s.tool == "talosctl" {
		out, err = w.Talosctl(ctx, s.person, s.args...)
	} else {
		out, err = w.Bronzeward(ctx, s.person, s.args...)
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
	for _, m := range s.must {
		if !strings.Contains(out, m) {
			return out, fmt.Errorf("the output does not show %q", m)
		}
	}
	return out, nil
}
