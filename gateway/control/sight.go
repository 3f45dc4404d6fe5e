package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Sight is what was read of a machine by itself, outside any call. It judges drift.
type Sight struct {
	// Observation is what was read. Its digests are made as the machine's last applied ones
	// are; NotedSerial is required.
	Observation
	MachineID uuid.UUID
	// Changes are the differences from what was applied last to what runs; Known is false
	// when that could not be compared with.
	Changes []policy.ConfigChange
	Known   bool
	// Staged are the differences the next reboot brings; null when there are none.
	Staged []policy.ConfigChange
}

// Seen is what was last seen of a machine while nothing was under way.
type Seen struct {
	Active, Persistent               string
	ActiveVersion, PersistentVersion string
	// Staged are the differences the next reboot brings; null when the disk holds what runs.
	Staged []policy.ConfigChange
	// At is when it was last read, by the database's clock.
	At time.Time
	// Version, Stage and Type are as Observation has them; empty when they were not kept.
	Version, Stage, Type string

	landed int64
}

// SightResult is what a sight came to.
type SightResult string

// What a sight can come to.
const (
	SightNothing  SightResult = "nothing"  // all is as it was
	SightNoted    SightResult = "noted"    // a step that is explained, or the first sight
	SightBaseline SightResult = "baseline" // nothing was known as applied: this is from now on
	SightStep     SightResult = "step"     // a step that nothing explains and that changed no digest
	SightLate     SightResult = "late"     // an attempt that was accounted for has landed
	SightOpened   SightResult = "opened"   // a drift
	SightMoved    SightResult = "moved"    // the open drift is another by now
	SightReturned SightResult = "returned" // the machine runs what was applied again
)

// Watched is a machine as whoever looks at it by itself has to know it.
type Watched struct {
	Machine Machine
	// Held is true while something is under way: a sight says nothing then.
	Held bool
	// Seen is null before the first sight.
	Seen  *Seen
	Drift *Drift
}

// Watch reads what is known of a machine. Its serial is current: note it before the reading.
func (s *Store) Watch(ctx context.Context, machine uuid.UUID) (Watched, error) {
	var w Watched
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := scanMachine(tx.QueryRow(ctx, sqlMachine, machine), &w.Machine); err != nil {
			return sqlError("reading machine "+machine.String(), err)
		}
		held, err := holding(ctx, tx, machine)
		if err != nil {
			return err
		}
		w.Held = len(held) > 0
		if w.Seen, err = lastSeen(ctx, tx, machine); err != nil {
			return err
		}
		w.Drift, err = openDrift(ctx, tx, machine)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrUnavailable) {
		err = unavailable("reading what is known of a machine", err)
	}
	return w, err
}

func lastSeen(ctx context.Context, tx pgx.Tx, machine uuid.UUID) (*Seen, error) {
	var n Seen
	switch err := scanSeen(tx.QueryRow(ctx, sqlMachineSight, machine), &n); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // never seen is no error
	case err != nil:
		return nil, sqlError("reading what was last seen", err)
	}
	return &n, nil
}

// scanSeen scans the columns of machine_sight.sql, behind those of before.
func scanSeen(row pgx.Row, n *Seen, before ...any) error {
	var staged []byte
	err := row.Scan(append(before, &n.Active, &n.Persistent, &n.ActiveVersion, &n.PersistentVersion, &n.landed, &staged, &n.At, &n.Version, &n.Stage, &n.Type)...)
	if err != nil || staged == nil {
		return err
	}
	if err := json.Unmarshal(staged, &n.Staged); err != nil {
		return fmt.Errorf("reading what is staged: %w", err)
	}
	return nil
}

// Same is true when a sight would find all as it was, so that there is nothing to write down:
// digests, versions, and no drift that is not as it was.
func (w *Watched) Same(o *Sight) bool {
	n := w.Seen
	if n == nil || n.ActiveVersion != o.ActiveVersion || n.PersistentVersion != o.PersistentVersion || n.Active != o.Active || n.Persistent != o.Persistent {
		return false
	}
	if w.Drift == nil {
		return o.Active == w.Machine.ActiveDigest && o.Persistent == w.Machine.PersistentDigest
	}
	return o.Active == w.Drift.FoundActive && o.Persistent == w.Drift.FoundPersistent
}

// RecordSight judges what was seen of a machine and writes down what that means, in one
// transaction. ErrMoved means that it judges nothing (I7): the serial has moved since it was
// noted, or something is under way; look again. Any number of replicas may see the same: who
// comes second finds it written.
func (s *Store) RecordSight(ctx context.Context, o Sight) (SightResult, error) {
	if err := o.validate(s.cfg.Clock()); err != nil {
		return "", err
	}
	var result SightResult
	err := s.inTx(ctx, func(tx pgx.Tx) (written, error) {
		st, err := lockAuthority(ctx, tx, shared, policy.Person{})
		if err != nil {
			return written{}, err
		}
		j := judging{Store: s, tx: tx, st: st, o: &o}
		result, err = j.judge(ctx)
		return written{entry: j.entry, outcome: j.outcome}, err
	})
	return result, knownCommit(err)
}

