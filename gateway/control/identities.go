package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// RevokeIdentity takes a person's authority away for good: no act undoes it. Their waiting
// changes end and their unspent approvals are marked in the same transaction. Once it has
// returned nil, every decision that commits, on every replica, has seen it. Revoking again
// is ErrConflict and changes nothing. Somebody nobody has seen can be revoked.
func (s *Store) RevokeIdentity(ctx context.Context, who policy.Person, reason string, act Act) (IdentityRevocation, error) {
	if who.Issuer == "" || who.Subject == "" || reason == "" ||
		len(who.Issuer) > 1024 || len(who.Subject) > 1024 || !printable(who.Issuer+who.Subject) || !validReason(reason) {
		return IdentityRevocation{}, fmt.Errorf("%w: revoking needs issuer, subject and a reason, in printable bytes", ErrInvalid)
	}
	out := IdentityRevocation{Person: who, Reason: reason}
	receipt, err := s.act(ctx, exclusive, act, func(tx pgx.Tx, st Stamp, entry *audit.Entry) error {
		// The changes' locks come before the revocation's row: who waits for a machine holds
		// nothing that this waits for.
		locked, now, err := lockChangesOf(ctx, tx, who)
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, sqlRevokeIdentity, who.Issuer, who.Subject, reason, st.AuthorityVersion, entry.ID, now).Scan(&out.Seen, &out.RevokedAt)
		if err != nil {
			return sqlError("revoking the identity", err)
		}
		st.Now = now
		d := &doing{Stamp: st, changes: locked, entries: []audit.Entry{*entry}}
		for i := range d.changes {
			if err := s.takeFrom(ctx, tx, d, &d.changes[i], who, reason, act.By); err != nil {
				return err
			}
		}
		act.Once.came(out)
		return nil
	})
	out.EntryID = receipt.ID
	if errors.Is(err, ErrConflict) { // the transaction is over, and a revocation stays
		err = s.revokedBefore(ctx, who, err)
	}
	return out, err
}

// RevokedError is ErrConflict about a person who is revoked already.
type RevokedError struct{ IdentityRevocation }

// Error says since when, and why.
func (e *RevokedError) Error() string {
	return fmt.Sprintf("%q of %q is revoked already, since %s: %s", e.Subject, e.Issuer, e.RevokedAt.UTC().Format(time.RFC3339), e.Reason)
}

// Unwrap makes it ErrConflict.
func (e *RevokedError) Unwrap() error { return ErrConflict }

// revokedBefore words a conflict by the revocation there is; err when it cannot be had.
func (s *Store) revokedBefore(ctx context.Context, who policy.Person, err error) error {
	all, bad := s.Revocations(ctx)
	if at := slices.IndexFunc(all, func(r IdentityRevocation) bool { return r.Person == who }); bad == nil && at >= 0 {
		return &RevokedError{all[at]}
	}
	return err
}

// lockChangesOf locks the changes that the person asked for or approved and that are live, or
// may be again, and reads the clock.
func lockChangesOf(ctx context.Context, tx pgx.Tx, who policy.Person) ([]Change, time.Time, error) {
	var now time.Time
	rows, err := tx.Query(ctx, sqlChangesOfPerson, who.Issuer, who.Subject)
	if err != nil {
		return nil, now, sqlError("finding the changes of the revoked", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, now, sqlError("finding the changes of the revoked", err)
	}
	var locked []Change
	if len(ids) > 0 {
		named := make([]ChangeID, len(ids))
		for i, id := range ids {
			named[i] = ChangeID(id)
		}
		if locked, err = lockChanges(ctx, tx, named); err != nil {
			return nil, now, err
		}
	}
	now, err = readClock(ctx, tx)
	return locked, now, err
}

// takeFrom ends a revoked person's own change, and marks their approvals of others' changes.
func (s *Store) takeFrom(ctx context.Context, tx pgx.Tx, d *doing, c *Change, who policy.Person, reason string, by policy.Person) error {
	if !c.State.Live() {
		return nil // it has ended, or is being sent: its attempt looks again when it gives it back
	}
	if c.Requester == who {
		return c.become(ctx, tx, d.Now, step{to: ChangeRevoked, by: by, reason: "its requester was revoked", entry: d.entries[0].ID})
	}
	for i := range c.Approvals {
		if a := &c.Approvals[i]; a.Approver == who && !a.Revoked {
			if err := s.withdraw(ctx, tx, d, a, "its approver was revoked: "+reason, by); err != nil {
				return err
			}
		}
	}
	return c.recount(ctx, tx, d.Now, d.Epoch, step{by: by, reason: "an approver was revoked", entry: d.entries[0].ID})
}

// IdentityRevocation is one person's.
type IdentityRevocation struct {
	policy.Person
	Reason    string
	RevokedAt time.Time
	EntryID   uuid.UUID
	// Seen is true when the book knew the person when they were revoked.
	Seen bool
}

// Revocations lists the revoked identities, oldest first.
func (s *Store) Revocations(ctx context.Context) ([]IdentityRevocation, error) {
	rows, err := s.pool.Query(ctx, sqlRevocations)
	if err != nil {
		return nil, unavailable("listing revocations", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (IdentityRevocation, error) {
		var r IdentityRevocation
		err := row.Scan(&r.Issuer, &r.Subject, &r.Reason, &r.RevokedAt, &r.EntryID, &r.Seen)
		return r, err
	})
	if err != nil {
		return nil, unavailable("listing revocations", err)
	}
	return out, nil
}

// SetRolloutLimit sets how many machines of the cluster may have an attempt that may still
// land at the same time: 1 to 1000. Lowering it stops nothing that is under way.
func (s *Store) SetRolloutLimit(ctx context.Context, cluster string, limit int, act Act) (audit.Receipt, error) {
	if limit < 1 || limit > 1000 {
		return audit.Receipt{}, fmt.Errorf("%w: a rollout limit is 1 to 1000, not %d", ErrInvalid, limit)
	}
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		entry.Cluster = cluster
		tag, err := tx.Exec(ctx, sqlClusterLimit, cluster, limit)
		if err != nil {
			return sqlError("setting the rollout limit", err)
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("setting the rollout limit of %q: %w", clip(cluster), ErrNotFound)
		}
		return nil
	})
}

// Cluster is a set of machines with one rollout limit.
type Cluster struct {
	Name         string
	RolloutLimit int
}

// ListClusters reads all clusters, by name.
func (s *Store) ListClusters(ctx context.Context) ([]Cluster, error) {
	rows, err := s.pool.Query(ctx, sqlClusters)
	if err != nil {
		return nil, unavailable("listing clusters", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Cluster])
	if err != nil {
		return nil, unavailable("listing clusters", err)
	}
	return out, nil
}
