// Command bronzeward is the gateway and everything people do with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

// cli is the command tree.
type cli struct {
	globals

	Serve      serveCmd                  `cmd:"" help:"Run the gateway."`
	Migrate    migrateCmd                `cmd:"" help:"Create or update the database schema."`
	Machines   machinesCmd               `cmd:"" help:"Add, observe and pin machines." aliases:"machine"`
	Attempts   attemptsCmd               `cmd:"" help:"Look at applies that were sent, and account for unresolved ones." aliases:"attempt"`
	Decisions  decisionsCmd              `cmd:"" help:"Read the book: who did what to which machine, and why it was allowed." aliases:"decision"`
	Policy     policyCmd                 `cmd:"" help:"Check, test, explain and activate the law."`
	Identities identitiesCmd             `cmd:"" help:"Revoke people for good." aliases:"identity"`
	Config     configCmd                 `cmd:"" help:"Check the configuration file."`
	Completion kongcompletion.Completion `cmd:"" help:"Print a shell completion script."`
	Version    versionCmd                `cmd:"" help:"Print versions."`
}

// globals are flags every command takes.
type globals struct {
	ConfigFile  string           `name:"config" env:"BRONZEWARD_CONFIG" placeholder:"FILE" help:"Configuration file; default ~/.config/bronzeward/config.yaml, then /etc/bronzeward/config.yaml."`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version and end."`
	Output      string           `short:"o" enum:"table,json,yaml" default:"table" help:"Output format: table, json or yaml."`

	out    io.Writer
	errOut io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program with its streams given; it returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	out, errOut = plainWriter{out}, plainWriter{errOut}
	c := &cli{globals: globals{out: out, errOut: errOut}}
	code := -1
	parser, err := kong.New(c,
		kong.Name("bronzeward"),
		kong.Description("Admission control for the Talos API. Every command reads one configuration file; see --config."),
		kong.UsageOnError(),
		kong.Writers(out, errOut),
		kong.Exit(func(n int) { code = n }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"version": buildVersion()},
	)
	if err != nil {
		fmt.Fprintln(errOut, "bronzeward:", err)
		return exitUsage
	}
	kongcompletion.Register(parser)
	parsed, err := parser.Parse(args)
	if code >= 0 { // --help was printed
		return code
	}
	if err != nil {
		fmt.Fprintf(errOut, "bronzeward: %v\ntry: bronzeward --help\n", err)
		return exitUsage
	}
	if err := parsed.Run(&c.globals); err != nil {
		if !errors.Is(err, errChanged) {
			fmt.Fprintln(errOut, "bronzeward:", err)
		}
		return exitCode(err)
	}
	return exitOK
}
