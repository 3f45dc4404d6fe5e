package main

import (
	"context"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/fixtures/openbao/baotest"
)

func TestMain(m *testing.M) { testMain(baotest.Around(m)) }

// runProgram runs the whole program with these arguments, and nobody at a terminal.
func runProgram(t *testing.T, args ...string) ran {
	t.Helper()
	return runAt(t.Context(), cli.Console{}, args...)
}

// runAt runs the whole program at a console.
func runAt(ctx context.Context, at cli.Console, args ...string) ran {
	return runWith(ctx, run, at, args...)
}
