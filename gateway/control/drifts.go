package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DriftFilter narrows ListDrifts; zero fields do not narrow.
type DriftFilter struct {
	States    []DriftState
	MachineID uuid.UUID
	// After is the last drift of the page before.
	After DriftID
	// Limit is 50 when zero, at most 1000.
	Limit int
}

// ListDrifts gives drifts, newest first.
func (s *Store) ListDrifts(ctx context.Context, f DriftFilter) ([]Drift, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	states := make([]string, 0, len(f.States))
	for _, state := range f.States {
		states = append(states, string(state))
	}
	return s.drifts(ctx, sqlDrifts, states, f.MachineID, uuid.UUID(f.After), min(f.Limit, 1000))
}

// OpenDrifts gives all that are open, oldest first.
func (s *Store) OpenDrifts(ctx context.Context) ([]Drift, error) { return s.drifts(ctx, sqlDriftsOpen) }

func (s *Store) drifts(ctx context.Context, sql string, args ...any) ([]Drift, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, unavailable("listing drifts", err)
	}
	out, err := pgx.CollectRows(rows, scanDrift)
	if err != nil {
		return nil, unavailable("listing drifts", err)
	}
	return out, nil
}

// GetDrift reads one drift; *ChangeError BW-DRIFT-001 when there is none.
func (s *Store) GetDrift(ctx context.Context, id DriftID) (Drift, error) {
	rows, err := s.pool.Query(ctx, sqlDrift, uuid.UUID(id))
	if err != nil {
		return Drift{}, unavailable("reading a drift", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDrift)
	if errors.Is(err, pgx.ErrNoRows) {
		return Drift{}, &ChangeError{Code: "BW-DRIFT-001", Message: "there is no drift " + id.String(), Hint: "bronzeward drift list"}
	}
	if err != nil {
		return Drift{}, unavailable("reading drift "+id.String(), err)
	}
	return d, nil
}

// DriftClosed says that a drift is over, when it is to be settled.
func DriftClosed(d *Drift) error {
	e := &ChangeError{Code: "BW-DRIFT-002", Message: fmt.Sprintf("drift %s is %s", d.ID, d.State), Hint: "bronzeward drift show " + d.ID.String()}
	if d.State == DriftReturned {
		e.Message += ": " + d.MachineName + " runs again what was applied"
	}
	return e
}

// CountDrifts is how many drifts are open.
func (s *Store) CountDrifts(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, sqlDriftsCount).Scan(&n); err != nil {
		return 0, unavailable("counting open drifts", err)
	}
	return n, nil
}

// AppliedCopy is the sealed copy of a configuration that was applied to a machine, and the id
// it was sealed with; ErrNotFound when none is kept.
func (s *Store) AppliedCopy(ctx context.Context, machine uuid.UUID, digest string) (sealedFor ChangeID, sealed []byte, err error) {
	err = s.pool.QueryRow(ctx, sqlAppliedCopy, machine, digest).Scan((*uuid.UUID)(&sealedFor), &sealed)
	if err != nil {
		return ChangeID{}, nil, sqlError("reading the copy of what was applied", err)
	}
	return sealedFor, sealed, nil
}

// HasAppliedCopy is whether one is kept.
func (s *Store) HasAppliedCopy(ctx context.Context, machine uuid.UUID, digest string) (has bool, err error) {
	if err := s.pool.QueryRow(ctx, sqlAppliedCopyHas, machine, digest).Scan(&has); err != nil {
		return false, unavailable("looking for the copy of what was applied", err)
	}
	return has, nil
}

// KeepAppliedCopy keeps the sealed copy of a configuration; one that is kept already stays.
func (s *Store) KeepAppliedCopy(ctx context.Context, machine uuid.UUID, digest string, sealedFor ChangeID, sealed []byte) error {
	if len(sealed) == 0 || digest == "" {
		return fmt.Errorf("%w: an empty copy is not kept", ErrInvalid)
	}
	if _, err := s.pool.Exec(ctx, sqlAppliedCopyAdd, machine, digest, uuid.UUID(sealedFor), sealed); err != nil {
		return sqlError("keeping the copy of what was applied", err)
	}
	return nil
}

// DropAppliedCopies drops copies that are older than keep, at most a hundred, and gives how
// many. That of what was applied last to a machine stays.
func (s *Store) DropAppliedCopies(ctx context.Context, keep time.Duration) (int64, error) {
	tag, err := s.pool.Exec(ctx, sqlAppliedCopiesDrop, keep)
	if err != nil {
		return 0, unavailable("dropping copies of what was applied", err)
	}
	return tag.RowsAffected(), nil
}
