package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// asAct says that a call came through the HTTP door as an act on a change: proposed, applied by
// its id, or proposed to settle a drift. It goes the way of every apply, and is judged as an act as well.
type asAct struct {
	name    string // ActChangesSubmit, ActChangesApply, ActDriftAdopt or ActDriftRevert
	subject string
	set     string
	once    *control.Once
	change  *control.Change // of ActChangesApply, as it was when the act began
	// kind, drift and why are of a proposal that settles a drift; kind is empty for an apply.
	kind  string
	drift control.DriftID
	why   string
	// applied is the text that was applied last, for what is held against it; unknown is true
	// where no copy of it is kept.
	applied []byte
	unknown bool
}

// stamp says in an entry which act it is about, and which change.
func (a *asAct) stamp(e *audit.Entry) {
	e.Kind, e.Detail = audit.KindHTTP, printable(a.subject)
	if a.name != ActChangesApply || a.change != nil && a.change.Kind == control.KindAdopt { // nothing is sent
		e.Method, e.Class = a.name, "act"
	}
	if a.change != nil {
		e.ChangeID = a.change.ID.String()
	}
}

func (c *call) once() *control.Once {
	if c.act == nil {
		return nil
	}
	return c.act.once
}

// actFacts is the act as the law sees it. now and revoked are read where it is judged.
func (c *call) actFacts(change *control.Change, epoch uuid.UUID, now time.Time, revoked bool) *policy.Act {
	caller := actorFacts(Actor{Caller: c.caller})
	caller.Revoked = revoked
	f := &policy.Act{Version: policy.FactsVersion, Act: c.act.name, Caller: caller, Subject: c.act.subject, Now: now}
	if change == nil {
		change = c.act.change
	}
	if change != nil {
		f.Change = changeFacts(change, c.person(), epoch)
	}
	return f
}

// deniedAct judges the act before a machine or a key is asked for anything. Only a refusal is
// written: what is allowed is judged again under the locks.
func (c *call) deniedAct(t *target) error {
	snap := c.g.laws.current(c.ctx, c.g)
	for fresh := false; ; fresh = true {
		f := c.actFacts(nil, snap.Epoch, snap.Now(), snap.Revoked(c.caller.Issuer, c.caller.Subject))
		d := c.g.judge.DecideAct(c.ctx, f)
		if d.Allow || d.Revision != snap.LiveRevision {
			return nil // another law than the live one says nothing
		}
		if !fresh { // it may be allowed by now
			if _, err := c.g.store.Refresh(c.ctx, 0); err != nil {
				return c.notWritten(uuid.Nil, err)
			}
			snap = c.g.laws.current(c.ctx, c.g)
			continue
		}
		e, err := c.aboutAct(c.entry(t, d), f)
		if err != nil {
			return c.notWritten(uuid.Nil, err)
		}
		receipt, err := c.g.write(c.ctx, e)
		if err != nil {
			return c.notWritten(e.ID, err)
		}
		c.decided = append(c.decided, receipt)
		return denial(receipt, d)
	}
}

// mayAct adds what the law says of the act itself. A call through the Talos API is no act. about is
// what the law was asked when its answer is about the act alone, else null.
func (c *call) mayAct(locked control.Locked, match *control.Change, d policy.Decision) (said policy.Decision, about *policy.Act) {
	if c.act == nil {
		return d, nil
	}
	f := c.actFacts(match, locked.Epoch, locked.Now, locked.CallerRevoked)
	said = c.g.judge.DecideAct(c.ctx, f)
	if said.Revision != locked.LiveRevision {
		return overtaken(locked.LiveRevision), nil
	}
	if said.Allow {
		return c.onlyThatChange(match, locked.Now, d), nil
	}
	said.Approvals = d.Approvals
	return said, f
}

// aboutAct makes the entry one of the act that the law refused, so that what it says can be judged
// again on the facts it was said of.
func (c *call) aboutAct(e audit.Entry, about *policy.Act) (audit.Entry, error) {
	var err error
	e.Method, e.Class = c.act.name, "act"
	e.Facts, err = json.Marshal(about)
	return e, err
}

// named fills in the entry which live change it is about. A proposal that only waits for
// approvals is allowed: what is missing is said of the apply.
func (c *call) named(e audit.Entry, d *policy.Decision, w weighed) audit.Entry {
	if w.match != nil {
		e.ChangeID = w.match.ID.String()
	}
	if c.captures() && OnlyApprovals(*d) {
		d.Allow = true
		d.Reasons = slices.DeleteFunc(slices.Clone(d.Reasons), func(r policy.Reason) bool { return r.Code == approvalCode })
		e.Verdict, e.Reasons, e.Codes = audit.Allowed, d.Reasons, d.Codes()
	}
	return e
}

// notThatChange is the code of a change that cannot be applied by its id any more.
const notThatChange = "BW-CHANGE-002"

// onlyThatChange refuses to apply by its id a change that is not, on what the machine runs
// now, the one whose bytes these are.
func (c *call) onlyThatChange(match *control.Change, now time.Time, d policy.Decision) policy.Decision {
	if c.act.change == nil || match != nil && match.ID == c.act.change.ID {
		return d
	}
	if !d.Allow && !OnlyApprovals(d) {
		return d // other rules refuse, and say why
	}
	why := "was proposed against something else than the machine runs now"
	if c.act.change.Expired(now) {
		why = "is expired"
	}
	hint := "propose it again: bronzeward changes submit"
	if c.act.change.Kind != control.KindApply {
		hint = "bronzeward drift show " + c.act.change.Drift.String()
	}
	no := policy.Deny(notThatChange, fmt.Sprintf("change %s %s", c.act.change.ID, why), hint)
	no.Revision, no.OPA, no.Approvals = d.Revision, d.OPA, d.Approvals
	return no
}
