package control

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// NewAdoption is what the judge asks to be taken as applied: what was read of the machine,
// which must be what the change it spends is for. Nothing is sent.
type NewAdoption struct {
	// Digest is of the configuration that runs, Size its length in bytes.
	Digest string
	Size   int64
	// Base and Persistent are what the machine held when the evidence was read; Base is Digest.
	Base       string
	Persistent string
	Mode       string
	Identity   Identity
	// NoCopy is true where no copy of it is kept, as of a control plane.
	NoCopy bool
}

// spends is true for a judgement that spends a change, by an attempt or by an adoption.
func (j *Judgement) spends() bool { return j.Attempt != nil || j.Adopt != nil }

// guardAdoption is what no policy can waive of an adoption, in Go; its row says it once more.
func guardAdoption(r Request, v view, j Judgement) error {
	l, a := v.locked, j.Adopt
	switch c := l.change(j.Spend); {
	case j.Attempt != nil || j.Capture != nil:
		return &GuardError{Guard: "adopt_or_attempt", Message: "an adoption sends and captures nothing"}
	case r.Serial == 0:
		return &GuardError{Guard: "adopt_serial", Message: "the serial was not noted before the machine was read"}
	case c == nil:
		return fmt.Errorf("%w: change %s is not live any more", ErrMoved, j.Spend)
	case l.Machine.Retired != nil:
		return &GuardError{Guard: "adoptions_machine_not_retired", Message: "the machine is retired"}
	case l.Drift == nil || c.Drift != l.Drift.ID:
		return &GuardError{Guard: "adoptions_drift_open", Message: "the drift that the change names is not open"}
	case c.Kind != KindAdopt || a.Digest != a.Base:
		return &GuardError{Guard: "adoptions_change_binding", Message: "the change adopts something else than what runs"}
	case !l.Machine.Pinned() || l.Machine.Identity != a.Identity:
		return &GuardError{Guard: "adoptions_expected_identity", Message: "the machine is not pinned to the identity that was read"}
	}
	return guardSpend(r, l, j, spentAs{
		identity: a.Identity, kinds: []string{KindAdopt}, mode: a.Mode, digest: a.Digest, size: a.Size, base: a.Base, persistent: a.Persistent,
	})
}

// guardDrift is I18 of a sending: no drift is open but the one that its change names.
func guardDrift(l Locked, spend ChangeID) error {
	var named DriftID
	if c := l.change(spend); c != nil {
		named = c.Drift
	}
	switch {
	case l.Unseen:
		return &GuardError{Guard: "attempts_no_unseen_drift", Message: "the machine runs, or has on its disk, something else than what was applied last, and nothing explains it"}
	case l.Drift != nil && named != l.Drift.ID:
		return &GuardError{Guard: "attempts_no_other_drift", Message: fmt.Sprintf("drift %s is open, and this is not the change that settles it", l.Drift.ID)}
	case l.Drift == nil && named != DriftID{}:
		return &GuardError{Guard: "attempts_no_other_drift", Message: fmt.Sprintf("drift %s, which the change settles, is not open", named)}
	}
	return nil
}

// adopt takes what was found as applied: the adoption, its change as spent, the machine's
// digests, the copy to go back to, the end of the drift and the serial, one transaction.
func (s *Store) adopt(ctx context.Context, tx pgx.Tx, r Request, v view, j Judgement) (*Change, error) {
	l, a := v.locked, j.Adopt
	c := v.locked.change(j.Spend)
	if err := c.ask(ctx, tx, j.Quorum); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, sqlAdoptionAdd, uuid.UUID(c.ID), uuid.UUID(c.Drift), l.Machine.ID, j.Entry.ID, l.Epoch, r.Caller.Issuer, r.Caller.Subject,
		a.Digest, a.Size, a.Base, a.Persistent, a.Identity.NodeID, a.Identity.ClusterID, a.Identity.SMBIOS,
		j.Quorum.Required, groupsOf(j.Quorum), j.Quorum.SelfApproval, l.Now); err != nil {
		return nil, sqlError("adopting drift "+c.Drift.String(), err)
	}
	if c.State == ChangeWaiting {
		if err := c.become(ctx, tx, l.Now, step{to: ChangeApproved, by: r.Caller, reason: "as many approvals as the law asks for", entry: j.Entry.ID}); err != nil {
			return nil, err
		}
	}
	if err := c.become(ctx, tx, l.Now, step{to: ChangeSpent, by: r.Caller, adopted: true, entry: j.Entry.ID, reason: "what was found is taken as applied"}); err != nil {
		return nil, err
	}
	if err := takeAsApplied(ctx, tx, l.Machine.ID, a.Digest, a.Persistent); err != nil {
		return nil, err
	}
	if !a.NoCopy {
		if _, err := tx.Exec(ctx, sqlAppliedCopyOfChange, uuid.UUID(c.ID)); err != nil {
			return nil, sqlError("keeping the copy of what is taken as applied", err)
		}
	}
	d := *l.Drift
	return c, s.closeDrift(ctx, tx, l.Stamp, &l.Machine, &d, DriftAdopted, c.ID, a.Digest, a.Persistent)
}

// afterRevert closes the drift that a completed attempt has settled, and keeps the copy of
// what was applied.
func (s *Store) afterRevert(ctx context.Context, tx pgx.Tx, a *Attempt, active, persistent string) error {
	if a.ChangeID == (ChangeID{}) {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlAppliedCopyOfChange, uuid.UUID(a.ChangeID)); err != nil {
		return sqlError("keeping the copy of what was applied", err)
	}
	d, err := openDrift(ctx, tx, a.MachineID)
	if err != nil || d == nil {
		return err
	}
	c, err := oneChange(ctx, tx, a.ChangeID)
	if err != nil {
		return err
	}
	if c.Kind != KindRevert || c.Drift != d.ID {
		return nil
	}
	m, err := machineByID(ctx, tx, a.MachineID)
	if err != nil {
		return err
	}
	st, err := readStamp(ctx, tx)
	if err != nil {
		return err
	}
	return s.closeDrift(ctx, tx, st, &m, d, DriftReverted, c.ID, active, persistent)
}

// readStamp reads what an entry says of authority where no authority lock is taken: the end of
// an attempt takes nobody's away, and judges nothing.
func readStamp(ctx context.Context, tx pgx.Tx) (Stamp, error) {
	var st Stamp
	err := scanWithStanding(tx.QueryRow(ctx, sqlStamp, "", ""), &st.Standing, &st.AuthorityVersion, &st.Epoch, &st.LiveRevision, &st.CallerRevoked, &st.Now)
	if err != nil {
		return st, sqlError("reading the authority version", err)
	}
	return st, nil
}
