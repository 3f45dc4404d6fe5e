// Package program runs a tree of commands: it reads the arguments, runs what they name, and gives
// the exit code.
package program

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/exitcode"
)

// Run reads args by a tree of commands and runs the one they name at a console; it returns the exit
// code. tree is a pointer to the struct that kong reads, and globals points into it.
func Run(ctx context.Context, args []string, with cli.Console, globals *cli.Globals, tree any, options ...kong.Option) int {
	with.Out, with.ErrOut = cli.NewPlainWriter(with.Out), cli.NewPlainWriter(with.ErrOut)
	globals.Console = with
	code := -1
	parser, err := kong.New(tree, append([]kong.Option{
		kong.Name("bronzeward"),
		kong.UsageOnError(),
		kong.Writers(with.Out, with.ErrOut),
		kong.Exit(func(n int) { code = n }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	}, options...)...)
	if err != nil {
		fmt.Fprintln(with.ErrOut, "bronzeward:", err)
		return cli.ExitUsage
	}
	kongcompletion.Register(parser)
	parsed, err := parser.Parse(args)
	if code >= 0 { // --help was printed
		return code
	}
	if err != nil {
		fmt.Fprintf(with.ErrOut, "bronzeward: %v\ntry: %s --help\n", err, meant(err))
		return cli.ExitUsage
	}
	if err := servesFormat(parsed, globals.Output); err != nil {
		fmt.Fprintln(with.ErrOut, "bronzeward:", err)
		return cli.ExitUsage
	}
	if err := parsed.Run(globals); err != nil {
		if !errors.Is(err, cli.ErrChanged) {
			fmt.Fprintln(with.ErrOut, "bronzeward:", err)
		}
		return exitcode.Of(err)
	}
	return cli.ExitOK
}

// meant is the command that arguments which cannot be read were for, as far as they name one.
func meant(err error) string {
	name := ""
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		for node := parse.Context.Selected(); node != nil && node.Parent != nil; node = node.Parent {
			if node.Type == kong.CommandNode {
				name = " " + node.Name + name
			}
		}
	}
	return "bronzeward" + name
}

// servesFormat refuses a format that the command does not print, before it does anything.
func servesFormat(parsed *kong.Context, format string) error {
	if slices.Contains([]string{"table", "json", "yaml"}, format) {
		return nil
	}
	if node := parsed.Selected(); node != nil {
		if more, ok := node.Target.Addr().Interface().(interface{ Formats() []string }); ok && slices.Contains(more.Formats(), format) {
			return nil
		}
	}
	return fmt.Errorf("-o %s: this command prints table, json or yaml", format)
}
