package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// scanAttempt reads the columns of queries/attempt_columns, in their order.
func scanAttempt(row pgx.Row, a *Attempt) error {
	return row.Scan(&a.ID, &a.EntryID, &a.MachineID, &a.MachineName, &a.Cluster, &a.State,
		&a.Owner.Instance, &a.Owner.Generation, &a.Owner.Epoch, &a.Caller.Issuer, &a.Caller.Subject,
		&a.RequestKey, &a.Mode, &a.Digest, &a.Base, &a.Persistent,
		&a.Identity.NodeID, &a.Identity.ClusterID, &a.Identity.SMBIOS,
		&a.OpenedAt, &a.SendBy, &a.LeaseUntil, &a.TransportDeadline, &a.SettleAfter,
		&a.UnresolvedAt, &a.ClosedAt, &a.ClosedBy, &a.ReadActive, &a.ReadPersistent, &a.Landed, &a.Reason,
		(*uuid.UUID)(&a.ChangeID), &a.CredentialVersion, &a.LateAt, &a.Retired)
}

func collectAttempt(row pgx.CollectableRow) (Attempt, error) {
	var a Attempt
	err := scanAttempt(row, &a)
	return a, err
}

// GetAttempt reads one attempt; ErrNotFound when there is none.
func (s *Store) GetAttempt(ctx context.Context, id uuid.UUID) (Attempt, error) {
	var a Attempt
	if err := scanAttempt(s.pool.QueryRow(ctx, sqlAttempt, id), &a); err != nil {
		return Attempt{}, named(sqlError("reading attempt "+id.String(), err), "there is no attempt "+id.String())
	}
	return a, nil
}

// AttemptFilter narrows ListAttempts; zero fields do not narrow.
type AttemptFilter struct {
	// Held is true for those that may still land only.
	Held      bool
	MachineID uuid.UUID
	// Before is the last attempt of the page before; newest first.
	Before uuid.UUID
	// Limit is 100 when zero, at most 1000.
	Limit int
}

// ListAttempts gives attempts, newest first.
func (s *Store) ListAttempts(ctx context.Context, f AttemptFilter) ([]Attempt, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	f.Limit = min(f.Limit, 1000)
	return s.attempts(ctx, "listing attempts", sqlAttempts, f.Held, f.MachineID, f.Before, f.Limit)
}

// AttemptsSince gives the attempts of one very same request (RequestKey) on the machine that
// were opened at or after since, a time of the database's clock, newest first and whatever
// their state: a repeat that arrived while the first was under way is answered by the first's,
// also when that has ended meanwhile.
func (s *Store) AttemptsSince(ctx context.Context, machineID uuid.UUID, requestKey string, since time.Time) ([]Attempt, error) {
	return s.attempts(ctx, "listing the request's attempts", sqlAttemptsSince, machineID, requestKey, since)
}

// DeadAttempts gives the open attempts whose lease has ended by the database's clock: their
// owner is gone, or paused. They are settled by MarkUnresolved and then by evidence.
func (s *Store) DeadAttempts(ctx context.Context) ([]Attempt, error) {
	return s.attempts(ctx, "listing dead attempts", sqlDeadAttempts)
}

func (s *Store) attempts(ctx context.Context, doing, sql string, args ...any) ([]Attempt, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, unavailable(doing, err)
	}
	out, err := pgx.CollectRows(rows, collectAttempt)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, doing, err)
	}
	return out, nil
}
