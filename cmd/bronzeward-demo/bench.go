package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"bronzeward/fixtures/page"
)

// The load program: the same calls to one fake worker three ways, in one run, with the
// ways taking turns in short rounds so that whatever else the machine does meets all of
// them. Nothing in it is judged by the clock: it fails only when a call does.

// benchParts are the parts of a run, in their order.
var benchParts = []string{"reads", "stream", "apply", "large", "law", "book", "approvals", "revocation", "revoked", "captures", "waiting", "replay"}

// benchOptions are the flags of the load program.
type benchOptions struct {
	write string   // the file whose part between the markers is replaced; none when empty
	only  []string // parts to run
	scale float64  // factor on all counts
	keep  string   // folder for the world; a temporary one when empty
}

func bench(ctx context.Context, args []string) error {
	o, err := benchFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	product, err := binary()
	if err != nil {
		return err
	}
	began := time.Now()
	h, err := openBenchHouse(ctx, product, o.keep)
	if err != nil {
		return err
	}
	text, err := h.run(ctx, o)
	if err = errors.Join(err, h.close()); err != nil {
		return err
	}
	text += fmt.Sprintf("\nThe run took %s.\n", time.Since(began).Round(time.Second))
	fmt.Print(text)
	if o.write == "" {
		return nil
	}
	return page.Write(o.write, benchBegin, benchEnd, text)
}

func benchFlags(args []string) (benchOptions, error) {
	o := benchOptions{}
	only := ""
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.write, "write", "", "file whose text between the bench markers is replaced by the tables")
	flags.StringVar(&only, "only", strings.Join(benchParts, ","), "parts to run, separated by commas")
	flags.Float64Var(&o.scale, "scale", 1, "factor on how often everything is measured; below 1 is for a try")
	flags.StringVar(&o.keep, "dir", "", "folder for the database and the rest; its disk is the one measured (default: a temporary one)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.scale <= 0 || o.scale > 10 {
		return o, fmt.Errorf("-scale %g: want more than 0 and at most 10", o.scale)
	}
	o.only = strings.Split(only, ",")
	for _, part := range o.only {
		if !slices.Contains(benchParts, part) && part != swapPart {
			return o, fmt.Errorf("-only %s: there are %s, and %s", part, strings.Join(benchParts, ", "), swapPart)
		}
	}
	return o, nil
}

// times scales a count, keeping at least one.
func (o benchOptions) times(n int) int { return max(1, int(float64(n)*o.scale)) }

// run measures the parts asked for and gives the Markdown.
func (h *benchHouse) run(ctx context.Context, o benchOptions) (string, error) {
	machine, err := machineTable(ctx, h.db, h.Dir)
	if err != nil {
		return "", err
	}
	parts := map[string]func(context.Context, benchOptions) (string, error){
		"reads": h.reads, "stream": h.streams, "apply": h.applies, "large": h.large, "law": h.law, "book": h.bookSize,
		"approvals": h.approvals, "revocation": h.revocation, "revoked": h.revoked, "captures": h.captures, "waiting": h.waiting,
		"replay": h.replays, swapPart: h.swap,
	}
	text := machine
	for _, name := range append(slices.Clone(benchParts), swapPart) {
		if !slices.Contains(o.only, name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "  bench: %s …\n", name)
		one, err := parts[name](ctx, o)
		if err != nil {
			return "", fmt.Errorf("measuring %s: %w", name, err)
		}
		text += "\n" + one
	}
	return text, nil
}

// Markers of the part of a file that the load program writes.
const (
	benchBegin = "<!-- bench: begin -->"
	benchEnd   = "<!-- bench: end -->"
	bookBegin  = "<!-- full book: begin -->"
	bookEnd    = "<!-- full book: end -->"
)

// selfCommand is this program with other arguments, ended with us.
func selfCommand(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, args...), nil
}
