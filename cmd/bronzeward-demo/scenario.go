package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// scenario is a script that anyone can run; it prints one line per step.
type scenario func(ctx context.Context, s *stage) error

func all() map[string]scenario {
	return map[string]scenario{}
}

// stage is what a scenario prints on.
type stage struct{ name string }

// did prints one step that was seen to be so.
func (s *stage) did(format string, args ...any) {
	fmt.Printf("%s  %s\n", s.name, fmt.Sprintf(format, args...))
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
	for _, n := range names {
		began := time.Now()
		if err := known[n](ctx, &stage{name: n}); err != nil {
			return fmt.Errorf("scenario %s: %w", n, err)
		}
		fmt.Printf("scenario %s ok (%s)\n", n, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}
