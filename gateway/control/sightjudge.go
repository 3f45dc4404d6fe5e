package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// baseline takes what is seen as applied where nothing is known as applied: a machine that no
// apply has reached yet does not drift from anything.
func (j *judging) baseline(ctx context.Context) error {
	if err := j.append(ctx, entryBaseline, "nothing was applied to it yet; from now on this is what it is held against"); err != nil {
		return err
	}
	if err := takeAsApplied(ctx, j.tx, j.m.ID, j.o.Active, j.o.Persistent); err != nil {
		return err
	}
	j.bumped = true
	return j.note(ctx)
}

// takeAsApplied keeps the digests as the machine's last applied ones, and moves its serial.
func takeAsApplied(ctx context.Context, tx pgx.Tx, machine uuid.UUID, active, persistent string) error {
	b := &pgx.Batch{}
	queueApplied(b, machine, active, persistent)
	b.Queue(sqlSerialBump, machine)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return sqlError("keeping the digests last applied", err)
	}
	return nil
}

// queueApplied queues what a machine holds as what was applied last, and as what was last read of it.
func queueApplied(b *pgx.Batch, machine uuid.UUID, active, persistent string) {
	b.Queue(sqlMachineApplied, machine, active, persistent)
	b.Queue(sqlMachineSightRead, machine, active, persistent)
}

// step notes a sight that shows what was applied. A version that went further than what has
// landed since explains is written down; it holds nothing.
func (j *judging) step(ctx context.Context) (SightResult, error) {
	if j.seen == nil {
		return SightNoted, j.note(ctx)
	}
	if j.seen.ActiveVersion == j.o.ActiveVersion && j.seen.PersistentVersion == j.o.PersistentVersion &&
		j.seen.Active == j.o.Active && j.seen.Persistent == j.o.Persistent {
		return SightNothing, nil
	}
	landed := j.landed - j.seen.landed
	a, b := stepsBetween(j.seen.ActiveVersion, j.o.ActiveVersion), stepsBetween(j.seen.PersistentVersion, j.o.PersistentVersion)
	if a <= landed && b <= landed {
		return SightNoted, j.note(ctx)
	}
	if err := j.append(ctx, entryStep, fmt.Sprintf("active went from %s to %s and persistent from %s to %s, applies that explain it: %d, and the configuration is the same",
		j.seen.ActiveVersion, j.o.ActiveVersion, j.seen.PersistentVersion, j.o.PersistentVersion, landed)); err != nil {
		return "", err
	}
	if err := j.observed(ctx); err != nil {
		return "", err
	}
	return SightStep, j.note(ctx)
}

// stepsBetween is how many steps a resource went between two "created/version" pairs. Versions
// start again with each boot, so over a boot, or where they cannot be read, there are none.
func stepsBetween(before, after string) int64 {
	bornBefore, b, okBefore := versionOf(before)
	bornAfter, a, okAfter := versionOf(after)
	if !okBefore || !okAfter || bornBefore != bornAfter {
		return 0
	}
	return a - b
}

func versionOf(pair string) (created string, version int64, ok bool) {
	at := strings.LastIndex(pair, "/")
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(pair[at+1:], 10, 64)
	return pair[:at], n, err == nil
}

// observed keeps the sight as an observation of the entry.
func (j *judging) observed(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("making an observation id: %w", err)
	}
	o := j.o
	if _, err := j.tx.Exec(ctx, sqlObservationAdd, id, j.m.ID, j.entry, j.m.Serial, j.cfg.Clock().Sub(o.Began),
		o.NodeID, o.ClusterID, o.SMBIOS, o.Version, o.Stage, o.Type, o.Active, o.Persistent, o.ActiveVersion, o.PersistentVersion); err != nil {
		return sqlError("recording the sight", err)
	}
	return nil
}

