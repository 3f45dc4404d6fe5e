package policy

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Timing is how long a law takes for one call.
type Timing struct {
	// Call is the sample's name.
	Call  string `json:"call"`
	Times int    `json:"times"`
	// P50 and P99 are of the whole decision: facts to input, evaluation, reading of the answer.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	// Allocations and Bytes are of one decision, on average.
	Allocations uint64 `json:"allocations"`
	Bytes       uint64 `json:"bytes"`
}

// Bench judges facts, or each of the shipped sample calls when they are nil, so many times one after
// the other. Nothing else may run in the process meanwhile, or its allocations are counted too. A
// decision that the law failed to give ends it with an error.
func Bench(ctx context.Context, b *Bundle, facts *Facts, times int) ([]Timing, error) {
	e := New(EngineConfig{})
	if err := e.Use(ctx, b); err != nil {
		return nil, fmt.Errorf("measuring the law: %w", err)
	}
	calls := samples()
	if facts != nil {
		calls = []sample{{name: facts.Call.Method, facts: facts}}
	}
	var out []Timing
	for _, s := range calls {
		took := make([]time.Duration, times)
		e.Decide(ctx, s.facts) // the first one fills what the engine keeps
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range took {
			began := time.Now()
			d := e.Decide(ctx, s.facts)
			took[i] = time.Since(began)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if codes := d.Codes(); len(codes) > 0 && (codes[0] == CodeUndefined || codes[0] == CodeEvaluation) {
				return nil, fmt.Errorf("measuring the law: %s: %+v", s.name, d.Reasons)
			}
		}
		runtime.ReadMemStats(&after)
		slices.Sort(took)
		n := uint64(times)
		out = append(out, Timing{
			Call: s.name, Times: times, P50: took[times/2], P99: took[min(times-1, times*99/100)],
			Allocations: (after.Mallocs - before.Mallocs) / n, Bytes: (after.TotalAlloc - before.TotalAlloc) / n,
		})
	}
	return out, nil
}
