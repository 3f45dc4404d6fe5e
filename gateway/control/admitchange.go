package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// sortChanges gives each live change its approvals, and takes out those whose clock, by the
// database's read after the last lock, has run out.
func (v *view) sortChanges(live []Change, approvals []Approval) {
	for _, c := range live {
		for _, a := range approvals {
			if a.ChangeID == c.ID {
				c.Approvals = append(c.Approvals, a)
			}
		}
		if c.Expired(v.locked.Now) {
			v.expired = append(v.expired, c)
		} else {
			v.locked.Changes = append(v.locked.Changes, c)
		}
	}
}

// holder is the attempt that may still land on the machine itself; null when it is free.
func (v *view) holder(machine uuid.UUID) *Attempt {
	for i := range v.held {
		if v.held[i].MachineID == machine {
			return &v.held[i]
		}
	}
	return nil
}

// change is the locked live change of that id; null when there is none.
func (l *Locked) change(id ChangeID) *Change {
	for i := range l.Changes {
		if l.Changes[i].ID == id {
			return &l.Changes[i]
		}
	}
	return nil
}

// guardChange is I6 in Go: what is sent is what was approved, by as many people as the law
// asks for, and has not been spent. The attempt's row says it once more.
func guardChange(r Request, l Locked, j Judgement) error {
	if j.Spend == (ChangeID{}) {
		if j.Quorum.Required > 0 {
			return &GuardError{Guard: "attempts_change_required", Message: "the law asks for approvals, and no change is spent"}
		}
		return nil
	}
	a := j.Attempt
	return guardSpend(r, l, j, spentAs{
		identity: a.Identity, kinds: []string{KindApply, KindRevert}, mode: a.Mode, digest: a.Digest, size: a.Size, base: a.Base, persistent: a.Persistent,
	})
}

// spentAs is what a change is held against that is spent, by an attempt or by an adoption.
type spentAs struct {
	identity                       Identity
	kinds                          []string
	mode, digest, base, persistent string
	size                           int64
}

// guardSpend is I6 of the locked change that is spent.
func guardSpend(r Request, l Locked, j Judgement, a spentAs) error {
	c := l.change(j.Spend)
	switch {
	case c == nil:
		return fmt.Errorf("%w: change %s is not live any more", ErrMoved, j.Spend)
	case c.MachineID != l.Machine.ID || c.Identity != a.identity || !slices.Contains(a.kinds, c.Kind) || (c.Kind == KindApply) != (c.Drift == DriftID{}) || c.Mode != a.mode || c.TryTimeout != 0 ||
		c.Digest != a.digest || c.Size != a.size || c.Base != a.base || c.Persistent != a.persistent || c.Epoch != l.Epoch:
		return &GuardError{Guard: "attempts_change_binding", Message: "the change is for something else than what would be spent"}
	case c.RequesterRevoked:
		return &GuardError{Guard: "attempts_requester_not_revoked", Message: "the requester of the change is revoked"}
	}
	if n := len(c.Counting(j.Quorum, r.Caller, l.Epoch)); n < j.Quorum.Required {
		return &GuardError{Guard: "attempts_approvals", Message: fmt.Sprintf("the law asks for more approvals than count: %d, and it asks for %d", n, j.Quorum.Required)}
	}
	return nil
}

// moveChanges writes what became of the machine's changes besides the one that is spent:
// clocks that ran out, bases that moved, and what the law asks for now. What was read while
// something may still land, or under a serial nobody noted, ends nothing (I7).
func moveChanges(ctx context.Context, tx pgx.Tx, r Request, v view, j Judgement) error {
	now := v.locked.Now
	current := r.Serial != 0 && v.holder(r.MachineID) == nil
	for i := range v.expired {
		if err := v.expired[i].become(ctx, tx, now, expiry(&v.expired[i])); err != nil {
			return err
		}
	}
	for i := range v.locked.Changes {
		c := &v.locked.Changes[i]
		if current && slices.Contains(j.Supersede, c.ID) {
			reason := runsAnother
			if slices.Contains(j.OnDisk, c.ID) {
				reason = holdsAnother
			}
			err := c.become(ctx, tx, now, step{to: ChangeSuperseded, reason: reason, base: j.Overtaken, entry: j.Entry.ID})
			if err != nil {
				return err
			}
		}
		if c.ID != j.Known || j.Known == j.Spend {
			continue
		}
		if err := c.ask(ctx, tx, j.Quorum); err != nil {
			return err
		}
		if err := c.recount(ctx, tx, now, v.locked.Epoch, step{reason: "the law asks for another number of approvals", entry: j.Entry.ID}); err != nil {
			return err
		}
	}
	return nil
}

// expiry says which of the two clocks ran out.
func expiry(c *Change) step {
	if c.State == ChangeApproved {
		return step{to: ChangeExpired, reason: "it was approved and not applied in time"}
	}
	return step{to: ChangeExpired, reason: "it was not approved in time"}
}

// spend marks the attempt's change as spent by it; null when the law asks for none and none
// was captured. The attempt's row is there already.
func spend(ctx context.Context, tx pgx.Tx, v view, j Judgement, attempt uuid.UUID, by policy.Person) (*Change, error) {
	if j.Spend == (ChangeID{}) {
		return nil, nil //nolint:nilnil // nothing to spend is no error
	}
	c := v.locked.change(j.Spend)
	if err := c.ask(ctx, tx, j.Quorum); err != nil {
		return nil, err
	}
	if c.State == ChangeWaiting {
		if err := c.become(ctx, tx, v.locked.Now, step{to: ChangeApproved, by: by, reason: "as many approvals as the law asks for", entry: j.Entry.ID}); err != nil {
			return nil, err
		}
	}
	err := c.become(ctx, tx, v.locked.Now, step{to: ChangeSpent, by: by, attempt: attempt, entry: j.Entry.ID})
	return c, err
}

// guardCapture refuses to keep what a revoked person asks for, what would be allowed, and what
// was read while something may still land: a change spent by that attempt comes back when it
// changed nothing, and the very same one must not stand beside it.
func guardCapture(r Request, v view, j Judgement) error {
	l := v.locked
	holder := v.holder(r.MachineID)
	switch {
	case j.Capture == nil:
		return nil
	case l.CallerRevoked:
		return &GuardError{Guard: "caller_not_revoked", Message: "the caller is revoked"}
	case j.spends():
		return &GuardError{Guard: "capture_or_attempt", Message: "a change is captured or spent, not both"}
	case l.Machine.Retired != nil:
		return &GuardError{Guard: "changes_machine_not_retired", Message: "the machine was retired " + l.Machine.Retired.Text()}
	case holder != nil:
		return busyError(holder, "machine")
	case r.Serial == 0:
		return &GuardError{Guard: "capture_serial", Message: "the serial was not noted before the machine was read"}
	case !l.Machine.Pinned() || l.Machine.Identity != j.Capture.Identity:
		return &GuardError{Guard: "changes_expected_identity", Message: "the machine is not pinned to the identity that was read"}
	case (j.Capture.Kind == KindApply) != (j.Capture.Drift == DriftID{}) || j.Capture.Drift != (DriftID{}) && (l.Drift == nil || l.Drift.ID != j.Capture.Drift):
		return &GuardError{Guard: "changes_drift_named", Message: "a revert or adoption names the drift that is open, and no other change names one"}
	case j.Entry.Verdict != audit.Allowed && j.Entry.Verdict != audit.Denied:
		return &GuardError{Guard: "capture_judged", Message: "only what was judged is captured"}
	}
	return nil
}