// late lets an attempt explain itself that a person had accounted for before it landed.
func (j *judging) late(ctx context.Context) (bool, error) {
	a, err := explaining(ctx, j.tx, j.m.ID, j.o.Active)
	if err != nil || a == nil || !a.mayLandLate(j.st.Now) || !a.explains(&j.m, j.o.Active, j.o.Persistent) {
		return false, err
	}
	if j.outcome, err = j.landLate(ctx, j.tx, a, j.st.Now, j.o.Active, j.o.Persistent, audit.Outcome{}); err != nil {
		return false, err
	}
	j.entry, j.bumped = a.EntryID, true
	return true, j.note(ctx)
}

// open writes down a drift: its entry, its row, the machine's serial, the end of the changes
// that were proposed against something else. One that is open already has been read under the
// same lock, and the unique index holds it besides.
func (j *judging) open(ctx context.Context) error {
	raw, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("making a drift id: %w", err)
	}
	id := DriftID(raw)
	if err := j.append(ctx, entryDriftOpened, "drift "+id.String()+": it runs "+j.o.Active+", on its disk is "+j.o.Persistent+"; last applied was "+
		j.m.ActiveDigest+", on its disk "+j.m.PersistentDigest); err != nil {
		return err
	}
	changes, err := changesJSON(j.o.Changes)
	if err != nil {
		return err
	}
	var before Seen
	if j.seen != nil {
		before = *j.seen
	}
	if _, err := j.tx.Exec(ctx, sqlDriftAdd, raw, j.m.ID, j.m.Cluster, j.st.Now, j.m.ActiveDigest, j.m.PersistentDigest, j.o.Active, j.o.Persistent,
		before.ActiveVersion, before.PersistentVersion, j.o.ActiveVersion, j.o.PersistentVersion, changes, j.o.Known, j.entry); err != nil {
		return sqlError("opening a drift", err)
	}
	if _, err := j.tx.Exec(ctx, sqlSerialBump, j.m.ID); err != nil {
		return sqlError("moving the serial", err)
	}
	j.bumped = true
	if err := j.observed(ctx); err != nil {
		return err
	}
	if err := supersede(ctx, j.tx, j.m.ID, j.o.Active, j.o.Persistent, j.entry, "drift "+id.String()); err != nil {
		return err
	}
	return j.note(ctx)
}

// follow keeps an open drift as the machine is now.
func (j *judging) follow(ctx context.Context) (SightResult, error) {
	d, o := j.drift, j.o
	if d.FoundActive == o.Active && d.FoundPersistent == o.Persistent {
		if j.seen != nil && j.seen.ActiveVersion == o.ActiveVersion && j.seen.PersistentVersion == o.PersistentVersion {
			return SightNothing, nil
		}
		return SightNoted, j.note(ctx)
	}
	if err := j.appendFrom(ctx, d.FoundActive, d.FoundPersistent, entryDriftMoved, "drift "+d.ID.String()+": it runs "+o.Active+" by now, on its disk is "+o.Persistent); err != nil {
		return "", err
	}
	changes, err := changesJSON(o.Changes)
	if err != nil {
		return "", err
	}
	if _, err := j.tx.Exec(ctx, sqlDriftFound, uuid.UUID(d.ID), o.Active, o.Persistent, o.ActiveVersion, o.PersistentVersion, changes, o.Known); err != nil {
		return "", sqlError("following drift "+d.ID.String(), err)
	}
	if err := j.observed(ctx); err != nil {
		return "", err
	}
	if err := supersede(ctx, j.tx, j.m.ID, o.Active, o.Persistent, j.entry, "drift "+d.ID.String()); err != nil {
		return "", err
	}
	return SightMoved, j.note(ctx)
}

func changesJSON(changes []policy.ConfigChange) (string, error) {
	raw, err := json.Marshal(append([]policy.ConfigChange{}, changes...))
	if err != nil {
		return "", fmt.Errorf("writing down what has changed: %w", err)
	}
	return string(raw), nil
}

// validate refuses what no machine says.
func (o *Sight) validate(now time.Time) error {
	if o.NotedSerial == 0 || o.Active == "" || o.Persistent == "" {
		return fmt.Errorf("%w: a sight has the serial from before it, and both digests", ErrInvalid)
	}
	return o.Observation.check(now)
}
