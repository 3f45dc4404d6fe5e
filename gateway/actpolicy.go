package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// Draft is a law that somebody brings, and what its gate came to.
type Draft struct {
	// Bundle is the law, with its proof where it is signed.
	Bundle *policy.Bundle
	// Tried is what policy.Try says of it; of another bundle, or none, it is refused.
	Tried policy.Tried
	// Replay says what a replay of past decisions came to, with its limit; empty where none was asked for.
	Replay string
}

// errNotTried means that a draft comes without its trial.
var errNotTried = errors.New("a law without its trial is not taken")

// coming is a law on its way to become live, or to be saved.
type coming struct {
	Draft
	by     Actor
	way    string
	signed policy.Signed
	bad    *policy.SignatureError // why the pinned keys do not prove it
	// above is the live law's own counter: it may have become live before any key was pinned.
	above int64
	// untold is set where no key is pinned and the law has a signature: by whom, and whether it is newer, cannot be told here.
	untold bool
	// agreed are who agreed, as the judge counted them last.
	agreed []string
	// ahead says how many replicas had it compiled before; empty where there was none.
	ahead string
}

func (a *Acts) coming(by Actor, d Draft, way string) (*coming, error) {
	if d.Bundle == nil || d.Tried.Revision != d.Bundle.Revision() || d.Tried.Tests == 0 {
		return nil, errNotTried
	}
	c := &coming{Draft: d, by: by, way: way}
	if len(a.Keys) > 0 {
		var err error
		if c.signed, err = a.Keys.Verify(d.Bundle, d.Bundle.Proof()); err != nil && !errors.As(err, &c.bad) {
			return nil, err
		}
	}
	return c, nil
}

