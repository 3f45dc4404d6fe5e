package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// maxSet bounds how many changes one act is about.
const maxSet = 100

// ApproveOne names a change and the digest its approver looked at.
type ApproveOne struct {
	ID     ChangeID
	Digest string
	// Comment is kept with the approval; at most 1000 printable bytes.
	Comment string
}

// Approver is who approves, as proven.
type Approver struct {
	policy.Person
	// Kind must be "human".
	Kind   string
	Groups []string
}

// Approve writes one approval for each change, all or none, in one transaction: each names
// the change and its digest, and the change becomes approved when as many count as the law
// asked for. *ChangeError when one is not live, has another digest, or was approved by this
// person already.
func (s *Store) Approve(ctx context.Context, who Approver, list []ApproveOne, act Act) ([]Approval, error) {
	if len(list) == 0 || len(list) > maxSet {
		return nil, fmt.Errorf("%w: one act approves between 1 and %d changes", ErrInvalid, maxSet)
	}
	if who.Person != act.By {
		return nil, fmt.Errorf("%w: whoever acts approves for nobody else", ErrInvalid)
	}
	seen := map[ChangeID]bool{}
	act.changes = nil
	for _, one := range list {
		if seen[one.ID] {
			return nil, fmt.Errorf("%w: change %s is named twice", ErrInvalid, one.ID)
		}
		seen[one.ID] = true
		if !validReason(one.Comment) {
			return nil, fmt.Errorf("%w: a comment has at most %d printable bytes", ErrInvalid, maxReason)
		}
		act.changes = append(act.changes, one.ID)
	}
	var out []Approval
	_, err := s.actOn(ctx, shared, act, func(tx pgx.Tx, d *doing) error {
		out = nil
		for i := range d.changes {
			a, err := s.approve(ctx, tx, d, i, who, list[i])
			if err != nil {
				return err
			}
			out = append(out, a)
		}
		act.Once.came(out)
		return nil
	})
	return out, err
}

