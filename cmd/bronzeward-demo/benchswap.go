package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"

	"bronzeward/audit"
	"bronzeward/fixtures/world"
	"bronzeward/gateway/control"
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

// stretches are the longest call of each stretch, by what happened in it.
type stretches map[string]samples

// table holds the kinds beside the stretches in which nothing happened.
func (s stretches) table(head string, kinds ...string) string {
	t := &table{head: []string{head, "stretches", "longest call of one, p50", "of all", "p50 to nothing", "of all to nothing", "p50 over nothing"}}
	none := s[swapNothing]
	for _, kind := range kinds {
		one := s[kind]
		t.add(kind, fmt.Sprint(len(one)), millis(one.p50()), millis(one.quantile(1)),
			ratio(float64(one.p50()), float64(none.p50())), ratio(float64(one.quantile(1)), float64(none.quantile(1))), millis(one.p50()-none.p50()))
	}
	return t.String()
}

// over says by how much more than nothing the longest call of a stretch is, in the middle.
func (s stretches) over(kind string) time.Duration { return s[kind].p50() - s[swapNothing].p50() }

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
	return out, out.fill(laws, func(kind string, law comingLaw) (time.Duration, error) {
		var problem error
		do := map[string]func(){
			swapCompiling: func() { go func() { compiled <- open(law, engine.Prepare) }() },
			swapPrepared: func() {
				if !engine.UsePrepared(law.revision) {
					problem = errors.New("a prepared law is not there")
				}
			},
			swapCold: func() { problem = open(law, engine.Use) },
		}[kind]
		var longest time.Duration
		for began := time.Now(); time.Since(began) < swapStretch; {
			at := time.Now()
			if do != nil && time.Since(began) > swapStretch/3 {
				do()
				do = nil
			}
			engine.Decide(ctx, facts)
			longest = max(longest, time.Since(at))
		}
		if kind == swapCompiling {
			problem = <-compiled
		}
		return longest, problem
	}, swapCompiling, swapPrepared, swapCold)
}

// fill measures the kinds in turns, each beside a stretch in which nothing happens. What is compiled becomes live in
// the stretch after it; the rounds take two laws each, and the first one is thrown away.
func (s stretches) fill(laws []comingLaw, stretch func(kind string, law comingLaw) (time.Duration, error), kinds ...string) error {
	for round := range len(laws) / 2 {
		for _, kind := range slices.Concat([]string{swapNothing}, kinds) {
			law := laws[2*round]
			if kind == swapCold {
				law = laws[2*round+1]
			}
			longest, err := stretch(kind, law)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			if round > 0 {
				s[kind] = append(s[kind], longest)
			}
		}
	}
	return nil
}

// swapGateway calls steadily through a gateway while laws become live by the transaction of an activation: after the
// gateway was asked to prepare them, and without. What the act is judged by is left out, and its trial.
func (h *benchHouse) swapGateway(ctx context.Context, conn *grpc.ClientConn, laws []comingLaw) (stretches, error) {
	store, err := control.Open(ctx, control.Config{URL: h.Postgres.DSN(world.Database, "gateway"), Instance: "bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	out := stretches{}
	return out, out.fill(laws, func(kind string, law comingLaw) (time.Duration, error) {
		act := control.Act{Entry: func(control.Stamp) audit.Entry {
			return audit.Entry{Kind: audit.KindSystem, Verdict: audit.Allowed, Method: "bench", Detail: kind}
		}}
		if kind == swapCompiling || kind == swapCold {
			if _, err := store.SaveBundle(ctx, law.revision, law.archive, nil, act); err != nil {
				return 0, err
			}
		}
		done := make(chan error, 1)
		do := func() {
			var err error
			switch kind {
			case swapOther:
				_, err = store.SetRolloutLimit(ctx, world.Cluster, 1, act)
			case swapCompiling:
				err = prepared(ctx, store, law.revision)
			case swapPrepared, swapCold:
				_, err = store.ActivateBundle(ctx, control.NewLive{Revision: law.revision, Way: control.WayActivate}, act)
			}
			done <- err
		}
		var longest, ended time.Duration // ended is when what happens has
		for began := time.Now(); ended == 0 || time.Since(began) < max(swapStretch, ended+swapStretch/2); {
			if do != nil && time.Since(began) > swapStretch/3 {
				go do()
				do = nil
			}
			at := time.Now()
			if _, err := h.ways[2].unary(ctx, conn, benchVersion, nil); err != nil {
				return 0, err
			}
			longest = max(longest, time.Since(at))
			select {
			case err := <-done:
				if ended = time.Since(began); err != nil {
					return 0, err
				}
			default:
			}
		}
		return longest, nil
	}, swapOther, swapCompiling, swapPrepared, swapCold)
}

// prepared asks for a law to be compiled, and waits until each replica has it.
func prepared(ctx context.Context, store *control.Store, revision string) error {
	if err := store.AskPrepared(ctx, revision); err != nil {
		return err
	}
	for bounded, cancel := context.WithTimeout(ctx, time.Minute); ; time.Sleep(20 * time.Millisecond) {
		all, err := store.Replicas(bounded)
		if err != nil {
			cancel()
			return err
		}
		if !slices.ContainsFunc(all.List, func(r control.Replica) bool { return r.Preparation(revision) != control.Done }) {
			cancel()
			return nil
		}
	}
}
