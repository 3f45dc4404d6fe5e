package control

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// RevokeIdentity takes a person's authority away for good: no act undoes it. Once it has
// returned nil, every decision that commits, on every replica, has seen it. Revoking again
// is ErrConflict and changes nothing.
func (s *Store) RevokeIdentity(ctx context.Context, who policy.Person, reason string, act Act) (audit.Receipt, error) {
	if who.Issuer == "" || who.Subject == "" || reason == "" ||
		len(who.Issuer) > 1024 || len(who.Subject) > 1024 || len(reason) > 1000 || !printable(who.Issuer+who.Subject+reason) {
		return audit.Receipt{}, fmt.Errorf("%w: revoking needs issuer, subject and a reason, in printable bytes", ErrInvalid)
	}
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, st Stamp, entry *audit.Entry) error {
		_, err := tx.Exec(ctx, sqlRevokeIdentity, who.Issuer, who.Subject, reason, st.AuthorityVersion, entry.ID)
		if err != nil {
			return sqlError("revoking the identity", err)
		}
		return nil
	})
}

// IdentityRevocation is one person's.
type IdentityRevocation struct {
	policy.Person
	Reason    string
	RevokedAt time.Time
}

// Revocations lists the revoked identities, oldest first.
func (s *Store) Revocations(ctx context.Context) ([]IdentityRevocation, error) {
	rows, err := s.pool.Query(ctx, sqlRevocations)
	if err != nil {
		return nil, unavailable("listing revocations", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (IdentityRevocation, error) {
		var r IdentityRevocation
		err := row.Scan(&r.Issuer, &r.Subject, &r.Reason, &r.RevokedAt)
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
