package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"bronzeward/cmd/bronzeward/cli"
)

// helpCmd is `help COMMAND`, as kubectl and talosctl have it.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to explain, such as changes submit."`
}

// Run prints what --help prints.
func (h *helpCmd) Run(ctx *kong.Context) error {
	asked, err := kong.Trace(ctx.Kong, h.Command)
	if err != nil {
		return err
	}
	// What is missing of a command, such as its arguments, is no matter here; a word that leads
	// nowhere is.
	if asked.Error != nil && strings.HasPrefix(asked.Error.Error(), "unexpected argument") {
		return cli.Usage(fmt.Errorf("there is no such command: %w", asked.Error))
	}
	return asked.PrintUsage(false)
}

// completionCmd prints a completion script at once, as kubectl and talosctl do.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	Code  bool   `short:"c" hidden:"" help:"What is always done."`
}

// Help says how it is used.
func (c *completionCmd) Help() string {
	return "Load it into a shell: source <(bronzeward completion bash). To have it in every shell, write that into the file your shell reads when it starts, such as ~/.bashrc; for fish: bronzeward completion fish | source."
}

// Run prints the script.
func (c *completionCmd) Run(ctx *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(ctx)
}
