package policy

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkSwap judges steadily while laws become live, with preparation and without, and states the longest
// decision of the stretches in which one became live beside the longest of stretches in which none did. Whoever
// judges here waits for the law as a call of the gateway does: it loads what is not loaded.
func BenchmarkSwap(b *testing.B) {
	shipped, err := Shipped()
	if err != nil {
		b.Fatal(err)
	}
	var coming []swapLaw
	for i := range 16 {
		law, err := Overlay(shipped, files(map[string]string{"bronzeward/data.yaml": fmt.Sprintf("ladder: {BW-TEST-%03d: warn}\n", i)}))
		if err != nil {
			b.Fatal(err)
		}
		coming = append(coming, swapLaw{law.Revision(), law.Bytes()})
	}
	for b.Loop() {
		for _, prepared := range []bool{true, false} {
			swapOnce(b, coming, prepared)
		}
	}
}

// swapStretch is how long each stretch lasts: some hundred decisions.
const swapStretch = 250 * time.Millisecond

// swapLaw is a law as the database has it.
type swapLaw struct {
	revision string
	archive  []byte
}

func swapOnce(b *testing.B, coming []swapLaw, prepared bool) {
	ctx := context.Background()
	e := New(EngineConfig{})
	open := func(law swapLaw, then func(context.Context, *Bundle) error) {
		bundle, err := Open(law.archive)
		if err == nil {
			err = then(ctx, bundle)
		}
		if err != nil {
			b.Error(err)
		}
	}
	open(coming[0], e.Use)
	facts := worker15K()
	// stretch judges for a while; a third of the way into it do happens, before the next decision.
	stretch := func(do func()) (longest time.Duration) {
		for began := time.Now(); time.Since(began) < swapStretch; {
			at := time.Now()
			if do != nil && time.Since(began) > swapStretch/3 {
				do()
				do = nil
			}
			e.Decide(ctx, facts)
			longest = max(longest, time.Since(at))
		}
		return longest
	}
	var quiet, compiling, swap []time.Duration
	stretch(nil)
	for _, law := range coming[1:] {
		quiet = append(quiet, stretch(nil))
		if prepared {
			var aside sync.WaitGroup
			compiling = append(compiling, stretch(func() {
				aside.Go(func() { open(law, e.Prepare) })
			}))
			aside.Wait()
		}
		swap = append(swap, stretch(func() {
			if !e.UsePrepared(law.revision) {
				open(law, e.Use)
			}
		}))
	}
	say := func(what string, s []time.Duration) {
		if len(s) > 0 {
			slices.Sort(s)
			fmt.Fprintf(os.Stderr, "prepared=%v %-28s stretches=%d longest decision: median %s, of all %s (%.2f× and %.2f× of none)\n", prepared, what, len(s),
				s[len(s)/2], s[len(s)-1], float64(s[len(s)/2])/float64(quiet[len(quiet)/2]), float64(s[len(s)-1])/float64(quiet[len(quiet)-1]))
		}
	}
	slices.Sort(quiet)
	say("no law becomes live", quiet)
	say("one is compiled aside", compiling)
	say("one becomes live", swap)
}
