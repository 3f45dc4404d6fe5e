package gateway

import (
	"context"
	"errors"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// lawFailureKept is how long a law that could not be loaded is not read, verified and compiled again.
const lawFailureKept = 5 * time.Second

// lawFailure is what came of loading a law. Immutable.
type lawFailure struct {
	revision string
	proofs   int // saved for the revision before it was tried
	at       time.Time
	err      error
}

func newLaws(keys policy.Keys) laws {
	return laws{keys: keys, now: time.Now, changed: make(chan struct{}, 1)}
}

// remembered is why the revision could not be loaded a moment ago; null when it may be tried.
func (l *laws) remembered(revision string) error {
	f := l.failure.Load()
	if f == nil || f.revision != revision || l.now().Sub(f.at) >= lawFailureKept {
		return nil
	}
	return f.err
}

// fail remembers it. That a caller hung up or the database was away says nothing about the law, and
// the next one tries it.
func (l *laws) fail(ctx context.Context, revision string, proofs int, err error) {
	if ctx.Err() != nil || errors.Is(err, control.ErrUnavailable) {
		return
	}
	l.failure.Store(&lawFailure{revision: revision, proofs: proofs, at: l.now(), err: err})
	l.tell()
}

// forgetIfSigned forgets the failure when another signature of the law was saved since.
func (l *laws) forgetIfSigned(ctx context.Context, g *Gateway, revision string) {
	f := l.failure.Load()
	if len(l.keys) == 0 || f == nil || f.revision != revision || l.remembered(revision) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if n, err := g.store.CountBundleProofs(ctx, revision); err == nil && n != f.proofs {
		l.failure.CompareAndSwap(f, nil)
	}
}

// why is what to tell people of a law that is not verified; null while nothing is wrong with it, or
// it is not theirs to know.
func (l *laws) why(revision string) *policy.SignatureError {
	f := l.failure.Load()
	if f == nil || f.revision != revision {
		return nil
	}
	var why *policy.SignatureError
	errors.As(f.err, &why)
	return why
}

// tell wakes whoever reports which law is loaded.
func (l *laws) tell() {
	select {
	case l.changed <- struct{}{}:
	default: // it is awake
	}
}