// approve writes one approval of a locked change.
func (s *Store) approve(ctx context.Context, tx pgx.Tx, d *doing, i int, who Approver, one ApproveOne) (Approval, error) {
	c := &d.changes[i]
	if err := mayBeActedOn(c, d.Stamp); err != nil {
		return Approval{}, err
	}
	if one.Digest != c.Digest {
		return Approval{}, &ChangeError{
			Code:    "BW-CHANGE-003",
			Message: fmt.Sprintf("the digest named is not the one of change %s", c.ID),
			Hint:    "look at it again: bronzeward changes show " + c.ID.String(),
		}
	}
	for _, a := range c.Approvals {
		if a.Approver == who.Person && !a.Revoked {
			return Approval{}, &ChangeError{Code: "BW-CHANGE-007", Message: fmt.Sprintf("you have approved change %s already, as %s", c.ID, a.ID)}
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Approval{}, fmt.Errorf("making an approval id: %w", err)
	}
	a := Approval{
		ID: ApprovalID(id), ChangeID: c.ID, Digest: one.Digest, Epoch: d.Epoch, Approver: who.Person, Kind: who.Kind,
		Groups: append([]string{}, who.Groups...), Self: c.Selves(who.Person, policy.Person{}), Comment: one.Comment, EntryID: d.entries[i].ID, At: d.Now,
	}
	if _, err := tx.Exec(ctx, sqlApprovalAdd, id, uuid.UUID(c.ID), a.Digest, a.Epoch, who.Issuer, who.Subject, a.Kind, a.Groups,
		a.Self, a.Comment, a.EntryID, a.At); err != nil {
		return Approval{}, sqlError("approving "+c.ID.String(), err)
	}
	c.Approvals = append(c.Approvals, a)
	return a, c.recount(ctx, tx, d.Now, d.Epoch, step{by: who.Person, reason: "as many approvals as the law asks for", entry: a.EntryID})
}

// mayBeActedOn is nil while the change is live by the database's clock and of this epoch.
func mayBeActedOn(c *Change, st Stamp) error {
	if !c.State.Live() {
		return NotLive(c)
	}
	if c.Expired(st.Now) {
		late := *c
		late.State, late.Reason = ChangeExpired, expiry(c).reason
		return NotLive(&late)
	}
	if c.Epoch != st.Epoch {
		return &ChangeError{Code: "BW-CHANGE-002", Message: fmt.Sprintf("change %s is of another epoch and authorizes nothing", c.ID), Hint: "propose it again"}
	}
	return nil
}

// Reject ends a live change for good, with a reason.
func (s *Store) Reject(ctx context.Context, id ChangeID, reason string, act Act) (Change, error) {
	return s.end(ctx, id, ChangeRejected, reason, act)
}

// Cancel ends a live change for good: what a requester, or an approver, does to one that is
// not wanted any more.
func (s *Store) Cancel(ctx context.Context, id ChangeID, reason string, act Act) (Change, error) {
	return s.end(ctx, id, ChangeCancelled, reason, act)
}

func (s *Store) end(ctx context.Context, id ChangeID, to ChangeState, reason string, act Act) (Change, error) {
	if err := needReason(reason); err != nil {
		return Change{}, err
	}
	var out Change
	act.changes = []ChangeID{id}
	_, err := s.actOn(ctx, exclusive, act, func(tx pgx.Tx, d *doing) error {
		c := &d.changes[0]
		if err := mayBeActedOn(c, d.Stamp); err != nil {
			return err
		}
		if err := c.become(ctx, tx, d.Now, step{to: to, by: act.By, reason: reason, entry: d.entries[0].ID}); err != nil {
			return err
		}
		out = *c
		act.Once.came(out)
		return nil
	})
	return out, err
}

// maxReason is the longest reason in bytes.
const maxReason = 1000

func validReason(reason string) bool { return len(reason) <= maxReason && printable(reason) }

func needReason(reason string) error {
	if reason == "" || !validReason(reason) {
		return fmt.Errorf("%w: it takes a reason of at most %d printable bytes", ErrInvalid, maxReason)
	}
	return nil
}

// RevokeApproval takes an approval of a live change back, for good. The change waits again
// when too few are left. An attempt that is under way is not stopped; when it changes nothing,
// the change comes back without the approval.
func (s *Store) RevokeApproval(ctx context.Context, id ApprovalID, reason string, act Act) (Approval, error) {
	if err := needReason(reason); err != nil {
		return Approval{}, err
	}
	named, err := s.GetApproval(ctx, id)
	if err != nil {
		return Approval{}, err
	}
	var out Approval
	act.changes = []ChangeID{named.ChangeID}
	_, err = s.actOn(ctx, exclusive, act, func(tx pgx.Tx, d *doing) error {
		c := &d.changes[0]
		if err := mayLose(ctx, tx, c, d.Stamp); err != nil {
			return err
		}
		for i := range c.Approvals {
			a := &c.Approvals[i]
			if a.ID != id {
				continue
			}
			if a.Revoked {
				return fmt.Errorf("%w: approval %s is revoked: %s", ErrConflict, id, a.RevokedReason)
			}
			if err := s.withdraw(ctx, tx, d, a, reason, act.By); err != nil {
				return err
			}
			out = *a
			out.SentAs = c.AttemptID
		}
		act.Once.came(out)
		return c.recount(ctx, tx, d.Now, d.Epoch, step{by: act.By, reason: "an approval was revoked: " + reason, entry: d.entries[0].ID})
	})
	return out, err
}

// mayLose is nil while the change is live, or may come back: its attempt is still open.
func mayLose(ctx context.Context, tx pgx.Tx, c *Change, st Stamp) error {
	if c.State != ChangeSpent {
		return mayBeActedOn(c, st)
	}
	var a Attempt
	err := scanAttempt(tx.QueryRow(ctx, sqlAttempt, c.AttemptID), &a)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && a.State != StateOpen:
		return NotLive(c)
	case err != nil:
		return sqlError("reading attempt "+c.AttemptID.String(), err)
	}
	return nil
}

// withdraw marks one approval as taken back.
func (s *Store) withdraw(ctx context.Context, tx pgx.Tx, d *doing, a *Approval, reason string, by policy.Person) error {
	_, err := tx.Exec(ctx, sqlApprovalRevoke, uuid.UUID(a.ID), reason, by.Issuer, by.Subject, d.AuthorityVersion, d.entries[0].ID, d.Now)
	if err != nil {
		return sqlError("revoking approval "+a.ID.String(), err)
	}
	a.Revoked, a.RevokedReason = true, reason
	return nil
}
