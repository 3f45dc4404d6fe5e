package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// plainRefusal is true for what refuses an act whatever it is about: by the law, or because no law
// is live, or the house may be older than it was.
func plainRefusal(r policy.Reason) bool {
	return policy.RefusesAnyAct(r.Code) || slices.Contains([]string{policy.CodeNoPolicy, codeRolledBack, codeOlderOpenBao}, r.Code)
}

// May refuses, with its entry, what is refused whatever the act is about: before a body is
// read, a row is looked up or a lock is taken, so that nobody without a role costs the others
// anything. Nil is no allowance: the act is judged for good under its locks.
func (a *Acts) May(ctx context.Context, by Actor, name, subject string) error {
	if a.Book == nil {
		return nil // a command of its own process, which holds up nobody
	}
	for range rounds {
		snap := a.Store.Snapshot()
		if a.Judge.Revision() != snap.LiveRevision {
			fresh, err := a.current(ctx)
			if err != nil {
				return err
			}
			snap = fresh
		}
		f, d := a.judged(ctx, by, name, subject, snap)
		// What else is said is said for want of a change, and is not so.
		d.Reasons = slices.DeleteFunc(slices.Clone(d.Reasons), func(r policy.Reason) bool { return !plainRefusal(r) })
		if d.Allow || len(d.Denials()) == 0 {
			return nil
		}
		e := actEntry(by, f, &d)
		receipt, err := a.write(ctx, e, snap)
		var stale *audit.StaleError
		if errors.As(err, &stale) {
			if _, err := a.Store.Refresh(ctx, stale.Current); err != nil {
				return err
			}
			continue // authority moved: judged again
		}
		if err != nil {
			return err
		}
		return &DeniedAct{Decision: d, Receipt: receipt}
	}
	return nil // it keeps moving: the act itself is judged under the lock
}

// Continue judges a reading that goes on under its first entry, as Read judged that one, and writes an entry only when it is
// refused now. It reads the authority anew: what was revoked before it was asked is refused.
func (a *Acts) Continue(ctx context.Context, by Actor, name, subject string) error {
	for range rounds {
		snap, err := a.current(ctx)
		if err != nil {
			return err
		}
		f, d := a.judged(ctx, by, name, subject, snap)
		if d.Allow {
			return nil
		}
		e := actEntry(by, f, &d)
		receipt, err := a.write(ctx, e, snap)
		var stale *audit.StaleError
		if errors.As(err, &stale) {
			continue // authority moved: judged again
		}
		if err != nil {
			return err
		}
		return &DeniedAct{Decision: d, Receipt: receipt}
	}
	return fmt.Errorf("%w: %w", control.ErrUnavailable, errMoving)
}

// judged judges an act by what the snapshot knows, without a lock: nothing may be done by it.
func (a *Acts) judged(ctx context.Context, by Actor, name, subject string, snap *control.Snapshot) (*policy.Act, policy.Decision) {
	f := &policy.Act{Version: policy.FactsVersion, Act: name, Caller: actorFacts(by), Subject: subject, Now: snap.Now()}
	f.Caller.Revoked = snap.Revoked(by.Caller.Issuer, by.Caller.Subject)
	return f, a.decide(ctx, control.Stamp{LiveRevision: snap.LiveRevision, CallerRevoked: f.Caller.Revoked, Now: f.Now, Standing: snap.Standing}, f, "")
}
