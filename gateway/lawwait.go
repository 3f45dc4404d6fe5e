package gateway

import (
	"context"
	"fmt"
	"time"

	"bronzeward/gateway/control"
)

// patience is how long an activation waits for replicas to compile the law ahead. What it waits for is that no
// call does; so whoever is slower is not waited for, and loads the law when it is live.
type patience struct {
	// aware is for a replica that has not told that it was asked: it is an older program, or died just now.
	aware time.Duration
	// done is for one that is at it.
	done time.Duration
}

// defaultPatience: a replica looks every half second, and compiles the shipped law in less than one where a
// core is free.
var defaultPatience = patience{aware: 3 * time.Second, done: 10 * time.Second}

// waitEvery is how often an activation looks who is ready.
const waitEvery = 50 * time.Millisecond

// awaitPrepared asks the replicas to compile a saved law, and waits a bounded while for those that are there. It
// says for the entry what came of it; empty where no replica is heard, as at the first law of a house. Nothing is
// decided by it, and its only error is the caller's end: the law stays saved.
func (a *Acts) awaitPrepared(ctx context.Context, revision string) (string, error) {
	if err := a.Store.AskPrepared(ctx, revision); err != nil {
		return "", ctx.Err() // the act finds out what is wrong with the database, or with the law
	}
	began, limits := time.Now(), a.patience
	if limits == (patience{}) {
		limits = defaultPatience
	}
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for {
		all, err := a.Store.Replicas(ctx)
		if err != nil {
			return "", ctx.Err()
		}
		there, ready, waiting := countPrepared(all.List, revision, time.Since(began), limits)
		if there == 0 {
			return "", nil
		}
		if !waiting {
			return fmt.Sprintf("compiled ahead by %d of %d replicas", ready, there), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
}

// countPrepared says how many replicas are heard, how many of them have the law compiled, and whether one of the
// others is still to be waited for.
func countPrepared(all []control.Replica, revision string, waited time.Duration, limits patience) (there, ready int, waiting bool) {
	for _, r := range all {
		if !r.Heard() {
			continue
		}
		there++
		switch r.Preparation(revision) {
		case control.Done:
			ready++
		case control.UnderWay:
			waiting = waiting || waited < limits.done
		case control.Unaware:
			waiting = waiting || waited < limits.aware
		case control.Failed: // it loads the law when it is live, or refuses
		}
	}
	return there, ready, waiting
}
