package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// prepareEvery is how often a replica looks which laws it is asked to prepare.
const prepareEvery = 500 * time.Millisecond

// lawsAhead is what this replica knows of laws it was asked to compile before they become live. Safe for
// concurrent use; the compiled laws themselves are the engine's.
type lawsAhead struct {
	mu    sync.Mutex
	asked []control.AskedLaw // as last read; guarded by mu
	// failed are laws that could not be prepared, with when that was asked for; guarded by mu.
	failed map[string]time.Time
	// proven are laws this replica has read and verified itself, with what proved them; a law that is
	// compiled and not here does not become live without being verified. Guarded by mu.
	proven map[string]policy.Proof
}

// PrepareLaws compiles the laws that are about to become live, one at a time, until ctx ends, so that no call
// waits for that. A law that cannot be prepared is loaded when it is live, as any other.
func (g *Gateway) PrepareLaws(ctx context.Context) {
	tick := time.NewTicker(prepareEvery)
	defer tick.Stop()
	for {
		if asked, err := g.store.AskedLaws(ctx); err == nil { // else the watch over the authority version says so
			g.laws.prepare(ctx, g, asked)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// prepare compiles those of the asked laws that are not.
func (l *laws) prepare(ctx context.Context, g *Gateway, asked []control.AskedLaw) {
	l.ahead.mu.Lock()
	news := !slices.Equal(l.ahead.asked, asked)
	l.ahead.asked = asked
	l.ahead.mu.Unlock()
	if news {
		l.tell()
	}
	for _, one := range asked {
		if l.ahead.settled(g.judge, one) || trying.Acquire(ctx, 1) != nil {
			continue
		}
		err := l.prepareOnce(ctx, g, one.Revision)
		trying.Release(1)
		switch {
		case err == nil:
			g.log.InfoContext(ctx, "a law is prepared", slog.String("revision", one.Revision))
		case ctx.Err() != nil || errors.Is(err, control.ErrUnavailable):
			continue // which says nothing about the law: the next look tries it
		default:
			l.ahead.fail(one)
			g.log.WarnContext(ctx, "a law cannot be prepared", slog.String("revision", one.Revision), slog.Any("cause", err))
		}
		l.tell()
	}
}

// prepareOnce reads, verifies and compiles one law, and makes nothing live.
func (l *laws) prepareOnce(ctx context.Context, g *Gateway, revision string) error {
	bundle, _, err := storedLaw(ctx, g.store, l.keys, revision)
	if err != nil {
		return err
	}
	if err := g.judge.Prepare(ctx, bundle); err != nil {
		return err
	}
	l.ahead.prove(g.judge, bundle)
	return nil
}

// usePrepared makes a prepared law the engine's, if there is one: an exchange of a pointer. The law is bound to
// its revision, the digest of its files, and the pinned keys are this process's for its life; what can have changed
// since it was verified is that the proof is kept no more, and then it is none.
func (l *laws) usePrepared(ctx context.Context, g *Gateway, revision string) (bool, error) {
	proof, proven := l.ahead.proof(revision)
	if !proven {
		return false, nil
	}
	if len(l.keys) > 0 {
		kept, err := g.store.KeepsProof(ctx, revision, proof.Signatures, proof.Manifest)
		if err != nil || !kept {
			return false, err
		}
		if _, counts, err := counted(ctx, g.store, revision, proof.Counter()); err != nil || !counts {
			return false, err // lawInForce says why
		}
	}
	return g.judge.UsePrepared(revision), nil
}

// told is what to tell of the laws ahead.
func (a *lawsAhead) told(judge Judge) (out control.Ahead) {
	compiled := judge.Prepared()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, revision := range compiled {
		if _, proven := a.proven[revision]; proven {
			out.Prepared = append(out.Prepared, revision)
		}
	}
	for _, one := range a.asked {
		switch at, failed := a.failed[one.Revision]; {
		case slices.Contains(out.Prepared, one.Revision):
		case failed && at.Equal(one.At):
			out.Unprepared = append(out.Unprepared, one.Revision)
		default:
			out.Preparing = append(out.Preparing, one.Revision)
		}
	}
	return out
}

// settled is true for a law that is prepared, or that could not be since it was asked for.
func (a *lawsAhead) settled(judge Judge, one control.AskedLaw) bool {
	compiled := slices.Contains(judge.Prepared(), one.Revision)
	a.mu.Lock()
	defer a.mu.Unlock()
	_, proven := a.proven[one.Revision]
	at, failed := a.failed[one.Revision]
	return compiled && proven || failed && at.Equal(one.At)
}

// fail remembers that a law could not be prepared, until it is asked for again.
func (a *lawsAhead) fail(one control.AskedLaw) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil || len(a.failed) >= 2*control.AskedAhead {
		a.failed = map[string]time.Time{}
	}
	a.failed[one.Revision] = one.At
}

// prove remembers that a compiled law was verified here, and by what; of laws that are compiled no more it forgets it.
func (a *lawsAhead) prove(judge Judge, b *policy.Bundle) {
	compiled := judge.Prepared()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proven == nil {
		a.proven = map[string]policy.Proof{}
	}
	for revision := range a.proven {
		if !slices.Contains(compiled, revision) {
			delete(a.proven, revision)
		}
	}
	a.proven[b.Revision()] = b.Proof()
}

func (a *lawsAhead) proof(revision string) (policy.Proof, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, proven := a.proven[revision]
	return p, proven
}
