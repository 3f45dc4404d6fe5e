package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// Closing is how an owner ends its attempt.
type Closing struct {
	AttemptID uuid.UUID
	// Owner is the attempt's, as Admit gave it.
	Owner Owner
	// To is completed, rejected, not_sent or unresolved.
	To State
	// ReadActive and ReadPersistent are the digests read back; completed needs both to be
	// the attempt's, and they become the machine's last applied ones.
	ReadActive     string
	ReadPersistent string
	// Reason is one sentence, without secrets.
	Reason string
	// Outcomes are appended in the same transaction, before the one that states the state.
	// EntryID, AttemptID and Instance are filled, ID when it is zero. With an ID of the caller's
	// own in the first, what a try before has committed without an answer is known for what it is.
	Outcomes []audit.Outcome
}

// CloseAttempt moves an open attempt of this owner, appends the outcomes and, unless it
// becomes unresolved, moves the machine's serial: one transaction. ErrNotOwner means that
// the row is another owner's by now, or no longer open, and that nothing was written.
// An unanswered COMMIT is looked up and its answer given; where it could not be looked up either
// (ErrUnavailable), the same Closing may be brought again, and nothing is written twice.
func (s *Store) CloseAttempt(ctx context.Context, c Closing) error {
	if !StateOpen.MayBecome(c.To) {
		return fmt.Errorf("%w: an open attempt does not become %q", ErrInvalid, clip(string(c.To)))
	}
	return s.move(ctx, moving{
		id: c.AttemptID, to: c.To, readActive: c.ReadActive, readPersistent: c.ReadPersistent,
		reason: c.Reason, by: c.Owner.Instance, outcomes: c.Outcomes, sql: sqlAttemptClose,
		args: []any{c.Owner.Instance, c.Owner.Generation, c.Owner.Epoch},
	})
}

// MarkUnresolved moves an open attempt whose lease has ended, whoever owned it. ErrNotOwner
// means that its owner is alive, or that it is no longer open.
func (s *Store) MarkUnresolved(ctx context.Context, id uuid.UUID, reason string, outcomes ...audit.Outcome) error {
	return s.move(ctx, moving{
		id: id, to: StateUnresolved, reason: reason, by: s.cfg.Instance, outcomes: outcomes,
		sql: sqlAttemptUnresolved,
	})
}

// ResolveAttempt completes an unresolved attempt by evidence: both resources read back are
// the attempt's digest. Anybody may bring the evidence. When the attempt changed nothing
// (its base is its digest) the evidence says nothing about the send, and only counts once
// the settle floor has passed; before that it gives ErrTooEarly. Other digests give
// ErrContradicted: a person has to account for the attempt. ErrRetired when the machine is: what
// became of the attempt is not known then (I12).
func (s *Store) ResolveAttempt(ctx context.Context, id uuid.UUID, readActive, readPersistent string, outcomes ...audit.Outcome) error {
	return s.move(ctx, moving{
		id: id, to: StateCompleted, readActive: readActive, readPersistent: readPersistent,
		reason: "the machine holds the attempt's configuration", by: s.cfg.Instance, outcomes: outcomes,
		sql: sqlAttemptResolve, looked: true,
		check: func(a *Attempt, now time.Time) error {
			if a.State != StateUnresolved {
				return fmt.Errorf("%w: it is %s", ErrNotOwner, a.State)
			}
			if readActive != a.Digest || readPersistent != a.Digest {
				return ErrContradicted
			}
			if a.Base == a.Digest && now.Before(a.SettleAfter) {
				return ErrTooEarly
			}
			return nil
		},
	})
}

