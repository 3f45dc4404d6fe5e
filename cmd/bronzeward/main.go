// Command bronzeward is the gateway and everything people do with it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"bronzeward/cmd/bronzeward/bao"
	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/changes"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/cmd/bronzeward/house"
	"bronzeward/cmd/bronzeward/law"
	"bronzeward/cmd/bronzeward/machines"
	"bronzeward/cmd/bronzeward/people"
	"bronzeward/cmd/bronzeward/program"
	"bronzeward/cmd/bronzeward/recovery"
)

// commands is the command tree.
type commands struct {
	cli.Globals
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version and end."`

	Changes   changes.Commands  `cmd:"" group:"changes" help:"Propose, look at, approve and apply changes." aliases:"change"`
	Approvals changes.Approvals `cmd:"" group:"changes" help:"Take approvals back." aliases:"approval"`
	Machines  machines.Commands `cmd:"" group:"changes" help:"Add, observe, pin, freeze and retire machines." aliases:"machine"`
	Clusters  machines.Clusters `cmd:"" group:"changes" help:"Say how many machines of a cluster may be changed at once." aliases:"cluster"`
	Drift     changes.Drift     `cmd:"" group:"changes" help:"Look at machines whose configuration is not the last one applied, and settle that." aliases:"drifts"`
	Attempts  changes.Attempts  `cmd:"" group:"changes" help:"Look at applies that were sent, and account for unresolved ones." aliases:"attempt"`
	Recovery  recovery.Commands `cmd:"" group:"changes" help:"Bring the house back after a restore."`
	Notices   changes.Notices   `cmd:"" group:"changes" help:"Look at what approvers were told, and what could not be delivered." aliases:"notice"`
	Digest    changes.Digest    `cmd:"" group:"changes" help:"Compute the configuration digest of a file, or compare it with one."`

	Login      people.Login      `cmd:"" group:"people" help:"Get a certificate for yourself, and set talosctl and bronzeward up with it."`
	Logout     people.Logout     `cmd:"" group:"people" help:"Remove what login wrote."`
	Identities people.Identities `cmd:"" group:"people" help:"Revoke people for good." aliases:"identity"`
	Whoami     people.Whoami     `cmd:"" group:"people" help:"Say who you are to the gateway."`

	Decisions book.Commands `cmd:"" group:"law" help:"Read the book: who did what to which machine, and why it was allowed." aliases:"decision"`
	Policy    law.Commands  `cmd:"" group:"law" help:"Check, test, explain and activate the law."`

	Serve   house.Serve     `cmd:"" group:"house" help:"Run the gateway."`
	Migrate house.Migrate   `cmd:"" group:"house" help:"Create or update the database schema."`
	Config  config.Commands `cmd:"" group:"house" help:"Check the configuration file."`
	OpenBao bao.Commands    `cmd:"" group:"house" name:"openbao" help:"Set up OpenBao, and put what it holds."`

	DigestKeys changes.DigestKeys `cmd:"" group:"house" name:"digest-keys" help:"List and add the keys of configuration digests, at a gateway." aliases:"digest-key"`

	Completion completionCmd `cmd:"" group:"other" help:"Print a shell completion script."`
	Help       helpCmd       `cmd:"" group:"other" help:"Explain a command."`
	Version    versionCmd    `cmd:"" group:"other" help:"Print versions."`
}

// groups are the headings of the help, in the order of the tree.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "changes", Title: "Changes and machines, at a gateway:"},
		{Key: "people", Title: "People, at a gateway:"},
		{Key: "law", Title: "The law and the book:"},
		{Key: "house", Title: "Running a gateway:"},
		{Key: "other", Title: "Other:"},
		{Key: "database", Title: "The book's database, without a gateway:"},
		{
			Key: "server", Title: "Which gateway, and who you are:",
			Description: "What is not given here or in the environment is read from bronzeward/client.yaml in your configuration folder: server, server_ca, certificate, key, token_file.",
		},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	at := cli.ProcessConsole()
	at.Browse = people.Browser()
	code := run(ctx, os.Args[1:], at)
	stop()
	os.Exit(code)
}

// run is the whole program with its console given; it returns the exit code.
func run(ctx context.Context, args []string, with cli.Console) int {
	c := &commands{}
	return program.Run(ctx, args, with, &c.Globals, c,
		kong.Description("Admission control for the Talos API. Commands about changes, machines and people ask a gateway; the others read its configuration file."),
		kong.BindTo(config.Settings{Globals: &c.Globals}, (*book.Settings)(nil)),
		kong.Bind(house.Version(buildVersion())),
		kong.ExplicitGroups(groups()),
		kong.Vars{"version": buildVersion()},
	)
}
