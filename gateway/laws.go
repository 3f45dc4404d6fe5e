package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// laws keeps the engine on the live revision. Safe for concurrent use.
type laws struct {
	keys    policy.Keys // pinned; none means that no signature is asked for
	now     func() time.Time
	mu      sync.Mutex // held while a revision is loaded, so that it is loaded once
	logged  string     // the revision that could not be loaded, logged once; guarded by mu
	failure atomic.Pointer[lawFailure]
	ahead   lawsAhead
	// changed has something in it after a law was loaded or could not be; several may be one.
	changed chan struct{}
}

// current is a snapshot whose live revision the engine has, if that can be had: a call
// that comes while another law becomes live waits for it instead of being refused.
func (l *laws) current(ctx context.Context, g *Gateway) *control.Snapshot {
	snap := g.store.Snapshot()
	if g.judge.Revision() == snap.LiveRevision {
		return snap
	}
	// The engine may be ahead of the snapshot, or behind it.
	if fresh, err := g.store.Refresh(ctx, 0); err == nil {
		snap = fresh
	}
	if snap.LiveRevision != "" && g.judge.Revision() != snap.LiveRevision {
		_ = l.load(ctx, g, snap.LiveRevision) // logged there; judge refuses
	}
	return snap
}

// judge decides by the live revision and by no other: a replica that does not have it
// refuses to decide (I11).
func (l *laws) judge(ctx context.Context, g *Gateway, snap *control.Snapshot, f *policy.Facts) policy.Decision {
	if snap.LiveRevision == "" {
		return policy.Deny("BW-POLICY-001", "no policy is live", "bronzeward policy activate DIR")
	}
	if g.judge.Revision() != snap.LiveRevision {
		return missingLaw(snap.LiveRevision, l.why(snap.LiveRevision))
	}
	d := g.judge.Decide(ctx, f)
	if d.Revision != snap.LiveRevision {
		// Another revision became live between the two lines above.
		return missingLaw(snap.LiveRevision, nil)
	}
	return d
}

func missingLaw(revision string, why *policy.SignatureError) policy.Decision {
	if why != nil {
		return policy.Deny("BW-POLICY-001", fmt.Sprintf("this replica cannot verify the live policy %.12s: %s", revision, why.Message), why.Hint)
	}
	return policy.Deny("BW-POLICY-001", fmt.Sprintf("this replica does not have the live policy %.12s", revision),
		"bronzeward policy status")
}

// storedLaw is the bundle that the database has under this revision, verified with the pinned keys: what
// somebody wrote into the database does not become law by that. With keys, the bundle comes with the proof
// that one of them verified. *policy.SignatureError when no pinned key verifies it.
func storedLaw(ctx context.Context, store *control.Store, keys policy.Keys, revision string) (*policy.Bundle, policy.Signed, error) {
	archive, err := store.Bundle(ctx, revision)
	if err != nil {
		return nil, policy.Signed{}, fmt.Errorf("reading bundle %s: %w", revision, err)
	}
	bundle, err := policy.Open(archive)
	if err != nil {
		return nil, policy.Signed{}, fmt.Errorf("opening bundle %s: %w", revision, err)
	}
	if bundle.Revision() != revision {
		return nil, policy.Signed{}, fmt.Errorf("bundle %s is stored under the name %s", bundle.Revision(), revision)
	}
	if len(keys) == 0 {
		return bundle, policy.Signed{}, nil
	}
	proofs, err := store.BundleProofs(ctx, revision)
	if err != nil {
		return nil, policy.Signed{}, err
	}
	by := ""
	var best policy.Signed // a revision may be signed again, with another counter
	var proven *policy.Bundle
	for _, p := range proofs {
		proof := policy.Proof{Signatures: p.Signatures, Manifest: p.Manifest}
		signed, err := keys.Verify(bundle, proof)
		if err == nil {
			if signed.Counter > best.Counter {
				best, proven = signed, bundle.WithProof(proof)
			}
			continue
		}
		var why *policy.SignatureError
		if errors.As(err, &why); by == "" {
			by = cmp.Or(p.KeyID, why.KeyID)
		}
	}
	if proven != nil {
		return proven, best, nil
	}
	return nil, policy.Signed{}, unproven(revision, by, len(proofs), keys)
}

