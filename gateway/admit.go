package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// apply is the way of one apply, whole. The numbers are those of the drawing in the
// README. It goes round again when something moved between reading and locking, and
// gives up after three rounds.
func (c *call) apply() error {
	t := &c.targets[0]
	for round := 1; round <= rounds; round++ {
		// 2a: what needs no evidence is judged first, so that a refusal touches no node.
		if refused, err := c.refusedEarly(t); refused || err != nil {
			return err
		}
		// 3: the machine's row, and with it its serial, is read before the evidence:
		// evidence that began under an older serial judges nothing (I7).
		machine, err := c.g.store.GetMachine(c.ctx, t.machine.Name)
		if err != nil {
			return c.notWritten(uuid.Nil, err)
		}
		t.machine = &machine
		if machine.Retired != nil {
			return c.denyAbout(t, retired(&machine))
		}
		if err := c.stillLive(); err != nil {
			return err
		}
		look, err := c.look(t)
		if err != nil {
			return c.unreachable(t, err)
		}
		// 3a: what may need a key a network away is done before the transaction: the seal of
		// the change is opened, or the new change is sealed.
		ready, err := c.prepare(t, look)
		if err != nil {
			look.close()
			return err
		}
		// 4 to 6: one transaction. A crash before its commit leaves nothing; after it,
		// the entry and an open attempt that holds the machine until it is settled, or a
		// change that waits.
		admission, judged, err := c.admit(t, look, ready)
		if errors.Is(err, control.ErrMoved) {
			look.close()
			if again, err := c.repeats(t, look.config.Digest); again || err != nil {
				return err
			}
			// What moved may be the law, and this replica not be told of it yet.
			if _, err := c.g.store.Refresh(c.ctx, 0); err != nil {
				return c.notWritten(uuid.Nil, err)
			}
			continue
		}
		if err != nil {
			look.close()
			return c.notAdmitted(t, err)
		}
		c.g.metrics.rounds.Observe(float64(round))
		c.note(slog.Int("approvals_required", judged.decision.Approvals.Required))
		c.decided = append(c.decided, admission.Receipt)
		c.g.countDecision(judged.entry)
		c.change = admission.Change
		if !judged.decision.Allow || c.captures() || c.adopts() {
			look.close()
			return c.refusedApply(admission.Receipt, judged)
		}
		// 7 to 9: sent once, read back, written down. From here on the caller's going
		// away changes nothing: the sending is detached, and Stop waits for it.
		defer look.close()
		if admission.Attempt == nil {
			return c.dryRun(t, look, judged.decision, admission)
		}
		return c.sendApply(t, look, judged.decision, admission)
	}
	return c.notWritten(uuid.Nil, errMoving)
}

// refusedEarly judges without evidence. Only a refusal is written: an allowed call gets
// the one entry of its final judgement.
func (c *call) refusedEarly(t *target) (bool, error) {
	phase := "early"
	if c.asked.Call.Class != policy.ClassApply {
		phase = "final" // it needs no evidence
	}
	snap := c.g.laws.current(c.ctx, c.g)
	f := c.facts(t, snap, phase)
	early := everyCall(f, c.g.laws.judge(c.ctx, c.g, snap, f))
	if early.Allow {
		if snap.Standing.Stops() {
			return true, c.denyAbout(t, inRecovery(snap.Standing, policy.Decision{Revision: early.Revision, OPA: early.OPA}))
		}
		return false, nil
	}
	v, err := c.decide(c.ctx, t, phase)
	if err != nil {
		return true, c.notWritten(uuid.Nil, err)
	}
	if v.decision.Allow {
		// Authority moved to the caller's favour between the two; the next step judges again.
		return false, nil
	}
	c.decided = append(c.decided, v.receipt)
	return true, denial(v.receipt, v.decision)
}

// look is what was read from the machine, on the connection that will carry the apply.
type look struct {
	conn     *upstream.SendingConn
	evidence upstream.Evidence
	config   *policy.Config
	redactor *facts.Redactor
	// asked, active and persistent are the texts with their digests.
	asked, active, persistent *digested
}

func (l *look) close() { _ = l.conn.Close() } // its only error is that it is closed

// look opens the sending connection and reads the evidence over it.
func (c *call) look(t *target) (*look, error) {
	began := time.Now()
	conn, evidence, err := c.g.upstream.Reach(c.ctx, upstreamTarget(t.machine))
	if err != nil {
		return nil, err
	}
	c.g.metrics.seconds.WithLabelValues("evidence").Observe(time.Since(began).Seconds())
	began = time.Now()
	asked, against := c.asked.Apply.Data, evidence.Active.Text
	if c.adopts() {
		// What runs is what is asked for, and it is held against what was applied before.
		asked = evidence.Active.Text
		c.asked.Apply.Data, c.asked.Call.Size = asked, len(asked)
		if !c.act.unknown {
			against = c.act.applied
		}
	}
	l := &look{
		conn: conn, evidence: evidence,
		config:   c.g.reader.Read(c.ctx, asked, against, evidence.Persistent.Text),
		redactor: facts.NewRedactor(c.g.digester, asked, evidence.Active.Text),
	}
	if c.adopts() {
		l.config.Base = l.config.Digest
		l.config.ChangesKnown = l.config.ChangesKnown && !c.act.unknown
		if !facts.SameText(asked, evidence.Persistent.Text) {
			alsoOnDisk(l.config, c.g.reader.Read(c.ctx, evidence.Persistent.Text, against, evidence.Persistent.Text))
		}
	}
	l.digests(c.g.digester, asked)
	c.g.metrics.seconds.WithLabelValues("facts").Observe(time.Since(began).Seconds())
	return l, nil
}

