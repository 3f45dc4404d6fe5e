package main

import (
	"context"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// runProgram runs the whole program with these arguments, and nobody at a terminal.
func runProgram(t *testing.T, args ...string) clitest.Ran {
	t.Helper()
	return runAt(t.Context(), cli.Console{}, args...)
}

// runAt runs the whole program at a console.
func runAt(ctx context.Context, at cli.Console, args ...string) clitest.Ran {
	return clitest.Run(ctx, run, at, args...)
}
