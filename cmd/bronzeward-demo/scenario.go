package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"bronzeward/fixtures/talosctlbin"
	"bronzeward/fixtures/world"
)

// scenario is a script that anyone can run; it prints one line per step and stops at the
// first thing that is not so.
type scenario func(ctx context.Context, s *stage) error

func all() map[string]scenario {
	return map[string]scenario{"S0": s0, "S1": s1, "S2": s2, "S3": s3, "S4": s4, "S5": s5, "S6": s6, "S7": s7, "S8": s8}
}

// stage is what a scenario stands on and prints to.
type stage struct {
	name   string
	binary string
	dir    string
}

// did prints one step that was seen to be so.
func (s *stage) did(format string, args ...any) {
	fmt.Printf("%s  %s\n", s.name, fmt.Sprintf(format, args...))
}

// world starts a fresh world with one gateway, in a folder of the scenario's own.
func (s *stage) world(ctx context.Context, cfg world.Config) (*world.World, error) {
	w, err := s.bareWorld(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := w.StartGateway(ctx, "gateway-1"); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// bareWorld starts a fresh world without a gateway.
func (s *stage) bareWorld(ctx context.Context, cfg world.Config) (*world.World, error) {
	dir, err := os.MkdirTemp(s.dir, "world-")
	if err != nil {
		return nil, err
	}
	// The database's account must be able to enter.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	cfg.Dir, cfg.Binary = dir, s.binary
	return world.Start(ctx, cfg)
}

// scenarios runs one scenario, or all in their order.
func scenarios(ctx context.Context, name string) error {
	known := all()
	names := slices.Sorted(maps.Keys(known))
	if name != "all" {
		if known[name] == nil {
			return fmt.Errorf("there is no scenario %q; there are %v", name, names)
		}
		names = []string{name}
	}
	path, err := binary()
	if err != nil {
		return err
	}
	if _, err := talosctlbin.Path(ctx, os.Stdout); err != nil {
		return err
	}
	for _, n := range names {
		if err := oneScenario(ctx, n, path, known[n]); err != nil {
			return fmt.Errorf("scenario %s: %w", n, err)
		}
	}
	return nil
}

func oneScenario(ctx context.Context, name, binary string, run scenario) error {
	dir, err := os.MkdirTemp("", "bronzeward-"+name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	began := time.Now()
	if err := run(ctx, &stage{name: name, binary: binary, dir: dir}); err != nil {
		return err
	}
	fmt.Printf("scenario %s ok (%s)\n", name, time.Since(began).Round(100*time.Millisecond))
	return nil
}