// judged is what the judge said inside the transaction, for the answer.
type judged struct {
	decision policy.Decision
	entry    audit.Entry
	// first is the attempt of the very same request that is still in flight.
	first *control.Attempt
}

// admit judges for good on what is read under the locks, and commits entry and attempt, or
// entry and captured change.
func (c *call) admit(t *target, l *look, ready prepared) (control.Admission, judged, error) {
	var out judged
	request := control.Request{
		MachineID: t.machine.ID, Serial: t.machine.Serial, Apply: !c.asked.Apply.DryRun && !c.captures() && !c.adopts(), Changes: !c.asked.Apply.DryRun,
		Caller: c.person(), Mode: c.asked.Apply.Mode, Digest: l.config.Digest, Once: c.once(),
		Active: l.active.like(t.machine.ActiveDigest), Persistent: l.persistent.like(t.machine.PersistentDigest),
	}
	snap := c.g.store.Snapshot()
	began := time.Now()
	admission, err := c.g.store.Admit(c.ctx, request, func(locked control.Locked) control.Judgement {
		now := &target{spelled: t.spelled, machine: &locked.Machine}
		f := c.facts(now, snap, "final")
		f.Now, f.Caller.Revoked, f.Holds = locked.Now, locked.CallerRevoked, holdsOf(locked)
		f.Evidence, f.Config = evidenceFacts(l.evidence, &locked.Machine), l.config
		moved := false
		w := c.weigh(l, f, locked.Changes, locked.Machine.ID, locked.Epoch, ready.id(), func(f *policy.Facts) policy.Decision {
			d, again := c.g.judgeLocked(c.ctx, locked, f)
			moved = moved || again
			return d
		})
		if moved || c.unprepared(ready, w) {
			return control.Judgement{Retry: true}
		}
		d, about := c.mayAct(locked, w.match, inFlight(locked, retell(w.decision, w.overtaken)))
		d = inRecovery(locked.Standing, d)
		e, err := withFacts(c.entry(now, d), f)
		if err == nil && about != nil {
			e, err = c.aboutAct(e, about)
		}
		if err != nil {
			d = policy.Deny("BW-BOOK-002", "the facts of this call cannot be written down", "")
			e = c.entry(now, d)
		}
		e = c.named(e, &d, w)
		out.decision, out.entry, out.first = d, e, locked.InFlight
		j := c.judgement(l, ready, w, d, e)
		if j.Adopt != nil {
			j.Adopt.NoCopy = !copied(&locked.Machine, &l.evidence)
		}
		return j
	})
	c.g.metrics.seconds.WithLabelValues("admit").Observe(time.Since(began).Seconds())
	return admission, out, err
}

// judgement is what the transaction carries out.
func (c *call) judgement(l *look, ready prepared, w weighed, d policy.Decision, e audit.Entry) control.Judgement {
	j := control.Judgement{Entry: e, Quorum: w.decision.Approvals, Supersede: w.overtaken, OnDisk: w.onDisk, Overtaken: w.overtakenBy}
	// Only when nothing but approvals stands in the way is there a change to speak of.
	proposable := (w.decision.Allow || OnlyApprovals(w.decision)) && (d.Allow || OnlyApprovals(d))
	switch {
	case c.asked.Apply.DryRun:
	case d.Allow && !c.captures() && c.adopts():
		if w.match != nil { // else the act's own judge has refused
			j.Spend = w.match.ID
			j.Adopt = &control.NewAdoption{
				Digest: w.match.Digest, Size: int64(len(c.asked.Apply.Data)), Base: w.match.Base, Persistent: w.match.Persistent,
				Mode: c.asked.Apply.Mode, Identity: identityOf(l.evidence),
			}
		}
	case d.Allow && !c.captures():
		j.Attempt = c.newAttempt(l)
		if w.match != nil {
			j.Spend = w.match.ID
			j.Attempt.Digest, j.Attempt.Base, j.Attempt.Persistent = w.match.Digest, w.match.Base, w.match.Persistent
		}
	case proposable && w.match != nil:
		j.Known = w.match.ID
	case proposable && c.mayCapture(w.decision):
		j.Capture, j.Entry.ChangeID = ready.fresh, ready.fresh.ID.String()
	}
	return j
}

// unprepared is true when the judgement under the locks needs what step 3a did not make
// ready: the change it would spend, or the new one, sealed.
func (c *call) unprepared(ready prepared, w weighed) bool {
	switch {
	case c.asked.Apply.DryRun:
		return false
	case w.match != nil:
		return w.decision.Allow && !c.captures() && ready.opened != w.match.ID
	default:
		return c.mayCapture(w.decision) && ready.fresh == nil
	}
}

// judgeLocked decides by the revision that is live under the lock. When this replica
// does not have it yet, moved asks for another round, in which it is loaded.
func (g *Gateway) judgeLocked(ctx context.Context, locked control.Locked, f *policy.Facts) (d policy.Decision, moved bool) {
	if locked.LiveRevision == "" {
		return policy.Deny("BW-POLICY-001", "no policy is live", "bronzeward policy activate DIR"), false
	}
	if g.judge.Revision() != locked.LiveRevision {
		return d, true
	}
	d = g.judge.Decide(ctx, f)
	return d, d.Revision != locked.LiveRevision
}

func (c *call) newAttempt(l *look) *control.NewAttempt {
	return &control.NewAttempt{
		Digest: l.config.Digest, Base: l.config.Base, Persistent: l.config.Persistent,
		Size: int64(len(c.asked.Apply.Data)), Mode: c.asked.Apply.Mode,
		LiveType: l.evidence.Type, Stage: l.evidence.Stage, Minor: l.evidence.Minor,
		Identity: identityOf(l.evidence), Transport: c.g.transportDeadline, CredentialVersion: l.conn.CredentialVersion(),
	}
}
