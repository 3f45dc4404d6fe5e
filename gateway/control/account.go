package control

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// Accounting is a person's judgement of an attempt nobody can answer for.
type Accounting struct {
	AttemptID uuid.UUID
	// Landed is what the person says: the node took the configuration, or it did not.
	Landed bool
	// Reason is why, in a sentence; required.
	Reason string
	// Seen is the digest of what the caller has just observed, when there is one. Another digest key may
	// have become current since the attempt, so the caller observes under the attempt's: an observation
	// under another one than Seen's is somebody else's, and the caller has to look again.
	Seen string
	// Outcome carries the person as audit.Caller; its kind, ids and state are filled.
	Outcome audit.Outcome
}

// Account frees the machine of an unresolved attempt by a person's judgement, and the record
// calls itself one. It is refused before the settle floor (ErrTooEarly) and without an
// observation of the machine that began after it (ErrNoObservation), and when the machine is retired (ErrRetired). What that observation
// shows decides the state:
//
//	says landed, machine holds the attempt's digest       completed
//	says not landed, machine holds the attempt's digest   ErrContradicted, nothing done
//	says landed, machine still holds the base             failed
//	anything else                                         accounted
//
// Digests of two keys are never compared: what is observed under another key than the attempt's,
// because that key is gone, shows nothing.
func (s *Store) Account(ctx context.Context, acc Accounting, act Act) (audit.Receipt, error) {
	if acc.Reason == "" || !validReason(acc.Reason) {
		return audit.Receipt{}, fmt.Errorf("%w: accounting needs a reason of at most %d printable bytes", ErrInvalid, maxReason)
	}
	return s.act(ctx, shared, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		a, now, err := lockAttempt(ctx, tx, acc.AttemptID)
		if err != nil {
			return err
		}
		if a.State != StateUnresolved {
			return fmt.Errorf("accounting for attempt %s: %w: it is %s", a.ID, ErrNotOwner, a.State)
		}
		if now.Before(a.SettleAfter) {
			return fmt.Errorf("accounting for attempt %s: %w: it passes at %s", a.ID, ErrTooEarly, a.SettleAfter.UTC())
		}
		m, err := machineByID(ctx, tx, a.MachineID)
		if err != nil {
			return err
		}
		if err := m.inService("accounting for an attempt on"); err != nil {
			return err
		}
		if m.Observed == nil || m.Observed.BeganAt.Before(a.SettleAfter) || m.Observed.Identity != a.Identity {
			return fmt.Errorf("accounting for attempt %s: %w: observe %s first", a.ID, ErrNoObservation, m.Name)
		}
		if acc.Seen != "" && (scheme(acc.Seen) != scheme(m.Observed.Active) || scheme(acc.Seen) != scheme(m.Observed.Persistent)) {
			return fmt.Errorf("accounting for attempt %s: %w: somebody else observed %s in between; try again", a.ID, ErrNoObservation, m.Name)
		}
		to, err := judgeAccount(&a, m.Observed, acc.Landed)
		if err != nil {
			return fmt.Errorf("accounting for attempt %s: %w", a.ID, err)
		}
		entry.AttemptID, entry.MachineID, entry.MachineName, entry.Cluster = a.ID, m.ID, m.Name, m.Cluster
		if _, err := tx.Exec(ctx, sqlAttemptAccount, a.ID, string(to), m.Observed.Active, m.Observed.Persistent,
			acc.Reason, act.By.Subject, acc.Landed); err != nil {
			return sqlError("accounting", err)
		}
		o := acc.Outcome
		o.Kind, o.Digest, o.Persistent, o.Message = audit.OutcomeAccounted, m.Observed.Active, m.Observed.Persistent, acc.Reason
		_, err = s.finish(ctx, tx, &a, to, m.Observed.Active, m.Observed.Persistent, acc.Reason, []audit.Outcome{o})
		return err
	})
}

// judgeAccount holds what a person says against what was observed.
func judgeAccount(a *Attempt, o *Observed, landed bool) (State, error) {
	shown := o.Active == a.Digest && o.Persistent == a.Digest
	unmoved := o.Active == a.Base && o.Persistent == a.Persistent
	switch {
	case shown && landed:
		return StateCompleted, nil
	case shown && !unmoved:
		return "", fmt.Errorf("%w: the machine holds the attempt's configuration, so it landed", ErrContradicted)
	case landed && unmoved:
		return StateFailed, nil
	default:
		return StateAccounted, nil
	}
}

// machineByID reads a machine within the transaction.
func machineByID(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Machine, error) {
	var m Machine
	if err := scanMachine(tx.QueryRow(ctx, sqlMachine, id), &m); err != nil {
		return Machine{}, sqlError("reading machine "+id.String(), err)
	}
	return m, nil
}
