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

// The kinds of a change.
const (
	KindApply  = "apply"
	KindRevert = "revert" // back to what was applied last; sent like any other
	KindAdopt  = "adopt"  // what was found is taken as applied; nothing is sent
)

// DriftState is what a Drift is in.
type DriftState string

// The states of a drift. Open holds the machine; the others are final.
const (
	DriftOpen     DriftState = "open"
	DriftAdopted  DriftState = "adopted"  // a change took what was found as applied
	DriftReverted DriftState = "reverted" // a change brought back what was applied
	DriftReturned DriftState = "returned" // the machine runs what was applied again, by somebody's hand
)

// DriftStates are all of them.
func DriftStates() []DriftState {
	return []DriftState{DriftOpen, DriftAdopted, DriftReverted, DriftReturned}
}

// MayBecome is the transition table; control.drift_may_become is the same one in the database.
func (s DriftState) MayBecome(next DriftState) bool {
	return s == DriftOpen && (next == DriftAdopted || next == DriftReverted || next == DriftReturned)
}

// Drift says that a machine's configuration is not the last one known as applied, and that no
// attempt explains it. Times are the database's.
type Drift struct {
	ID          DriftID
	MachineID   uuid.UUID
	MachineName string
	Cluster     string
	State       DriftState
	// Since is when it was found.
	Since time.Time
	// AppliedActive and AppliedPersistent are the digests last known as applied, the Found ones
	// those of what is there instead, as last seen while it was open. Closed are what the machine
	// held when it was closed; empty while it is open.
	AppliedActive, AppliedPersistent string
	FoundActive, FoundPersistent     string
	ClosedActive, ClosedPersistent   string
	// Before are the "created/version" pairs as last seen without a drift, empty when never;
	// Version are those of what was found.
	BeforeActive, BeforePersistent   string
	ActiveVersion, PersistentVersion string
	// Changes are the differences from what was applied to what was found, without a secret.
	// Known is false when what was applied could not be compared with.
	Changes []policy.ConfigChange
	Known   bool
	// EntryID opened it; ClosedEntryID closed it.
	EntryID       uuid.UUID
	ClosedAt      *time.Time
	ClosedEntryID uuid.UUID
	// ChangeID adopted or reverted it; zero else.
	ChangeID ChangeID
}

// Hold is the open drift as a reason why its machine is held.
func (d *Drift) Hold() policy.Hold {
	return policy.Hold{Kind: policy.HoldDrift, ID: d.ID.String(), Since: d.Since, Scope: "machine"}
}

// Staged is true when the machine was found with another configuration on its disk than the
// one it runs.
func (d *Drift) Staged() bool { return d.FoundActive != d.FoundPersistent }

func scanDrift(row pgx.CollectableRow) (Drift, error) {
	var d Drift
	var closed, change *uuid.UUID
	var changes []byte
	err := row.Scan((*uuid.UUID)(&d.ID), &d.MachineID, &d.MachineName, &d.Cluster, &d.State, &d.Since, &d.AppliedActive, &d.AppliedPersistent,
		&d.FoundActive, &d.FoundPersistent, &d.BeforeActive, &d.BeforePersistent, &d.ActiveVersion, &d.PersistentVersion,
		&changes, &d.Known, &d.EntryID, &d.ClosedAt, &closed, &change, &d.ClosedActive, &d.ClosedPersistent)
	if err != nil {
		return d, err
	}
	if closed != nil {
		d.ClosedEntryID = *closed
	}
	if change != nil {
		d.ChangeID = ChangeID(*change)
	}
	if err := json.Unmarshal(changes, &d.Changes); err != nil {
		return d, fmt.Errorf("reading the differences of a drift: %w", err)
	}
	return d, nil
}

// openDrift is the open drift of a machine; null when there is none. It is read under the
// machine's lock by whoever goes by it.
func openDrift(ctx context.Context, q querier, machine uuid.UUID) (*Drift, error) {
	rows, err := q.Query(ctx, sqlDriftOpen, machine)
	if err != nil {
		return nil, sqlError("reading the open drift", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDrift)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no drift is no error
	}
	if err != nil {
		return nil, sqlError("reading the open drift", err)
	}
	return &d, nil
}

// driftEntry is what the book says of a drift by itself: a system entry, which nobody asked for.
// active is what runs; the others are what ran and was on its disk before.
func (s *Store) driftEntry(st Stamp, m *Machine, what, active, beforeActive, beforePersistent, detail string) (audit.Entry, error) {
	e := audit.Entry{
		Kind: audit.KindSystem, Verdict: audit.Allowed, Method: what, Class: "drift", MachineID: m.ID, MachineName: m.Name, Cluster: m.Cluster,
		NodeID: m.NodeID, Digest: active, Base: beforeActive, Persistent: beforePersistent, PolicyRevision: st.LiveRevision, Detail: detail,
	}
	return e, s.stampEntry(&e, st)
}

// The system entries about drift, as Method.
const (
	entryDriftOpened = "drift.opened"
	entryDriftMoved  = "drift.moved"
	entryDriftClosed = "drift.closed"
	// entryStep is a step of a resource that changed no digest and that no attempt explains.
	entryStep     = "drift.step"
	entryBaseline = "drift.baseline"
)

// close ends an open drift of a locked machine with its own entry, and moves the serial; active
// and persistent are what the machine holds.
func (s *Store) closeDrift(ctx context.Context, tx pgx.Tx, st Stamp, m *Machine, d *Drift, to DriftState, change ChangeID, active, persistent string) error {
	if !d.State.MayBecome(to) {
		return &GuardError{Guard: "drifts_step", Message: fmt.Sprintf("a drift that is %s does not become %s", d.State, to)}
	}
	how := map[DriftState]string{
		DriftAdopted:  "adopted by change " + change.String() + ": what was found is taken as applied",
		DriftReverted: "reverted by change " + change.String() + ": the machine runs what was applied before",
		DriftReturned: "returned: the machine runs what was applied again, and no change did it",
	}[to]
	e, err := s.driftEntry(st, m, entryDriftClosed, active, d.FoundActive, d.FoundPersistent, "drift "+d.ID.String()+" "+how)
	if err != nil {
		return err
	}
	e.ChangeID = change.String()
	if _, err := audit.Append(ctx, tx, e); err != nil {
		return sqlError("appending the entry", err)
	}
	tag, err := tx.Exec(ctx, sqlDriftClose, uuid.UUID(d.ID), string(to), active, persistent, st.Now, e.ID, orNull(uuid.UUID(change)))
	if err != nil {
		return sqlError("closing drift "+d.ID.String(), err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%w: drift %s is not open any more", ErrMoved, d.ID)
	}
	if _, err := tx.Exec(ctx, sqlSerialBump, m.ID); err != nil {
		return sqlError("moving the serial", err)
	}
	// What else would have settled it can never run any more.
	err = endLive(ctx, tx, m.ID, e.ID, func(c *Change) (reason, base string) {
		if c.Drift == d.ID && c.ID != change {
			return "drift " + d.ID.String() + " is " + string(to), ""
		}
		return "", ""
	})
	if err != nil {
		return err
	}
	d.State, d.ClosedAt, d.ClosedEntryID, d.ChangeID = to, &st.Now, e.ID, change
	d.ClosedActive, d.ClosedPersistent = active, persistent
	return nil
}
