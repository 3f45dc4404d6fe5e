package gateway

import (
	"context"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// SavedLaw is a saved law with what proves it under the pinned keys, to be tried and made live. Its name
// is its revision, the first eight digits of it or more, "live", or "previous": the law before the live one.
func (a *Acts) SavedLaw(ctx context.Context, name string) (*policy.Bundle, error) {
	revision, err := a.lawNamed(ctx, name)
	if err != nil {
		return nil, err
	}
	b, _, err := storedLaw(ctx, a.Store, nil, revision)
	if err != nil {
		return nil, err
	}
	proofs, err := a.Store.BundleProofs(ctx, revision)
	if err != nil {
		return nil, err
	}
	for _, p := range proofs {
		proof := policy.Proof{Signatures: p.Signatures, Manifest: p.Manifest}
		if _, err := a.Keys.Verify(b, proof); err == nil || len(a.Keys) == 0 {
			return b.WithProof(proof), nil
		}
	}
	return b, nil // unproven, which whoever makes it live is told
}

func (a *Acts) lawNamed(ctx context.Context, name string) (string, error) {
	switch name {
	case "live":
		snap, err := a.Store.Refresh(ctx, 0)
		if err == nil && snap.LiveRevision == "" {
			err = control.Advised(control.ErrNotFound, "bronzeward policy activate DIR", "no law is live")
		}
		if err != nil {
			return "", err
		}
		return snap.LiveRevision, nil
	case "previous":
	default:
		return a.Store.BundleNamed(ctx, name)
	}
	past, err := a.Store.BundleActivations(ctx)
	if err != nil {
		return "", err
	}
	for _, one := range past {
		if one.Revision != past[0].Revision {
			return one.Revision, nil
		}
	}
	return "", control.Advised(control.ErrNotFound, "bronzeward policy history", "no other law was live before this one")
}

// ActivateWatched makes the law of a watched directory live: nobody asked for it but the
// configuration of a gateway in development, and the entry says so. *DeniedAct while the database, or
// OpenBao, may be older than it was, and where the pinned keys or the counter refuse it.
func (a *Acts) ActivateWatched(ctx context.Context, d Draft) error {
	c, err := a.coming(Actor{}, d, control.WayActivate)
	if err != nil {
		return err
	}
	b := d.Bundle
	answers := &said{byEntry: map[uuid.UUID]policy.Decision{}}
	act := func(judge func(control.Stamp, policy.Decision) policy.Decision) control.Act {
		return control.Act{Entry: func(st control.Stamp) audit.Entry {
			d := actInDoubt(st.Standing, ActPolicyActivate, judge(st, policy.Decision{Allow: true}))
			e := audit.Entry{
				ID: newID(), Kind: audit.KindPolicy, Verdict: verdictOf(d), Method: ActPolicyActivate, Class: "act", Reasons: d.Reasons, Codes: d.Codes(),
				PolicyRevision: b.Revision(), Detail: "watched directory, in development", Count: 1,
			}
			answers.byEntry[e.ID] = d
			return e
		}}
	}
	if _, err := a.Store.SaveBundle(ctx, b.Revision(), b.Bytes(), c.proof(), act(c.judgeProof)); err != nil {
		return a.denied(ctx, err, answers)
	}
	if _, err := a.awaitPrepared(ctx, b.Revision()); err != nil {
		return err
	}
	receipt, err := a.Store.ActivateBundle(ctx, control.NewLive{Revision: b.Revision(), Way: control.WayActivate, Signed: c.signed.Counter}, act(c.judge))
	if err != nil {
		return a.denied(ctx, err, answers)
	}
	return a.forwardAnchor(ctx, receipt)
}