// judging is one run of RecordSight.
type judging struct {
	*Store
	tx    pgx.Tx
	st    Stamp
	o     *Sight
	m     Machine
	seen  *Seen
	drift *Drift
	// landed is how many attempts had landed by now.
	landed int64
	// bumped is true once the serial was moved.
	bumped bool
	// entry is what was written, and outcome the outcome of an earlier entry; zero when nothing was.
	entry, outcome uuid.UUID
}

func (j *judging) judge(ctx context.Context) (SightResult, error) {
	if err := j.lock(ctx); err != nil {
		return "", err
	}
	o := j.o
	same := o.Active == j.m.ActiveDigest && o.Persistent == j.m.PersistentDigest
	switch {
	case j.m.ActiveDigest != "" && (!sameKey(j.m.ActiveDigest, o.Active) || !sameKey(j.m.PersistentDigest, o.Persistent)):
		// Digests of two keys are never compared: that is no drift, and no sight either.
		return "", fmt.Errorf("%w: what runs on %s was digested with another key than what was applied", ErrInvalid, j.m.Name)
	case j.drift != nil && same:
		if err := j.closeDrift(ctx, j.tx, j.st, &j.m, j.drift, DriftReturned, ChangeID{}, o.Active, o.Persistent); err != nil {
			return "", err
		}
		j.entry, j.bumped = j.drift.ClosedEntryID, true
		if err := supersede(ctx, j.tx, j.m.ID, o.Active, o.Persistent, j.entry, "drift "+j.drift.ID.String()+" is returned"); err != nil {
			return "", err
		}
		return SightReturned, j.note(ctx)
	case j.drift != nil:
		return j.follow(ctx)
	case j.m.ActiveDigest == "":
		return SightBaseline, j.baseline(ctx)
	case same:
		return j.step(ctx)
	}
	if late, err := j.late(ctx); late || err != nil {
		return SightLate, err
	}
	return SightOpened, j.open(ctx)
}

// sameKey is true for two digests of one scheme and key version.
func sameKey(a, b string) bool { return scheme(a) == scheme(b) && scheme(a) != "" }

// lock takes the machine, and refuses what judges nothing (I7). The clock is read after it.
func (j *judging) lock(ctx context.Context) error {
	if err := scanMachine(j.tx.QueryRow(ctx, sqlMachineForUpdate, j.o.MachineID), &j.m); err != nil {
		return sqlError("locking the machine", err)
	}
	held, err := holding(ctx, j.tx, j.m.ID)
	if err != nil {
		return err
	}
	switch {
	case j.o.NotedSerial != j.m.Serial:
		return fmt.Errorf("%w: machine %s is at serial %d, the sight is of %d", ErrMoved, j.m.Name, j.m.Serial, j.o.NotedSerial)
	case len(held) > 0:
		return fmt.Errorf("%w: attempt %s on %s is under way", ErrMoved, held[0].ID, j.m.Name)
	case j.m.Retired != nil:
		return fmt.Errorf("%w: %s", ErrRetired, j.m.Name)
	case !j.m.Pinned() || j.m.Identity != j.o.Identity:
		return &GuardError{Guard: "sights_expected_identity", Message: "the machine that was seen is not the one that is pinned"}
	}
	if j.drift, err = openDrift(ctx, j.tx, j.m.ID); err != nil {
		return err
	}
	if j.seen, err = lastSeen(ctx, j.tx, j.m.ID); err != nil {
		return err
	}
	if err := j.tx.QueryRow(ctx, sqlAttemptsLanded, j.m.ID).Scan(&j.landed); err != nil {
		return sqlError("counting what has landed", err)
	}
	j.st.Now, err = readClock(ctx, j.tx)
	return err
}

// append writes one system entry of this sight, whose before is what was applied last.
func (j *judging) append(ctx context.Context, what, detail string) error {
	return j.appendFrom(ctx, j.m.ActiveDigest, j.m.PersistentDigest, what, detail)
}

// appendFrom is append with another before.
func (j *judging) appendFrom(ctx context.Context, active, persistent, what, detail string) error {
	e, err := j.driftEntry(j.st, &j.m, what, j.o.Active, active, persistent, detail)
	if err != nil {
		return err
	}
	if _, err := audit.Append(ctx, j.tx, e); err != nil {
		return sqlError("appending the entry", err)
	}
	j.entry = e.ID
	return nil
}

// note keeps what was seen as the last sight, and moves the serial: a reading that began before this one was written down is older
// than it, or may be, and judges nothing (I7).
func (j *judging) note(ctx context.Context) error {
	var staged *string
	if j.o.Staged != nil {
		raw, err := json.Marshal(append([]policy.ConfigChange{}, j.o.Staged...))
		if err != nil {
			return fmt.Errorf("writing down what is staged: %w", err)
		}
		text := string(raw)
		staged = &text
	}
	b := &pgx.Batch{}
	b.Queue(sqlMachineSightKeep, j.m.ID, j.o.Active, j.o.Persistent, j.o.ActiveVersion, j.o.PersistentVersion, j.landed, staged, j.st.Now,
		j.o.Version, j.o.Stage, j.o.Type)
	if !j.bumped {
		b.Queue(sqlSerialBump, j.m.ID)
	}
	if err := j.tx.SendBatch(ctx, b).Close(); err != nil {
		return sqlError("keeping what was seen", err)
	}
	return nil
}