// unproven says which key is missing, and in which order to go on.
func unproven(revision, by string, proofs int, keys policy.Keys) *policy.SignatureError {
	pinned := strings.Join(keys.IDs(), ", ")
	if proofs == 0 {
		return &policy.SignatureError{
			Message: fmt.Sprintf("the law %.12s is saved without a signature, and keys are pinned (%s)", revision, pinned),
			Hint:    "take policy.keys away, save the same law signed (bronzeward policy save DIR), then pin the keys",
		}
	}
	key := "the key that signed it"
	if by != "" {
		key = "the key " + by
	}
	return &policy.SignatureError{
		KeyID:   by,
		Message: fmt.Sprintf("the law %.12s is signed by none of the keys in policy.keys (%s): %s is missing", revision, pinned, key),
		Hint:    fmt.Sprintf("put %s back into policy.keys, activate a law signed by another pinned key, then remove it", key),
	}
}

// How a law came into the engine, as bronzeward_policy_loads_total tells it.
const (
	loadPrepared = "prepared"
	loadCompiled = "compiled"
)

// load brings the live revision into the engine: at once when it is prepared, else it is read, verified and
// compiled while whoever comes waits. The last good one stays when it fails,
// and decides nothing: judge compares revisions. What failed is not tried again for a moment.
func (l *laws) load(ctx context.Context, g *Gateway, revision string) error {
	if err := l.remembered(revision); err != nil {
		return err
	}
	if known := l.failure.Load(); known == nil || known.revision != revision {
		l.mu.Lock() // who comes while another law becomes live waits for it
	} else if !l.mu.TryLock() {
		return known.err // somebody tries it again, and nobody waits for that
	}
	defer l.mu.Unlock()
	if g.judge.Revision() == revision {
		return nil
	}
	if err := l.remembered(revision); err != nil {
		return err
	}
	proofs, how := 0, loadPrepared
	used, err := l.usePrepared(ctx, g, revision)
	if err == nil && !used {
		how = loadCompiled
		proofs, err = l.loadOnce(ctx, g, revision)
	}
	if err == nil {
		l.failure.Store(nil)
		l.logged = ""
		l.tell()
		g.metrics.loads.WithLabelValues(how).Inc()
		g.log.InfoContext(ctx, "policy loaded", slog.String("revision", revision), slog.String("how", how))
		return nil
	}
	if l.logged != revision {
		g.log.ErrorContext(ctx, "the live policy cannot be loaded; every call is denied", slog.Any("cause", err))
	}
	l.logged = revision
	l.fail(ctx, revision, proofs, err)
	return err
}

// loadOnce does it, and gives how many proofs there were before it looked at them.
func (l *laws) loadOnce(ctx context.Context, g *Gateway, revision string) (proofs int, err error) {
	if len(l.keys) > 0 {
		if proofs, err = g.store.CountBundleProofs(ctx, revision); err != nil {
			return 0, err
		}
	}
	bundle, err := lawInForce(ctx, g.store, l.keys, revision)
	if err != nil {
		return proofs, err
	}
	if err := g.judge.Use(ctx, bundle); err != nil {
		return proofs, err
	}
	l.ahead.prove(g.judge, bundle)
	return proofs, nil
}

// followEvery is how often the watch over open calls looks without being told that
// authority moved.
const followEvery = 500 * time.Millisecond

// Follow keeps this replica to the authority it has confirmed, until ctx ends: it loads
// the live policy, ends the open calls of people who were revoked or whose certificate is not
// trusted any more, and ends all when the authority version could not be confirmed for too long.
func (g *Gateway) Follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		snap := g.store.Snapshot()
		g.sessions.endRevoked(snap.Revoked)
		g.sessions.endRetired(func(id uuid.UUID) bool { return snap.Machines[id] != nil && snap.Machines[id].Retired != nil })
		g.sessions.endUntrusted()
		if g.store.Unconfirmed() > control.ConfirmLimit {
			g.sessions.endAll(errUnconfirmed)
		}
		if snap.LiveRevision != "" && g.judge.Revision() != snap.LiveRevision {
			g.laws.forgetIfSigned(ctx, g, snap.LiveRevision)
			_ = g.laws.load(ctx, g, snap.LiveRevision) // logged there; judge refuses meanwhile
		}
		select {
		case <-ctx.Done():
			return
		case <-snap.Superseded():
		case <-tick.C:
		}
	}
}
