package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Console is what a process is given: its streams, and whether a person sits there.
type Console struct {
	In          io.Reader
	Out, ErrOut io.Writer
	// terminal is standard error when that is a terminal: where progress is drawn.
	terminal io.Writer
	// Interactive is true when somebody can be asked.
	Interactive bool
	// Pause is between two tries of a request and two looks at something; zero takes the
	// default of each.
	Pause time.Duration
	// Browse opens an address in the person's browser; null when there is none to open.
	Browse func(address string) error
}

// ProcessConsole is this process's own.
func ProcessConsole() Console {
	c := Console{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		c.terminal = os.Stderr
		c.Interactive = term.IsTerminal(int(os.Stdin.Fd()))
	}
	return c
}

// Confirm asks for a typed yes on the terminal. Anything else, and the end of the input, is
// no. It gives up when ctx ends.
func (g *Globals) Confirm(ctx context.Context, question string) error {
	fmt.Fprintf(g.ErrOut, "%s\nType yes to go on: ", question)
	typed := make(chan string, 1)
	go func() { // a terminal cannot be read with a deadline; the process ends with ctx
		line, _ := bufio.NewReader(g.In).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(g.ErrOut)
		return fmt.Errorf("nothing was done: %w", context.Cause(ctx))
	case answer := <-typed:
		if answer != "yes" {
			return ErrNotConfirmed
		}
		return nil
	}
}

// ErrNotConfirmed ends a command whose question was not answered with yes.
var ErrNotConfirmed = fmt.Errorf("nothing was done: the answer was not yes")

// Sure asks for a typed yes, unless it was given as a flag.
func (g *Globals) Sure(ctx context.Context, yes bool, question string) error {
	return g.sure(ctx, yes, "nothing was changed: give --yes, since nobody can be asked here", func() string { return question })
}

// ForGood is Sure of what nothing undoes; what says what it is, in a clause. The question is only made when it is asked.
func (g *Globals) ForGood(ctx context.Context, yes bool, what string, question func() string) error {
	return g.sure(ctx, yes, what+", and there is no terminal to ask at: say --yes", question)
}

func (g *Globals) sure(ctx context.Context, yes bool, nobody string, question func() string) error {
	switch {
	case yes:
		return nil
	case !g.Interactive:
		return Usage(errors.New(nobody))
	}
	return g.Confirm(ctx, question())
}
