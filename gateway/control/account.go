package control

import (
	"context"
	"fmt"
	"time"

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
			return NotUnresolved(&a)
		}
		if now.Before(a.SettleAfter) {
			return Worded(ErrTooEarly, "it may land yet: attempt %s may be accounted for from %s on", a.ID, inSeconds(a.SettleAfter))
		}
		m, err := machineByID(ctx, tx, a.MachineID)
		if err != nil {
			return err
		}
		if err := m.InService("accounting for an attempt on"); err != nil {
			return err
		}
		if m.Observed == nil || m.Observed.BeganAt.Before(a.SettleAfter) || m.Observed.Identity != a.Identity {
			return Worded(ErrNoObservation, "%s was not observed since %s, so nobody can say what became of attempt %s", m.Name, inSeconds(a.SettleAfter), a.ID)
		}
		if acc.Seen != "" && (scheme(acc.Seen) != scheme(m.Observed.Active) || scheme(acc.Seen) != scheme(m.Observed.Persistent)) {
			return Worded(ErrNoObservation, "somebody else observed %s in between; try again", m.Name)
		}
		to, err := judgeAccount(&a, m.Observed, acc.Landed)
		if err != nil {
			return err
		}
		entry.AttemptID, entry.MachineID, entry.MachineName, entry.Cluster = a.ID, m.ID, m.Name, m.Cluster
		if _, err := tx.Exec(ctx, sqlAttemptAccount, a.ID, string(to), m.Observed.Active, m.Observed.Persistent,
			acc.Reason, act.By.Subject, acc.Landed); err != nil {
			return sqlError("accounting", err)
		}
		o := acc.Outcome
		o.Kind, o.Digest, o.Persistent, o.Message = audit.OutcomeAccounted, m.Observed.Active, m.Observed.Persistent, acc.Reason
		o.Code = judgedAs(acc.Landed)
		_, err = s.finish(ctx, tx, &a, to, m.Observed.Active, m.Observed.Persistent, acc.Reason, []audit.Outcome{o})
		return err
	})
}

// judgedAs is what a person judged, as an outcome has it.
func judgedAs(landed bool) string {
	if landed {
		return audit.JudgedLanded
	}
	return audit.JudgedNotLanded
}

// NotUnresolved says why an attempt is not accounted for.
func NotUnresolved(a *Attempt) error {
	return Worded(ErrNotOwner, "attempt %s is %s; only an unresolved one is accounted for", a.ID, a.State)
}

// inSeconds is a moment in whole seconds for people, never an earlier one.
func inSeconds(at time.Time) string {
	if whole := at.Truncate(time.Second); !whole.Equal(at) {
		at = whole.Add(time.Second)
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

// judgeAccount holds what a person says against what was observed.
func judgeAccount(a *Attempt, o *Observed, landed bool) (State, error) {
	shown := o.Active == a.Digest && o.Persistent == a.Digest
	unmoved := o.Active == a.Base && o.Persistent == a.Persistent
	switch {
	case shown && landed:
		return StateCompleted, nil
	case shown && !unmoved:
		return "", Worded(ErrContradicted, "the machine holds what attempt %s sent, so it is not accounted for as not landed", a.ID)
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
