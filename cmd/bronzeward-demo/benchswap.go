package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bronzeward/policy"
)

// swapPart measures what a law that becomes live costs whoever calls meanwhile. It has a page of its own.
const swapPart = "swap"

// What happens in a stretch of steady calls, a third of the way into it.
const (
	swapNothing   = "nothing"
	swapOther     = "another act under the same lock: a rollout limit"
	swapCompiling = "a law is read and compiled ahead"
	swapPrepared  = "a prepared law becomes live"
	swapCold      = "a law becomes live that was not prepared"
)

// swapStretch is how long each stretch is at least.
const swapStretch = 300 * time.Millisecond

// stretches are what was measured, by what happened.
type stretches map[string]*stretched

// stretched is one kind: of each stretch the longest of the calls that what happened fell on, up to the first one that began after
// it, and the longest of all.
type stretched struct{ met, longest samples }

// table holds the kinds beside the stretches in which nothing happened.
func (s stretches) table(head string, kinds ...string) string {
	t := &table{head: []string{head, "stretches", "the call it fell on, p50", "to nothing", "over nothing", "longest call of the stretch, p50", "to nothing", "longest of all", "to nothing"}}
	none := s[swapNothing]
	for _, kind := range kinds {
		one := s[kind]
		row := []string{kind, fmt.Sprint(len(one.met)), millis(one.met.p50()), ratio(float64(one.met.p50()), float64(none.met.p50())), millis(s.over(kind))}
		for _, part := range []float64{0.5, 1} {
			row = append(row, millis(one.longest.quantile(part)), ratio(float64(one.longest.quantile(part)), float64(none.longest.quantile(part))))
		}
		t.add(row...)
	}
	return t.String()
}

// over says by how much longer the call is that something fell on, in the middle.
func (s stretches) over(kind string) time.Duration {
	return s[kind].met.p50() - s[swapNothing].met.p50()
}

// comingLaw is a law on its way, as the database has it.
type comingLaw struct {
	revision string
	archive  []byte
}

// comingLaws are so many laws that differ from the live one by a line of data.
func (h *benchHouse) comingLaws(n int) ([]comingLaw, error) {
	base, err := policy.Load(dirFS(h.PolicyDir()))
	if err != nil {
		return nil, err
	}
	out := make([]comingLaw, n)
	for i := range out {
		b, err := policy.OverlayFiles(base, policy.File{Path: "bronzeward/data.yaml", Body: fmt.Appendf(nil, "ladder: {BW-BENCH-%03d: warn}\n", i)})
		if err != nil {
			return nil, err
		}
		out[i] = comingLaw{b.Revision(), b.Bytes()}
	}
	return out, nil
}

// swap measures the engine alone, and then calls through a gateway.
func (h *benchHouse) swap(ctx context.Context, o benchOptions) (string, error) {
	conn, err := h.ways[2].dial()
	if err != nil {
		return "", err
	}
	request, err := applyRequest(turnText(h.small.text, 1))
	if err != nil {
		return "", err
	}
	if _, err := h.ways[2].unary(ctx, conn, benchApply, request); err != nil { // whose facts the engine judges
		return "", err
	}
	rounds := o.times(20)
	laws, err := h.comingLaws(2 * (rounds + 1))
	if err != nil {
		return "", err
	}
	alone, err := h.swapEngine(ctx, laws)
	if err != nil {
		return "", err
	}
	whole, err := h.swapGateway(ctx, conn, laws)
	if err != nil {
		return "", err
	}
	var wanted aims
	wanted.add(alone.over(swapPrepared) <= time.Millisecond, "a law that becomes live stalls no decision of the engine for more than 1 ms: %s in the middle over a stretch with nothing; not prepared %s",
		millis(alone.over(swapPrepared)), millis(alone.over(swapCold)))
	wanted.add(whole.over(swapPrepared) <= time.Millisecond, "… and no call for more than 1 ms: %s; an act that changes no law %s; not prepared %s",
		millis(whole.over(swapPrepared)), millis(whole.over(swapOther)), millis(whole.over(swapCold)))
	return "### A law becomes live\n\n" +
		alone.table("the engine alone: decisions on an apply", swapNothing, swapCompiling, swapPrepared, swapCold) + "\n" +
		whole.table("through a gateway: `Version`, one caller", swapNothing, swapOther, swapCompiling, swapPrepared, swapCold) + wanted.String(), nil
}

// swapEngine judges steadily. Whoever judges loads the law that became live, as a call of a gateway does.
func (h *benchHouse) swapEngine(ctx context.Context, laws []comingLaw) (stretches, error) {
	engine, err := h.engine(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := h.recordedFacts(ctx)
	if err != nil {
		return nil, err
	}
	open := func(law comingLaw, then func(context.Context, *policy.Bundle) error) error {
		b, err := policy.Open(law.archive)
		if err != nil {
			return err
		}
		return then(ctx, b)
	}
	compiled := make(chan error, 1)
	out := stretches{}
	return out, out.fill(laws, func(kind string, law comingLaw) (met, longest time.Duration, err error) {
		var problem error
		do := map[string]func(){
			swapCompiling: func() { go func() { compiled <- open(law, engine.Prepare) }() },
			swapPrepared: func() {
				if !engine.UsePrepared(law.revision) {
					problem = errors.New("a prepared law is not there")
				}
			},
			swapCold:    func() { problem = open(law, engine.Use) },
			swapNothing: func() {},
		}[kind]
		for began := time.Now(); time.Since(began) < swapStretch; {
			at, now := time.Now(), do != nil && time.Since(began) > swapStretch/3
			if now {
				do()
				do = nil
			}
			engine.Decide(ctx, facts)
			took := time.Since(at)
			if longest = max(longest, took); now {
				met = took
			}
		}
		if kind == swapCompiling {
			problem = <-compiled
		}
		return met, longest, problem
	}, swapCompiling, swapPrepared, swapCold)
}

// fill measures the kinds in turns, each beside a stretch in which nothing happens. What is compiled becomes live in
// the stretch after it; the rounds take two laws each, and the first one is thrown away.
func (s stretches) fill(laws []comingLaw, stretch func(kind string, law comingLaw) (met, longest time.Duration, err error), kinds ...string) error {
	for round := range len(laws) / 2 {
		for _, kind := range slices.Concat([]string{swapNothing}, kinds) {
			law := laws[2*round]
			if kind == swapCold {
				law = laws[2*round+1]
			}
			met, longest, err := stretch(kind, law)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			if round == 0 {
				s[kind] = &stretched{}
				continue
			}
			s[kind].met, s[kind].longest = append(s[kind].met, met), append(s[kind].longest, longest)
		}
	}
	return nil
}
