package gateway

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// prepared is what step 3a made ready outside of the transaction, because a key may be a
// network away (I16).
type prepared struct {
	// opened is the change whose sealed bytes are those of this request.
	opened control.ChangeID
	// fresh is a new change, sealed; null when none is needed.
	fresh *control.NewChange
}

// id is the one a new change would have; zero when none was made ready.
func (p prepared) id() control.ChangeID {
	if p.fresh == nil {
		return control.ChangeID{}
	}
	return p.fresh.ID
}

// weighed is a judgement of an apply with the machine's changes taken into account.
type weighed struct {
	decision policy.Decision
	facts    *policy.Facts
	// match is the live change the request is; null when there is none.
	match *control.Change
	// overtaken are changes whose base has moved, onDisk those of them of which only what is on the
	// disk has; overtakenBy is the digest of the new one.
	overtaken, onDisk []control.ChangeID
	overtakenBy       string
}

// weigh judges an apply on its facts with the change it is, or would become. id names the one
// it would become. decide is the judge for the revision in force.
func (c *call) weigh(l *look, f *policy.Facts, live []control.Change, machine, epoch uuid.UUID, id control.ChangeID, decide func(*policy.Facts) policy.Decision) weighed {
	w := weighed{facts: f, match: c.match(l, machine, epoch, live)}
	if c.kind() != control.KindApply {
		f.Change = c.pendingFacts(id) // what settles a drift is judged as that, whether it is there yet or not
	}
	w.overtaken, w.onDisk, w.overtakenBy = c.moved(l, live)
	w.decision = judgeApply(f, w.match, c.pendingFacts(id), c.person(), epoch, decide)
	return w
}

// judgeApply judges an apply by somebody as the live change that it is; where it is none and nothing
// but approvals is missing, as the one that it would become. It sets that change in the facts.
func judgeApply(f *policy.Facts, match *control.Change, pending *policy.Change, by policy.Person, epoch uuid.UUID, decide func(*policy.Facts) policy.Decision) policy.Decision {
	if match != nil {
		f.Change = changeFacts(match, by, epoch)
	}
	d := judgeOrigin(f, match, by, epoch, decide(f))
	if match == nil && OnlyApprovals(d) {
		// Judged again with the name it would have, so that the refusal can say it. Only what
		// nothing else refuses becomes a change.
		f.Change = pending
		d = judgeOrigin(f, nil, by, epoch, decide(f))
	}
	return d
}

// judgeOrigin holds the law's answer against what no policy can waive: also what it refuses
// for approvals alone, because nobody is asked to approve what would be refused all the same.
func judgeOrigin(f *policy.Facts, match *control.Change, by policy.Person, epoch uuid.UUID, d policy.Decision) policy.Decision {
	counting := 0
	if match != nil {
		counting = len(match.Counting(d.Approvals, by, epoch))
	}
	if OnlyApprovals(d) {
		approved := invariants(f, policy.Decision{Allow: true}, 1)
		d.Reasons = append(slices.Clone(d.Reasons), approved.Reasons...)
		return d
	}
	return invariants(f, d, counting)
}

// prepare is step 3a: judge on unlocked facts; when it is allowed, open the seal of the change
// and compare the bytes; when nothing but approvals is missing, seal the new change. What it
// finds is judged again under the locks.
func (c *call) prepare(t *target, l *look) (prepared, error) {
	if c.asked.Apply.DryRun {
		return prepared{}, nil
	}
	live, err := c.g.store.LiveChanges(c.ctx, t.machine.ID)
	if err != nil {
		return prepared{}, c.notWritten(uuid.Nil, err)
	}
	snap := c.g.laws.current(c.ctx, c.g)
	live = liveNow(live, snap)
	f := c.facts(t, snap, "final")
	f.Evidence, f.Config = evidenceFacts(l.evidence, t.machine), l.config
	id := newChangeID()
	w := c.weigh(l, f, live, t.machine.ID, snap.Epoch, id, func(f *policy.Facts) policy.Decision {
		return c.g.laws.judge(c.ctx, c.g, snap, f)
	})
	switch {
	case w.match != nil && w.decision.Allow && !c.captures():
		return c.openAndCompare(t, w.match)
	case w.match == nil && c.mayCapture(w.decision):
		return c.sealNew(t, l, w, id, snap.Epoch)
	}
	return prepared{}, nil
}