// SavePolicy keeps a draft, so that others can look at it and agree to it. It makes nothing live.
// *DeniedAct also where keys are pinned and none proves it.
func (a *Acts) SavePolicy(ctx context.Context, by Actor, d Draft, once *control.Once) (audit.Receipt, error) {
	c, err := a.coming(by, d, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	if err := a.firstLaw(ctx, c); err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.save(ctx, c, once)
	if err == nil {
		// A hint: whoever makes it live asks again, and a replica without it loads it then.
		_ = a.Store.AskPrepared(ctx, c.Bundle.Revision())
	}
	return receipt, err
}

func (a *Acts) save(ctx context.Context, c *coming, once *control.Once) (audit.Receipt, error) {
	revision := c.Bundle.Revision()
	act, said, err := a.actBesides(ctx, c.by, ActPolicySave, revision, revision, besides{judge: c.judgeProof, entry: c.note})
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	receipt, err := a.Store.SaveBundle(ctx, revision, c.Bundle.Bytes(), c.proof(), act)
	return receipt, a.denied(ctx, err, said)
}

// proof is what to keep with the law, signed by a pinned key or not; null without a signature.
func (c *coming) proof() *control.BundleProof {
	p := c.Bundle.Proof()
	if len(p.Signatures) == 0 {
		return nil
	}
	return &control.BundleProof{KeyID: c.signed.KeyID, Counter: c.signed.Counter, Signatures: p.Signatures, Manifest: p.Manifest}
}

// firstLaw has a law judge itself while none is live; one that the pinned keys do not prove judges nothing.
func (a *Acts) firstLaw(ctx context.Context, c *coming) error {
	snap, err := a.Store.Refresh(ctx, 0)
	switch {
	case err != nil || snap.LiveRevision != "":
		return err
	case c.bad != nil:
		return c.bad
	}
	return a.Judge.Use(ctx, c.Bundle)
}

// Activate saves a draft and makes it live. *DeniedAct where the law, the pinned keys, the counter or
// those who have to agree refuse; *NotAnchoredError says that it is live all the same.
func (a *Acts) Activate(ctx context.Context, by Actor, d Draft, once *control.Once) (audit.Receipt, error) {
	c, err := a.coming(by, d, control.WayActivate)
	if err != nil {
		return audit.Receipt{}, err
	}
	if err := a.firstLaw(ctx, c); err != nil {
		return audit.Receipt{}, err
	}
	// Before this signature is kept: the live law may be the same one, signed again.
	if c.above, err = a.liveCounter(ctx); err != nil {
		return audit.Receipt{}, err
	}
	if receipt, err := a.save(ctx, c, nil); err != nil {
		return receipt, err
	}
	if len(a.Keys) == 0 {
		n, err := a.Store.CountBundleProofs(ctx, d.Bundle.Revision())
		if err != nil {
			return audit.Receipt{}, err
		}
		c.untold = n > 0
	}
	// A crash here leaves a saved bundle that is not live; activating it again is harmless.
	return a.makeLive(ctx, c, ActPolicyActivate, once)
}

// Rollback makes a saved law live that was live before: the one way back to an older counter. The
// draft is of SavedLaw, tried again. Errors are as Activate's.
func (a *Acts) Rollback(ctx context.Context, by Actor, d Draft, once *control.Once) (audit.Receipt, error) {
	c, err := a.coming(by, d, control.WayRollback)
	if err != nil {
		return audit.Receipt{}, err
	}
	return a.makeLive(ctx, c, ActPolicyRollback, once)
}

func (a *Acts) makeLive(ctx context.Context, c *coming, name string, once *control.Once) (audit.Receipt, error) {
	if err := a.mayActivateAgain(ctx, c.by, c.Bundle); err != nil {
		return audit.Receipt{}, err
	}
	revision := c.Bundle.Revision()
	if err := a.May(ctx, c.by, name, revision); err != nil { // before anything is done for it
		return audit.Receipt{}, err
	}
	var err error
	if c.ahead, err = a.awaitPrepared(ctx, revision); err != nil {
		return audit.Receipt{}, err
	}
	// A crash here leaves a saved law that is compiled and not live.
	act, said, err := a.actBesides(ctx, c.by, name, revision, revision, besides{judge: c.judge, entry: c.note})
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	receipt, err := a.Store.ActivateBundle(ctx, control.NewLive{
		Revision: revision, Way: c.way, Signed: c.signed.Counter,
		Required: func(entry uuid.UUID) int { return said.byEntry[entry].Approvals.Required },
	}, act)
	return receipt, a.anchored(ctx, said, a.denied(ctx, err, said))
}

// liveCounter is the counter of the live law, if the pinned keys prove it; zero otherwise.
func (a *Acts) liveCounter(ctx context.Context) (int64, error) {
	snap, err := a.Store.Refresh(ctx, 0)
	if err != nil || len(a.Keys) == 0 || snap.LiveRevision == "" {
		return 0, err
	}
	_, signed, err := storedLaw(ctx, a.Store, a.Keys, snap.LiveRevision)
	if bad := (*policy.SignatureError)(nil); errors.As(err, &bad) {
		return 0, nil
	}
	return signed.Counter, err
}

// judgeProof refuses what the pinned keys do not prove.
func (c *coming) judgeProof(_ control.Stamp, d policy.Decision) policy.Decision {
	if c.bad != nil {
		return refusedToo(d, "BW-BUNDLE-001", c.bad.Message, c.bad.Hint)
	}
	return d
}

// judge is what no law waives when another becomes live, read under the authority lock.
func (c *coming) judge(st control.Stamp, d policy.Decision) policy.Decision {
	if st.Repeated {
		return d // it is live already, or was: what counted for it counts no more
	}
	revision, highest := c.Bundle.Revision(), max(st.Law.Highest, c.above)
	d = c.judgeProof(st, d)
	switch {
	case c.way == control.WayRollback && !st.Law.WasLive:
		d = refusedToo(d, "BW-BUNDLE-003", fmt.Sprintf("the law %.12s never was live, so there is no going back to it", revision),
			"bronzeward policy activate DIR, or bronzeward policy history for what was live")
	case c.way == control.WayActivate && c.bad == nil && c.signed.KeyID != "" && c.signed.Counter <= highest:
		d = refusedToo(d, "BW-BUNDLE-002", fmt.Sprintf("the law %.12s carries the counter %d, and a law with the counter %d was live already", revision, c.signed.Counter, highest),
			fmt.Sprintf("set metadata.bronzeward.counter in .manifest to %d or more and sign it again; to go back on purpose: bronzeward policy rollback %.12s", highest+1, revision))
	case c.way == control.WayActivate && c.untold && highest > 0:
		d = refusedToo(d, "BW-BUNDLE-002", fmt.Sprintf("the law %.12s is signed, a law with the counter %d was live already, and no key is pinned here by which to tell whether this one is newer", revision, highest),
			fmt.Sprintf("activate it where policy.keys are pinned; to go back on purpose: bronzeward policy rollback %.12s", revision))
	}
	if st.LiveRevision == "" {
		d.Approvals.Required = 0 // there is no law yet that asks, and nobody who could agree by it
	}
	c.agreed = nil
	for _, one := range st.Law.Agreed {
		if one.Person != personOf(c.by.Caller) {
			c.agreed = append(c.agreed, printable(one.Subject))
		}
	}
	if missing := d.Approvals.Required - len(c.agreed); missing > 0 {
		d = refusedToo(d, "BW-APPROVAL-004", fewAgreed(revision, d.Approvals.Required, missing, c.agreed),
			fmt.Sprintf("another policy-admin: bronzeward policy approve %.12s", revision))
	}
	return d
}

func fewAgreed(revision string, required, missing int, agreed []string) string {
	who := "nobody has agreed yet"
	if len(agreed) > 0 {
		who = "agreed: " + strings.Join(agreed, ", ")
	}
	return fmt.Sprintf("the law %.12s needs the agreement of %d besides whoever makes it live, and %d of them missing (%s); an agreement counts until another law becomes live",
		revision, required, missing, who)
}

// refusedToo adds a refusal to what was decided.
func refusedToo(d policy.Decision, code, message, hint string) policy.Decision {
	d.Allow = false
	d.Reasons = append(d.Reasons, policy.Deny(code, message, hint).Reasons...)
	return d
}

// note says in the entry what the gate came to, who agreed and what proves the law.
func (c *coming) note(e *audit.Entry) {
	said := []string{c.Bundle.Revision()}
	if c.way == control.WayRollback {
		said = append(said, "back to a law that was live before, whatever its counter")
	}
	said = append(said, fmt.Sprintf("trial passed with %d tests and %d sample calls", c.Tried.Tests, c.Tried.Samples))
	if c.Replay != "" {
		said = append(said, "replay: "+c.Replay)
	}
	if c.signed.KeyID != "" {
		said = append(said, fmt.Sprintf("signed by key %s with counter %d", c.signed.KeyID, c.signed.Counter))
	}
	if len(c.agreed) > 0 {
		said = append(said, "agreed: "+strings.Join(c.agreed, ", "))
	}
	if c.ahead != "" {
		said = append(said, c.ahead)
	}
	e.Detail = strings.Join(said, "; ")
}

// ApprovePolicy keeps a person's agreement that a saved law follows the live one. It counts for whoever
// else makes it live, until another law does. control.ErrConflict when they agreed already.
func (a *Acts) ApprovePolicy(ctx context.Context, by Actor, revision string, once *control.Once) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActPolicyApprove, revision, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	receipt, err := a.Store.ApproveBundle(ctx, revision, control.Approver{
		Person: personOf(by.Caller), Kind: string(by.Caller.Kind), Groups: by.Caller.Groups,
	}, act)
	if errors.Is(err, control.ErrConflict) {
		err = control.Worded(control.ErrConflict, "you agreed to the law %.12s already; somebody else makes it live: bronzeward policy activate %.12s", revision, revision)
	}
	return receipt, a.denied(ctx, err, said)
}
