package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// ExpireChanges marks the changes whose clock has run out, and gives how many. Nothing depends
// on it but what lists show: whoever spends or approves looks at the clock itself. Every
// replica may run it.
func (s *Store) ExpireChanges(ctx context.Context) (int, error) {
	rows, err := s.pool.Query(ctx, sqlChangesDue)
	if err != nil {
		return 0, unavailable("finding changes that are over", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, unavailable("finding changes that are over", err)
	}
	marked := 0
	for _, id := range due {
		moved := false
		err := s.inTx(ctx, func(tx pgx.Tx) (written, error) {
			moved = false
			locked, err := lockChanges(ctx, tx, []ChangeID{ChangeID(id)})
			if err != nil {
				return written{}, err
			}
			now, err := readClock(ctx, tx)
			if err != nil {
				return written{}, err
			}
			if c := &locked[0]; c.Expired(now) {
				moved = true
				return written{}, c.become(ctx, tx, now, expiry(c))
			}
			return written{}, nil
		})
		if err != nil {
			return marked, err
		}
		if moved {
			marked++
		}
	}
	return marked, nil
}

// DropSealed drops the sealed bytes of changes that ended longer ago than keep, at most a
// hundred, and gives how many.
func (s *Store) DropSealed(ctx context.Context, keep time.Duration) (int64, error) {
	tag, err := s.pool.Exec(ctx, sqlSealedDrop, keep)
	if err != nil {
		return 0, unavailable("dropping sealed bytes", err)
	}
	return tag.RowsAffected(), nil
}

// DropKeys forgets Idempotency-Keys that are older than keep.
func (s *Store) DropKeys(ctx context.Context, keep time.Duration) (int64, error) {
	tag, err := s.pool.Exec(ctx, sqlOnceDrop, keep)
	if err != nil {
		return 0, unavailable("forgetting Idempotency-Keys", err)
	}
	return tag.RowsAffected(), nil
}

// CountWaiting is how many changes wait for an approval.
func (s *Store) CountWaiting(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, sqlChangesWaiting).Scan(&n); err != nil {
		return 0, unavailable("counting waiting changes", err)
	}
	return n, nil
}

// SawPerson keeps the groups somebody was seen with, unless a fresher proof was seen. It
// decides nothing.
func (s *Store) SawPerson(ctx context.Context, who policy.Person, kind string, groups []string, issued time.Time) error {
	if !printable(who.Issuer + who.Subject) {
		return fmt.Errorf("%w: the person's name has bytes that are not printable", ErrInvalid)
	}
	if _, err := s.pool.Exec(ctx, sqlPersonSaw, who.Issuer, who.Subject, kind, append([]string{}, groups...), issued); err != nil {
		return unavailable("keeping the groups of a person", err)
	}
	return nil
}

// TimelineItem is one thing that happened to a machine.
type TimelineItem struct {
	At time.Time
	// Kind is "observation", "change", "approval", "approval-revocation", "attempt", "late-landing",
	// "freeze", "unfreeze", "retirement" or "drift".
	Kind   string
	ID     uuid.UUID
	Person policy.Person
	Text   string
	// State is the state a change, attempt or drift came to; empty for others.
	State string
}

// Timeline gives what happened to a machine, newest first: limit items before the one given,
// or the newest when it is the zero value.
func (s *Store) Timeline(ctx context.Context, machineID uuid.UUID, before TimelineItem, limit int) ([]TimelineItem, error) {
	var at *time.Time
	if !before.At.IsZero() {
		at = &before.At
	}
	rows, err := s.pool.Query(ctx, sqlTimeline, machineID, at, before.ID, min(max(limit, 1), 1000))
	if err != nil {
		return nil, unavailable("reading the timeline", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (TimelineItem, error) {
		var t TimelineItem
		err := row.Scan(&t.At, &t.Kind, &t.ID, &t.Person.Issuer, &t.Person.Subject, &t.Text, &t.State)
		return t, err
	})
	if err != nil {
		return nil, unavailable("reading the timeline", err)
	}
	return out, nil
}