// openAndCompare holds the request against the sealed bytes, byte for byte: a digest alone is
// the word of the database.
func (c *call) openAndCompare(t *target, ch *control.Change) (prepared, error) {
	if c.opened == ch.ID {
		return prepared{opened: ch.ID}, nil // the request was made of its sealed bytes
	}
	began := time.Now()
	bytes, err := c.g.openChange(c.ctx, ch)
	if err != nil {
		return prepared{}, c.notOpened(t, ch.ID, err)
	}
	same := subtle.ConstantTimeCompare(bytes, c.asked.Apply.Data) == 1
	c.g.metrics.seconds.WithLabelValues("open").Observe(time.Since(began).Seconds())
	if !same {
		return prepared{}, c.notSealed(t, ch.ID)
	}
	return prepared{opened: ch.ID}, nil
}

// notSealed answers when the sealed bytes are others than those that were captured: somebody
// has changed the database, or the key.
func (c *call) notSealed(t *target, id control.ChangeID) error {
	return c.refuseChange(t, id, "BW-CHANGE-006",
		fmt.Sprintf("the sealed bytes of change %s are not those that were captured", id), "nothing was sent to the machine; propose it again")
}

// altered is an error of a Sealer that says: these are not the bytes that were sealed.
type altered interface{ Altered() bool }

// notOpened answers when the sealed bytes cannot be had: nothing is sent and nothing spent.
func (c *call) notOpened(t *target, id control.ChangeID, cause error) error {
	c.noteSeal(cause)
	var bad altered
	if errors.As(cause, &bad) && bad.Altered() {
		return c.notSealed(t, id)
	}
	return c.refuseKeys(t, id, keysAwayOf(cause), fmt.Sprintf("the sealed bytes of change %s cannot be opened now", id))
}

// noteSeal puts into the log why sealed bytes cannot be had.
func (c *call) noteSeal(cause error) { c.note(slog.Any("seal", cause)) }

// sealNew seals the request's exact bytes for a change that may be captured.
func (c *call) sealNew(t *target, l *look, w weighed, id control.ChangeID, epoch uuid.UUID) (prepared, error) {
	n := &control.NewChange{
		ID: id, Binding: c.binding(l, t.machine.ID, epoch), Asked: w.decision.Approvals, Review: c.review(l, w.decision),
		ApproveWithin: c.g.changes.ApproveWithin, UseWithin: c.g.changes.UseWithin,
		MostWaiting: c.g.changes.WaitingPerCaller, MostBytes: c.g.changes.WaitingBytesPerCaller, Notify: c.g.changes.Notify,
	}
	if c.act != nil {
		n.Set, n.Why = c.act.set, c.act.why
	}
	ctx, cancel := context.WithTimeout(c.ctx, sealWithin)
	defer cancel()
	var err error
	began := time.Now()
	text := c.asked.Apply.Data
	if c.adopts() && !copied(t.machine, &l.evidence) {
		text = []byte(notKept)
	}
	n.Sealed, err = c.g.sealer.Seal(ctx, text, sealContext(id, t.machine.ID, n.Digest))
	if err != nil {
		c.note(slog.Any("seal", err))
		return prepared{}, c.refuseKeys(t, control.ChangeID{}, keysAwayOf(err), "the change cannot be sealed now, and so is not captured")
	}
	c.g.metrics.seconds.WithLabelValues("seal").Observe(time.Since(began).Seconds())
	return prepared{fresh: n}, nil
}

// captures is true for a proposal, which is never sent.
func (c *call) captures() bool { return c.act != nil && c.act.name != ActChangesApply }

// mayCapture is true when the request may become a change: nothing but approvals is missing,
// or it is a proposal that nothing refuses. A change applied by its id becomes no other one.
func (c *call) mayCapture(d policy.Decision) bool {
	if c.act != nil && c.act.name == ActChangesApply {
		return false
	}
	return OnlyApprovals(d) || c.captures() && d.Allow
}
