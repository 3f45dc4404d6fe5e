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
)

// LateWithin is how long after it was accounted for an attempt explains that its configuration
// shows up: far longer than any landing that was measured, and short enough that what shows up
// later is looked at by a person.
const LateWithin = 24 * time.Hour

// ErrNotLate means that what was seen is no late landing of the attempt.
var ErrNotLate = errors.New("this is no late landing of the attempt")

// JudgedAttempts gives the attempts that may still be seen to have landed: accounted for within
// LateWithin, not seen since, on machines in service without an open drift, nothing applied or adopted since. Oldest first.
func (s *Store) JudgedAttempts(ctx context.Context) ([]Attempt, error) {
	return s.attempts(ctx, "listing what was accounted for", sqlAttemptsJudged, uuid.Nil, LateWithin)
}

// LandedLate writes down that both resources of the machine were seen to hold what the attempt
// sent, after a person had accounted for it. The attempt keeps its state, which was a judgement;
// what was last applied follows the machine, and changes on the old base are superseded. noted is
// the machine's serial from before the reading. ErrMoved when that is over, ErrBusy while another
// attempt may still land, ErrNotLate when there is nothing to explain: another replica was first,
// the machine is known to hold it, or it did so before the attempt; and when the attempt explains nothing: the node it was sent to
// was replaced, a drift is open, or something else was applied or adopted since.
func (s *Store) LandedLate(ctx context.Context, id uuid.UUID, active, persistent string, noted int64, late audit.Outcome) error {
	doing := "recognising a late landing of attempt " + id.String()
	err := s.inTx(ctx, func(tx pgx.Tx) (written, error) {
		a, now, err := lockAttempt(ctx, tx, id)
		if err != nil {
			return written{}, err
		}
		m, err := machineByID(ctx, tx, a.MachineID)
		if err != nil {
			return written{}, err
		}
		if m.Serial != noted {
			return written{}, fmt.Errorf("%s: %w: machine %s is at serial %d, the reading is of %d", doing, ErrMoved, m.Name, m.Serial, noted)
		}
		held, err := holding(ctx, tx, m.ID)
		if err != nil {
			return written{}, err
		}
		if len(held) > 0 {
			return written{}, fmt.Errorf("%s: %w", doing, busyError(&held[0], "machine"))
		}
		judged, err := judgedOf(ctx, tx, m.ID)
		if err != nil {
			return written{}, err
		}
		if !slices.ContainsFunc(judged, func(j Attempt) bool { return j.ID == a.ID }) || !a.mayLandLate(now) || !a.explains(&m, active, persistent) {
			return written{}, fmt.Errorf("%s: %w", doing, ErrNotLate)
		}
		outcome, err := s.landLate(ctx, tx, &a, now, active, persistent, late)
		return written{entry: a.EntryID, outcome: outcome}, err
	})
	return knownCommit(err)
}

// mayLandLate is true while the attempt may still be seen to have landed.
func (a *Attempt) mayLandLate(now time.Time) bool {
	return (a.State == StateAccounted || a.State == StateFailed) && a.LateAt == nil && a.ClosedAt != nil && now.Sub(*a.ClosedAt) <= LateWithin
}

// explains is true when what is read is what the attempt sent, the machine is not known to hold
// it, and did not hold it before the attempt.
func (a *Attempt) explains(m *Machine, active, persistent string) bool {
	return m.Retired == nil && active == a.Digest && persistent == a.Digest &&
		(m.ActiveDigest != a.Digest || m.PersistentDigest != a.Digest) &&
		(a.Base != a.Digest || a.Persistent != a.Digest)
}

