package control

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LastSeen gives what was last seen of each machine that was ever seen.
func (s *Store) LastSeen(ctx context.Context) (map[uuid.UUID]Seen, error) {
	rows, err := s.pool.Query(ctx, sqlMachineSights)
	if err != nil {
		return nil, unavailable("reading what was last seen", err)
	}
	out := map[uuid.UUID]Seen{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id uuid.UUID, err error) {
		var n Seen
		err = scanSeen(row, &n, &id)
		out[id] = n
		return id, err
	})
	if err != nil {
		return nil, unavailable("reading what was last seen", err)
	}
	return out, nil
}

// SawAgain keeps that a machine was read once more and all was as it had been seen (Watched.Same).
// It judges nothing and moves no serial, and writes nothing when something was written down since
// the serial was noted.
func (s *Store) SawAgain(ctx context.Context, o Sight) error {
	if err := o.validate(s.cfg.Clock()); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, sqlMachineSightAgain, o.MachineID, o.Active, o.Persistent, s.cfg.Clock().Sub(o.Began), o.Version, o.Stage, o.Type, o.NotedSerial)
	if err != nil {
		return sqlError("keeping that a machine was seen", err)
	}
	return nil
}

// Latest is what a machine was last known to hold, the later of what was observed and what was
// seen; null when it never was read. It judges nothing.
func (m *Machine) Latest(seen *Seen) *Observed {
	o := m.Observed
	if seen == nil || o != nil && !seen.At.After(o.RecordedAt) {
		return o
	}
	latest := Observed{
		Identity: m.Identity, Version: seen.Version, Stage: seen.Stage, Type: seen.Type, Active: seen.Active, Persistent: seen.Persistent,
		ActiveVersion: seen.ActiveVersion, PersistentVersion: seen.PersistentVersion, BeganAt: seen.At, RecordedAt: seen.At, Serial: m.Serial,
	}
	if seen.Version == "" && o != nil { // seen before that was kept
		latest.Version, latest.Stage, latest.Type = o.Version, o.Stage, o.Type
	}
	return &latest
}
