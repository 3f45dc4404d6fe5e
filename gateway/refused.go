package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// How an apply that was not admitted is answered, case by case.

// inFlight denies a repeat of the very same request while the first one is on its way:
// it is told the first one's attempt, and nothing is sent a second time.
func inFlight(l control.Locked, d policy.Decision) policy.Decision {
	if l.InFlight == nil || l.InFlight.State != control.StateOpen {
		return d
	}
	first := policy.Reason{
		Code: "BW-ATTEMPT-001", Severity: policy.SeverityDeny, Rule: "bronzeward/attempts",
		Message: fmt.Sprintf("the same request is being carried out as attempt %s since %s",
			l.InFlight.ID, l.InFlight.OpenedAt.UTC().Format(time.RFC3339)),
		Hint: "bronzeward attempts show " + l.InFlight.ID.String(),
	}
	d.Allow = false
	d.Reasons = append([]policy.Reason{first}, d.Reasons...)
	return d
}

// repeats answers a request whose very same one was carried out while this one waited for
// its turn: it gets that attempt's id, and is not sent a second time.
func (c *call) repeats(t *target, digest string) (bool, error) {
	if c.asked.Apply.DryRun {
		return false, nil
	}
	key := control.RequestKey(digest, c.person(), t.machine.ID, c.asked.Apply.Mode)
	done, err := c.g.store.AttemptsSince(c.ctx, t.machine.ID, key, c.arrived)
	if err != nil {
		return true, c.notWritten(uuid.Nil, err)
	}
	if len(done) == 0 {
		return false, nil
	}
	first := &done[0]
	message := fmt.Sprintf("the same request came a moment before and became attempt %s, which is %s", first.ID, first.State)
	e := c.entry(t, policy.Deny("BW-ATTEMPT-001", message, ""))
	receipt, err := c.g.write(c.ctx, e)
	if err != nil {
		return true, c.notWritten(e.ID, err)
	}
	c.decided = append(c.decided, receipt)
	return true, refusal(codes.Aborted, receipt, "BW-ATTEMPT-001", message, "bronzeward attempts show "+first.ID.String())
}

// refusedApply answers a written refusal. A proposal that was captured, or that is live
// already, is none, and neither is an adoption that was carried out.
func (c *call) refusedApply(entry audit.Receipt, j judged) error {
	if j.decision.Allow && (c.captures() || c.adopts()) {
		return nil
	}
	if j.first != nil && j.first.State == control.StateOpen {
		// Not a policy's verdict: the caller is asked to wait for what it asked for already.
		r := j.decision.Reasons[0]
		return refusal(codes.Aborted, entry, r.Code, r.Message, r.Hint)
	}
	if no := j.decision.Denials(); len(no) > 0 && no[0].Code == notThatChange {
		return refusal(changeCode(no[0].Code), entry, no[0].Code, no[0].Message, no[0].Hint)
	}
	return denial(entry, j.decision)
}

// notAdmitted answers when the transaction did not commit what the judge allowed.
// Guards that no policy can waive are written down as denials of their own.
func (c *call) notAdmitted(t *target, err error) error {
	var (
		busy    *control.BusyError
		flying  *control.InFlightError
		guard   *control.GuardError
		unknown *control.CommitUnknownError
		change  *control.ChangeError
		before  *control.ReplayedError
	)
	switch {
	case c.act != nil && (errors.As(err, &before) || errors.Is(err, control.ErrKeyReused) || errors.Is(err, control.ErrInvalid)):
		return err // the HTTP door's to answer
	case errors.As(err, &change):
		return c.refuseChange(t, control.ChangeID{}, change.Code, change.Message, change.Hint)
	case errors.As(err, &unknown):
		// COMMIT gave no answer: the entry may stand, with an open attempt that will be
		// settled. Nothing is sent, whatever is found later (I1).
		c.note(slog.String("entry", unknown.EntryID.String()), slog.Any("book", err))
		return unavailable(audit.Receipt{ID: unknown.EntryID}, "BW-BOOK-001", "the decision may not have been written down")
	case errors.As(err, &busy):
		return c.denyAbout(t, policy.Deny("BW-HOLDS-001", err.Error(), "bronzeward attempts show "+busy.Holder.String()))
	case errors.As(err, &flying):
		return c.denyAbout(t, policy.Deny("BW-ATTEMPT-001", err.Error(), "bronzeward attempts show "+flying.AttemptID.String()))
	case errors.As(err, &guard):
		return c.denyAbout(t, policy.Deny("BW-INVARIANT-016", guard.Message, ""))
	}
	return c.notWritten(uuid.Nil, err)
}

