package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// Activate saves a bundle and makes it live. It must have passed policy.Trial. *NotAnchoredError says
// that it is live all the same.
func (a *Acts) Activate(ctx context.Context, by Actor, b *policy.Bundle) (audit.Receipt, error) {
	snap, err := a.Store.Refresh(ctx, 0)
	if err != nil {
		return audit.Receipt{}, err
	}
	if snap.LiveRevision == "" {
		if err := a.Judge.Use(ctx, b); err != nil {
			return audit.Receipt{}, err
		}
	}
	save, said, err := a.act(ctx, by, ActPolicySave, b.Revision(), b.Revision())
	if err != nil {
		return audit.Receipt{}, err
	}
	if receipt, err := a.Store.SaveBundle(ctx, b.Revision(), b.Bytes(), save); err != nil {
		return receipt, a.denied(ctx, err, said)
	}
	if err := mayActivateAgain(ctx, by, b, snap.Now()); err != nil {
		return audit.Receipt{}, err
	}
	// A crash here leaves a saved bundle that is not live; activating it again is harmless.
	activate, said, err := a.act(ctx, by, ActPolicyActivate, b.Revision(), b.Revision())
	if err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.Store.ActivateBundle(ctx, b.Revision(), 0, activate)
	return receipt, a.anchored(ctx, said, a.denied(ctx, err, said))
}

// ErrLockOut means that a law would shut out whoever brings it, and was not made live.
var ErrLockOut = errors.New("this law locks out whoever brings it")

// mayActivateAgain refuses a law under which whoever brings it could not bring another:
// it would lock everybody out of the law.
func mayActivateAgain(ctx context.Context, by Actor, b *policy.Bundle, now time.Time) error {
	draft := policy.New(policy.EngineConfig{})
	if err := draft.Use(ctx, b); err != nil {
		return err
	}
	d := draft.DecideAct(ctx, &policy.Act{
		Version: policy.FactsVersion, Act: ActPolicyActivate, Caller: actorFacts(by), Subject: b.Revision(), Now: now,
	})
	if !d.Allow {
		return fmt.Errorf("%w: %s, in %s, could not activate another one (%s); give one of these groups the role policy-admin in role_bindings. The live law stays",
			ErrLockOut, by.Caller.Subject, strings.Join(by.Caller.Groups, ", "), strings.Join(d.Codes(), ", "))
	}
	return nil
}

// ActivateWatched makes the law of a watched directory live: nobody asked for it but the
// configuration of a gateway in development, and the entry says so. *DeniedAct while the database, or
// OpenBao, may be older than it was.
func (a *Acts) ActivateWatched(ctx context.Context, b *policy.Bundle) error {
	answers := &said{byEntry: map[uuid.UUID]policy.Decision{}}
	act := func() control.Act {
		return control.Act{Entry: func(st control.Stamp) audit.Entry {
			d := actInDoubt(st.Standing, ActPolicyActivate, policy.Decision{Allow: true})
			e := audit.Entry{
				ID: newID(), Kind: audit.KindPolicy, Verdict: verdictOf(d), Method: ActPolicyActivate, Class: "act", Reasons: d.Reasons, Codes: d.Codes(),
				PolicyRevision: b.Revision(), Detail: "watched directory, in development", Count: 1,
			}
			answers.byEntry[e.ID] = d
			return e
		}}
	}
	if _, err := a.Store.SaveBundle(ctx, b.Revision(), b.Bytes(), act()); err != nil {
		return a.denied(ctx, err, answers)
	}
	receipt, err := a.Store.ActivateBundle(ctx, b.Revision(), 0, act())
	if err != nil {
		return a.denied(ctx, err, answers)
	}
	return a.forwardAnchor(ctx, receipt)
}
