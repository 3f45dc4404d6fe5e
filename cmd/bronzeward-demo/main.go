// Command bronzeward-demo starts the world in a box around the product: a PostgreSQL, an
// identity provider, fake Talos nodes and the gateway, and shows what it does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"bronzeward/fixtures/talosd"
)

const usage = `usage: bronzeward-demo [command]

  (none)          start everything, print what to try, run until Ctrl-C
  script          run the commands of the demo, check each, and end
  scenario NAME   run one scenario (S0 to S8) and end; "all" runs all
  leakscan        run a story with secrets in it, and search everything it leaves for them
  node …          run one fake Talos node as a process of its own
  bench …         measure, side by side: direct, a bare proxy, Bronzeward (-h lists flags)
  bench-book …    measure a book of ten million entries, beside a small one (-h lists flags)
  bench-proxy …   run the bare proxy as a process of its own

DEMO_DIR chooses the folder that keeps the demo's files (default .demo); a second start
reuses them. LEAKSCAN_KEEP=1 keeps what the leak scan searched. BRONZEWARD_BINARY is the product's binary (default: beside this one).
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	var err error
	switch command {
	case "":
		err = demo(ctx)
	case "script":
		err = script(ctx)
	case "scenario":
		name := "all"
		if len(args) > 1 {
			name = args[1]
		}
		err = scenarios(ctx, name)
	case "leakscan":
		err = leakscanCommand(ctx)
	case "node":
		return talosd.Main(args[1:])
	case "bench":
		err = bench(ctx, args[1:])
	case "bench-book":
		err = benchFull(ctx, args[1:])
	case "bench-proxy":
		err = benchProxy(ctx, args[1:])
	case "help", "-h", "--help":
		fmt.Print(usage)
		return 0
	default:
		fmt.Fprintf(os.Stderr, "bronzeward-demo: unknown command %q\n%s", command, usage)
		return 2
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bronzeward-demo:", err)
		return 1
	}
	return 0
}

// demoDir is the folder that keeps the demo's files.
func demoDir() string {
	if dir := os.Getenv("DEMO_DIR"); dir != "" {
		return dir
	}
	return ".demo"
}

// binary is the product's own binary.
func binary() (string, error) {
	if path := os.Getenv("BRONZEWARD_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), "bronzeward")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the product's binary is not beside this one (%s): run `make build`, or set BRONZEWARD_BINARY", path)
	}
	return path, nil
}