// RenewLease extends the attempt's lease from the database's clock. ErrNotOwner means that
// the attempt was taken away: stop sending.
func (s *Store) RenewLease(ctx context.Context, id uuid.UUID, o Owner) error {
	tag, err := s.pool.Exec(ctx, sqlLeaseRenew, id, o.Instance, o.Generation, o.Epoch, s.cfg.Lease)
	if err != nil {
		return sqlError("renewing the lease", err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("renewing the lease of %s: %w", id, ErrNotOwner)
	}
	return nil
}

// moving is one step of an attempt.
type moving struct {
	id                         uuid.UUID
	to                         State
	readActive, readPersistent string
	reason, by                 string
	outcomes                   []audit.Outcome
	sql                        string
	args                       []any
	// check looks at the locked attempt and the clock read after its lock.
	check func(*Attempt, time.Time) error
	// looked is true when somebody looked at the machine, who cannot have when it is retired.
	looked bool
}

// move locks the machine, then the attempt, reads the clock, steps and appends.
func (s *Store) move(ctx context.Context, m moving) error {
	doing := fmt.Sprintf("moving attempt %s to %s", m.id, m.to)
	err := s.inTx(ctx, func(tx pgx.Tx) (written, error) {
		a, now, err := lockAttempt(ctx, tx, m.id)
		if err != nil {
			return written{}, err
		}
		if m.check != nil {
			if err := m.check(&a, now); err != nil {
				return written{}, fmt.Errorf("%s: %w", doing, err)
			}
		}
		if m.looked {
			machine, err := machineByID(ctx, tx, a.MachineID)
			if err == nil {
				err = machine.InService("completing an attempt on")
			}
			if err != nil {
				return written{}, err
			}
		}
		tag, err := tx.Exec(ctx, m.sql, append([]any{m.id, string(m.to), m.readActive, m.readPersistent, m.reason, m.by}, m.args...)...)
		if err != nil {
			return written{}, sqlError(doing, err)
		}
		if tag.RowsAffected() == 0 {
			done, err := closedBefore(ctx, tx, a.EntryID, m.outcomes)
			if err == nil && !done {
				err = fmt.Errorf("%s: %w", doing, ErrNotOwner)
			}
			return written{entry: a.EntryID}, err
		}
		last, err := s.finish(ctx, tx, &a, m.to, m.readActive, m.readPersistent, m.reason, m.outcomes)
		return written{entry: a.EntryID, outcome: last}, err
	})
	return knownCommit(err)
}

// closedBefore is true when the first of these outcomes is in the book: then a try before was
// committed, and nobody could say so.
func closedBefore(ctx context.Context, tx pgx.Tx, entry uuid.UUID, outcomes []audit.Outcome) (done bool, _ error) {
	if len(outcomes) == 0 || outcomes[0].ID == uuid.Nil {
		return false, nil
	}
	if err := tx.QueryRow(ctx, sqlRecordedOutcome, entry, outcomes[0].ID).Scan(&done); err != nil {
		return false, sqlError("looking for an outcome", err)
	}
	return done, nil
}

// lockAttempt locks the attempt's machine, then the attempt, then reads the clock.
func lockAttempt(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Attempt, time.Time, error) {
	var (
		a   Attempt
		now time.Time
		m   uuid.UUID
	)
	b := &pgx.Batch{}
	b.Queue(sqlAttemptMachineLock, id).QueryRow(func(row pgx.Row) error { return row.Scan(&m) })
	b.Queue(sqlAttemptForUpdate, id).QueryRow(func(row pgx.Row) error { return scanAttempt(row, &a) })
	b.Queue(sqlClock).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return Attempt{}, time.Time{}, named(sqlError("locking attempt "+id.String(), err), "there is no attempt "+id.String())
	}
	return a, now, nil
}

// finish is what every step of an attempt shares: the serial, the digests last applied, the
// outcomes. It gives the id of the outcome that states the new state.
func (s *Store) finish(ctx context.Context, tx pgx.Tx, a *Attempt, to State, active, persistent, reason string, outcomes []audit.Outcome) (uuid.UUID, error) {
	if !to.Held() {
		if _, err := tx.Exec(ctx, sqlSerialBump, a.MachineID); err != nil {
			return uuid.Nil, sqlError("moving the serial", err)
		}
	}
	if err := afterAttempt(ctx, tx, a, to, active, persistent); err != nil {
		return uuid.Nil, err
	}
	if to == StateCompleted {
		b := &pgx.Batch{}
		queueApplied(b, a.MachineID, active, persistent)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return uuid.Nil, sqlError("keeping the digests last applied", err)
		}
		if err := s.afterRevert(ctx, tx, a, active, persistent); err != nil {
			return uuid.Nil, err
		}
	}
	outcomes = append(append([]audit.Outcome{}, outcomes...), audit.Outcome{
		Kind: audit.OutcomeState, Message: reason, Digest: active, Persistent: persistent,
	})
	var last uuid.UUID
	for _, o := range outcomes {
		if o.ID == uuid.Nil {
			id, err := uuid.NewV7()
			if err != nil {
				return uuid.Nil, fmt.Errorf("making an outcome id: %w", err)
			}
			o.ID = id
		}
		o.EntryID, o.AttemptID, o.Instance = a.EntryID, a.ID, s.cfg.Instance
		if o.Kind == audit.OutcomeState || o.Kind == audit.OutcomeAccounted {
			o.State = string(to)
		}
		if _, err := audit.AppendOutcome(ctx, tx, o); err != nil {
			return uuid.Nil, sqlError("appending an outcome", err)
		}
		last = o.ID
	}
	return last, nil
}

// afterAttempt gives an unspent change back, and ends the machine's other changes when it
// now runs something else than they were proposed against.
func afterAttempt(ctx context.Context, tx pgx.Tx, a *Attempt, to State, active, persistent string) error {
	switch {
	case (to == StateRejected || to == StateNotSent) && a.ChangeID != ChangeID{}:
		locked, err := lockChanges(ctx, tx, []ChangeID{a.ChangeID})
		if err != nil {
			return err
		}
		now, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		return giveBack(ctx, tx, &locked[0], now, to)
	case to == StateCompleted, to == StateAccounted, to == StateFailed:
		return supersede(ctx, tx, a.MachineID, active, persistent, uuid.Nil, fmt.Sprintf("attempt %s is %s", a.ID, to))
	}
	return nil
}

// giveBack makes a spent change live again, as far as nobody was revoked meanwhile: who takes
// an identity's authority away leaves spent changes alone.
func giveBack(ctx context.Context, tx pgx.Tx, c *Change, now time.Time, to State) error {
	if err := c.become(ctx, tx, now, step{to: ChangeApproved, reason: "its attempt changed nothing: " + string(to)}); err != nil {
		return err
	}
	if c.RequesterRevoked {
		return c.become(ctx, tx, now, step{to: ChangeRevoked, reason: "its requester was revoked"})
	}
	return c.recount(ctx, tx, now, c.Epoch, step{reason: "an approver was revoked"})
}