// landLate writes a late landing of a locked attempt, and what follows from it. It gives the
// outcome's id.
func (s *Store) landLate(ctx context.Context, tx pgx.Tx, a *Attempt, now time.Time, active, persistent string, late audit.Outcome) (uuid.UUID, error) {
	if late.ID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return uuid.Nil, fmt.Errorf("making an outcome id: %w", err)
		}
		late.ID = id
	}
	after := now.Sub(a.OpenedAt).Round(time.Second)
	late.Kind, late.Digest, late.Persistent, late.Duration, late.State = audit.OutcomeLate, active, persistent, after, string(a.State)
	late.Message = fmt.Sprintf("the machine holds what attempt %s sent, seen %s after its decision; it stays %s", a.ID, after, a.State)
	late.EntryID, late.AttemptID, late.Instance = a.EntryID, a.ID, s.cfg.Instance
	b := &pgx.Batch{}
	b.Queue(sqlLateLandingAdd, a.ID, a.MachineID, active, persistent, now, late.ID)
	queueApplied(b, a.MachineID, active, persistent)
	b.Queue(sqlSerialBump, a.MachineID)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return uuid.Nil, sqlError("writing the late landing of attempt "+a.ID.String(), err)
	}
	if err := supersede(ctx, tx, a.MachineID, active, persistent, uuid.Nil, fmt.Sprintf("it holds what attempt %s sent", a.ID)); err != nil {
		return uuid.Nil, err
	}
	if _, err := audit.AppendOutcome(ctx, tx, late); err != nil {
		return uuid.Nil, sqlError("appending an outcome", err)
	}
	return late.ID, nil
}

// lateOf recognises a late landing in what was read of a locked machine on which nothing is under
// way. It does nothing when no attempt explains it.
func (s *Store) lateOf(ctx context.Context, tx pgx.Tx, m *Machine, active, persistent string) error {
	a, err := explaining(ctx, tx, m.ID, active)
	if err != nil || a == nil || !a.explains(m, active, persistent) {
		return err
	}
	now, err := readClock(ctx, tx)
	if err != nil || !a.mayLandLate(now) {
		return err
	}
	_, err = s.landLate(ctx, tx, a, now, active, persistent, audit.Outcome{})
	return err
}

// ExplainedBy is the newest attempt of a locked machine that explains why the machine holds a
// configuration of this digest: one that may still land, or that was accounted for within
// LateWithin and has not been seen since. Null when none does, and then it is somebody else's
// doing. A digest is compared as it stands, so whoever has the text digests it under the
// attempt's key.
func ExplainedBy(ctx context.Context, tx pgx.Tx, machine uuid.UUID, digest string) (*Attempt, error) {
	rows, err := tx.Query(ctx, sqlHeldAttempts, machine, false)
	if err != nil {
		return nil, sqlError("reading what may still land", err)
	}
	held, err := pgx.CollectRows(rows, collectAttempt)
	if err != nil {
		return nil, sqlError("reading what may still land", err)
	}
	for i := range held {
		if held[i].Digest == digest {
			return &held[i], nil
		}
	}
	return explaining(ctx, tx, machine, digest)
}

// judgedOf are the attempts of a locked machine that were accounted for and may explain what it holds, the oldest first. While a
// drift is open there are none: what is read then is part of it, and only the change that names it settles it (I18).
func judgedOf(ctx context.Context, tx pgx.Tx, machine uuid.UUID) ([]Attempt, error) {
	rows, err := tx.Query(ctx, sqlAttemptsJudged, machine, LateWithin)
	if err != nil {
		return nil, sqlError("reading what was accounted for", err)
	}
	judged, err := pgx.CollectRows(rows, collectAttempt)
	if err != nil {
		return nil, sqlError("reading what was accounted for", err)
	}
	return judged, nil
}

// explaining is the newest attempt that was accounted for and explains the digest; null without.
func explaining(ctx context.Context, tx pgx.Tx, machine uuid.UUID, digest string) (*Attempt, error) {
	judged, err := judgedOf(ctx, tx, machine)
	if err != nil {
		return nil, err
	}
	for i := len(judged) - 1; i >= 0; i-- {
		if judged[i].Digest == digest {
			return &judged[i], nil
		}
	}
	return nil, nil
}
