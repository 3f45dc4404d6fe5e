package recovery

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
	Recovery Commands `cmd:""`
}

// run is the program with these commands alone.
func run(ctx context.Context, args []string, at cli.Console) int {
	c := &commands{}
	return program.Run(ctx, args, at, &c.Globals, c)
}

// runProgram runs it with these arguments, and nobody at a terminal.
func runProgram(t *testing.T, args ...string) clitest.Ran {
	t.Helper()
	return runAt(t, cli.Console{}, args...)
}

// runAt runs it at a console.
func runAt(t *testing.T, at cli.Console, args ...string) clitest.Ran {
	t.Helper()
	return clitest.Run(t.Context(), run, at, append([]string{"recovery"}, args...)...)
}