// refuseChange writes a refusal that says what is wrong with a change, and answers with it.
// about is the change's id, zero when there is none to name.
func (c *call) refuseChange(t *target, about control.ChangeID, reason, message, hint string) error {
	return c.refuseAbout(t, about, "", changeCode(reason), reason, message, hint)
}

// refuseKeys writes a refusal that says why the keys of a change could not be had, and answers
// with it: nothing was sent. doing is what could not be done.
func (c *call) refuseKeys(t *target, about control.ChangeID, away keysAway, doing string) error {
	return c.refuseAbout(t, about, away.class, codes.Unavailable, "BW-CHANGE-005", doing+": "+away.why, "nothing was sent to the machine; "+away.next())
}

// refuseAbout is both; class goes into the entry's detail, one word or empty.
func (c *call) refuseAbout(t *target, about control.ChangeID, class string, status codes.Code, reason, message, hint string) error {
	e := c.entry(t, policy.Deny(reason, message, hint))
	e.Verdict, e.Detail = audit.Refused, strings.TrimSpace(e.Detail+" "+class)
	if about != (control.ChangeID{}) {
		e.ChangeID = about.String()
	}
	receipt, err := c.g.write(c.ctx, e)
	if err != nil {
		return c.notWritten(e.ID, err)
	}
	c.decided = append(c.decided, receipt)
	return refusal(status, receipt, reason, message, hint)
}

// changeCode is the gRPC code of what is wrong with a change. None is a policy's verdict.
func changeCode(code string) codes.Code {
	switch code {
	case "BW-CHANGE-004":
		return codes.ResourceExhausted
	case "BW-CHANGE-006":
		return codes.DataLoss
	default: // it is not as the call needs it
		return codes.FailedPrecondition
	}
}

// retired denies whatever is asked of a machine that never comes back, before anything is dialled:
// another machine may have its addresses by now.
func retired(m *control.Machine) policy.Decision {
	return policy.Deny("BW-HOLDS-009", fmt.Sprintf("%s was retired %s; nothing reaches it any more", m.Name, m.Retired.Text()), "bronzeward machines list --all")
}

// denyAbout writes a denial about one machine that Go words, and answers with it.
func (c *call) denyAbout(t *target, d policy.Decision) error {
	e := c.entry(t, d)
	receipt, err := c.g.write(c.ctx, e)
	if err != nil {
		return c.notWritten(e.ID, err)
	}
	c.decided = append(c.decided, receipt)
	return denial(receipt, d)
}

// unreachable answers when the evidence could not be read: an entry of that class, no
// attempt, nothing spent.
func (c *call) unreachable(t *target, cause error) error {
	c.note(slog.Any("evidence", cause))
	code, message := unreadable(t.machine.Name, "read", cause)
	e := c.entry(t, policy.Deny(code, message, ""))
	e.Verdict, e.Detail = audit.Refused, string(upstream.ClassOf(cause))
	receipt, err := c.g.write(c.ctx, e)
	if err != nil {
		return c.notWritten(e.ID, err)
	}
	c.decided = append(c.decided, receipt)
	return refusal(codes.Unavailable, receipt, code, message, sentNothing)
}
