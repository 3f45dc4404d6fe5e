package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

var (
	// ErrFrozen means that the machine is frozen already; the text says by whom, since when and why.
	ErrFrozen = errors.New("the machine is frozen")
	// ErrNotFrozen means that there is nothing to lift.
	ErrNotFrozen = errors.New("the machine is not frozen")
)

// Freeze is a hold that a person set: the machine takes no change until an approver lifts it.
// Reading goes on, and so does a change of kind adopt, which sends nothing.
type Freeze struct {
	ID        uuid.UUID
	MachineID uuid.UUID
	By        policy.Person
	Reason    string
	// Since is the database's clock.
	Since   time.Time
	EntryID uuid.UUID
	// Lifted says how it ended; null while it stands.
	Lifted *Lifting
}

// Lifting is how a freeze ended.
type Lifting struct {
	By      policy.Person
	Reason  string
	At      time.Time
	EntryID uuid.UUID
}

// Hold gives the freeze as a reason why the machine's scope is closed.
func (f *Freeze) Hold() policy.Hold {
	return policy.Hold{Kind: policy.HoldFreeze, ID: f.ID.String(), Holder: f.By, Since: f.Since, Scope: "machine", Reason: f.Reason}
}

func (f *Freeze) text() string {
	return fmt.Sprintf("by %s since %s: %s", f.By.Subject, f.Since.UTC().Format(time.RFC3339), f.Reason)
}

// FreezeMachine takes from everybody the authority to change the machine. Once it has returned
// nil, every later decision sees the freeze; an attempt that is under way goes on. ErrFrozen
// when one stands already, ErrRetired for a machine that takes no change anyway.
func (s *Store) FreezeMachine(ctx context.Context, name, reason string, act Act) (Freeze, audit.Receipt, error) {
	var frozen Freeze
	if err := reasonGiven("freezing a machine", reason); err != nil {
		return Freeze{}, audit.Receipt{}, err
	}
	receipt, err := s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		m, err := lockMachine(ctx, tx, name, entry)
		if err != nil {
			return err
		}
		if m.Frozen != nil {
			return fmt.Errorf("freezing %q: %w %s", m.Name, ErrFrozen, m.Frozen.text())
		}
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("making a freeze id: %w", err)
		}
		now, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		frozen = Freeze{ID: id, MachineID: m.ID, By: act.By, Reason: reason, Since: now, EntryID: entry.ID}
		if _, err := tx.Exec(ctx, sqlFreezeAdd, id, m.ID, act.By.Issuer, act.By.Subject, reason, now, entry.ID); err != nil {
			return sqlError(fmt.Sprintf("freezing %q", m.Name), err)
		}
		act.Once.came(frozen)
		return nil
	})
	return frozen, receipt, err
}

// UnfreezeMachine lifts the freeze that stands and gives it as it ended. ErrNotFrozen when none does.
func (s *Store) UnfreezeMachine(ctx context.Context, name, reason string, act Act) (Freeze, audit.Receipt, error) {
	var lifted Freeze
	if err := reasonGiven("lifting a freeze", reason); err != nil {
		return Freeze{}, audit.Receipt{}, err
	}
	receipt, err := s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		m, err := lockMachine(ctx, tx, name, entry)
		if err != nil {
			return err
		}
		if m.Frozen == nil {
			return fmt.Errorf("lifting the freeze of %q: %w", m.Name, ErrNotFrozen)
		}
		now, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		lifted = *m.Frozen
		lifted.Lifted = &Lifting{By: act.By, Reason: reason, At: now, EntryID: entry.ID}
		if _, err := tx.Exec(ctx, sqlFreezeLift, lifted.ID, now, act.By.Issuer, act.By.Subject, reason, entry.ID); err != nil {
			return sqlError(fmt.Sprintf("lifting the freeze of %q", m.Name), err)
		}
		act.Once.came(lifted)
		return nil
	})
	return lifted, receipt, err
}

// Freezes gives the machine's freezes, the newest first, at most 1000.
func (s *Store) Freezes(ctx context.Context, machine uuid.UUID) ([]Freeze, error) {
	rows, err := s.pool.Query(ctx, sqlFreezes, machine)
	if err != nil {
		return nil, unavailable("listing freezes", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Freeze, error) {
		var (
			f      Freeze
			at     *time.Time
			by     [3]*string
			lifted *uuid.UUID
		)
		err := row.Scan(&f.ID, &f.MachineID, &f.By.Issuer, &f.By.Subject, &f.Reason, &f.Since, &f.EntryID, &at, &by[0], &by[1], &by[2], &lifted)
		if err == nil && at != nil {
			f.Lifted = &Lifting{By: policy.Person{Issuer: *by[0], Subject: *by[1]}, Reason: *by[2], At: *at, EntryID: *lifted}
		}
		return f, err
	})
	if err != nil {
		return nil, unavailable("listing freezes", err)
	}
	return out, nil
}

// reasonGiven refuses an act on a machine whose reason says nothing, or cannot stand in a row.
func reasonGiven(doing, reason string) error {
	if reason == "" || !validReason(reason) {
		return fmt.Errorf("%w: %s needs a reason of at most %d printable bytes", ErrInvalid, doing, maxReason)
	}
	return nil
}
