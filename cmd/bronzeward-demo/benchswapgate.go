package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"

	"bronzeward/audit"
	"bronzeward/fixtures/world"
	"bronzeward/gateway/control"
)

// swapGateway calls steadily through a gateway while laws become live by the transaction of an activation: after the
// gateway was asked to prepare them, and without. What the act is judged by is left out, and its trial.
func (h *benchHouse) swapGateway(ctx context.Context, conn *grpc.ClientConn, laws []comingLaw) (stretches, error) {
	store, err := control.Open(ctx, control.Config{URL: h.Postgres.DSN(world.Database, "gateway"), Instance: "bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	out := stretches{}
	return out, out.fill(laws, func(kind string, law comingLaw) (met, longest time.Duration, err error) {
		act := control.Act{Entry: func(control.Stamp) audit.Entry {
			return audit.Entry{Kind: audit.KindSystem, Verdict: audit.Allowed, Method: "bench", Detail: kind}
		}}
		if kind == swapCompiling || kind == swapCold {
			if _, err := store.SaveBundle(ctx, law.revision, law.archive, nil, act); err != nil {
				return 0, 0, err
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
		var ended time.Duration // when what happens has
		began := time.Now()
		for over := false; ended == 0 || time.Since(began) < max(swapStretch, ended+swapStretch/2); {
			if do != nil && time.Since(began) > swapStretch/3 {
				go do()
				do = nil
			}
			at, last := time.Now(), ended > 0
			if _, err := h.ways[2].unary(ctx, conn, benchVersion, nil); err != nil {
				return 0, 0, err
			}
			took := time.Since(at)
			if longest = max(longest, took); do == nil && !over {
				met, over = max(met, took), last
			}
			select {
			case err := <-done:
				if ended = time.Since(began); err != nil {
					return 0, 0, err
				}
			default:
			}
		}
		return met, longest, nil
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
