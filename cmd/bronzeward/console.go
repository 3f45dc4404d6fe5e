package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// console is what a process is given: its streams, and whether a person sits there.
type console struct {
	in          io.Reader
	out, errOut io.Writer
	// terminal is standard error when that is a terminal: where progress is drawn.
	terminal io.Writer
	// interactive is true when somebody can be asked.
	interactive bool
	// pause is between two tries of a request and two looks at something; zero takes the
	// default of each.
	pause time.Duration
	// browse opens an address in the person's browser; null when there is none to open.
	browse func(address string) error
}

// processConsole is this process's own.
func processConsole() console {
	c := console{in: os.Stdin, out: os.Stdout, errOut: os.Stderr, browse: browser()}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		c.terminal = os.Stderr
		c.interactive = term.IsTerminal(int(os.Stdin.Fd()))
	}
	return c
}

// confirm asks for a typed yes on the terminal. Anything else, and the end of the input, is
// no. It gives up when ctx ends.
func (g *globals) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(g.errOut, "%s\nType yes to go on: ", question)
	typed := make(chan string, 1)
	go func() { // a terminal cannot be read with a deadline; the process ends with ctx
		line, _ := bufio.NewReader(g.in).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(g.errOut)
		return fmt.Errorf("nothing was done: %w", context.Cause(ctx))
	case answer := <-typed:
		if answer != "yes" {
			return errNotConfirmed
		}
		return nil
	}
}

// errNotConfirmed ends a command whose question was not answered with yes.
var errNotConfirmed = fmt.Errorf("nothing was done: the answer was not yes")
