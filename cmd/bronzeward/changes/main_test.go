package changes

import (
	"context"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/cmd/bronzeward/program"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// commands is the part of the command tree that is tested here.
type commands struct {
	cli.Globals
	Changes    Commands   `cmd:""`
	Approvals  Approvals  `cmd:""`
	Drift      Drift      `cmd:""`
	Attempts   Attempts   `cmd:""`
	Notices    Notices    `cmd:""`
	Digest     Digest     `cmd:""`
	DigestKeys DigestKeys `cmd:"" name:"digest-keys"`
}

// run is the program with these commands alone.
func run(ctx context.Context, args []string, at cli.Console) int {
	c := &commands{}
	return program.Run(ctx, args, at, &c.Globals, c)
}

// runProgram runs it with these arguments, and nobody at a terminal.
func runProgram(t *testing.T, args ...string) clitest.Ran {
	t.Helper()
	return runAt(t.Context(), cli.Console{}, args...)
}

// runAt runs it at a console.
func runAt(ctx context.Context, at cli.Console, args ...string) clitest.Ran {
	return clitest.Run(ctx, run, at, args...)
}
