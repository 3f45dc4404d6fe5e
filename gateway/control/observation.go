package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// Observation is a read of a machine outside a call, to be recorded.
type Observation struct {
	// Began is this process's clock (time.Now, with its monotonic reading) from before the
	// first read. Only how long ago that was is used.
	Began time.Time
	// NotedSerial is the machine's serial from before the first read; zero when it was not
	// noted, and then the reading ends no change (I7).
	NotedSerial int64
	Identity
	// Version is the running Talos version; Stage the machine's stage; Type its live type.
	Version string
	Stage   string
	Type    string
	// Active and Persistent are configuration digests; the versions "created/version" pairs.
	Active            string
	Persistent        string
	ActiveVersion     string
	PersistentVersion string
}

// Observed is a recorded observation; times are the database's.
type Observed struct {
	Identity
	Version           string
	Stage             string
	Type              string
	Active            string
	Persistent        string
	ActiveVersion     string
	PersistentVersion string
	// BeganAt is when the reading began, RecordedAt when the row was written.
	BeganAt    time.Time
	RecordedAt time.Time
	// Serial is the machine's when it was recorded.
	Serial int64
}

// RecordObservation keeps what was read from the machine. It changes nothing a decision
// depends on, and pins nothing.
func (s *Store) RecordObservation(ctx context.Context, name string, o Observation, act Act) (audit.Receipt, error) {
	if err := o.check(s.cfg.Clock()); err != nil {
		return audit.Receipt{}, err
	}
	return s.act(ctx, shared, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		m, err := lockMachine(ctx, tx, name, entry)
		if err != nil {
			return err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("making an observation id: %w", err)
		}
		entry.NodeID, entry.Base, entry.Persistent = o.NodeID, o.Active, o.Persistent
		// The machine's lock may have taken a while: how long ago it began is asked for now.
		_, err = tx.Exec(ctx, sqlObservationAdd, id, m.ID, entry.ID, m.Serial, s.cfg.Clock().Sub(o.Began),
			o.NodeID, o.ClusterID, o.SMBIOS, o.Version, o.Stage, o.Type, o.Active, o.Persistent,
			o.ActiveVersion, o.PersistentVersion)
		if err != nil {
			return sqlError(fmt.Sprintf("recording the observation of %q", name), err)
		}
		return s.afterObservation(ctx, tx, &m, o, entry.ID)
	})
}

// check refuses what no machine says. now is this process's clock.
func (o *Observation) check(now time.Time) error {
	if took := now.Sub(o.Began); o.Began.IsZero() || took < 0 || took > time.Hour {
		return fmt.Errorf("%w: an observation says when it began, within the last hour", ErrInvalid)
	}
	for _, text := range []string{
		o.NodeID, o.ClusterID, o.SMBIOS, o.Version, o.Stage, o.Type, o.Active, o.Persistent, o.ActiveVersion, o.PersistentVersion,
	} {
		// They are a machine's words: a stranger's.
		if len(text) > 256 || !printable(text) {
			return fmt.Errorf("%w: an observation has texts of at most 256 printable bytes", ErrInvalid)
		}
	}
	return nil
}

// afterObservation recognises a late landing in what was seen, and ends changes that were
// proposed against something else. What was seen counts only when nothing has moved since before it was read, and nothing is under
// way (I7).
func (s *Store) afterObservation(ctx context.Context, tx pgx.Tx, m *Machine, o Observation, entry uuid.UUID) error {
	if o.NotedSerial == 0 || o.NotedSerial != m.Serial || o.Identity != m.Identity {
		return nil
	}
	held, err := holding(ctx, tx, m.ID)
	if err != nil || len(held) > 0 {
		return err
	}
	if err := s.lateOf(ctx, tx, m, o.Active, o.Persistent); err != nil {
		return err
	}
	return supersede(ctx, tx, m.ID, o.Active, o.Persistent, entry, "")
}
