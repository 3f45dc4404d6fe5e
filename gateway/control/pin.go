package control

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// PinMachine fixes the identity to the row. Once pinned it stays: another identity needs
// repin, which the caller grants to whom it may, and which is refused while an attempt on
// the machine may still land (*BusyError).
func (s *Store) PinMachine(ctx context.Context, name string, id Identity, repin bool, act Act) (audit.Receipt, error) {
	return s.PinObserved(ctx, name, Observation{Identity: id}, repin, act)
}

// PinObserved is PinMachine to the identity that was observed. Where nothing is known as applied
// yet, the configuration that was observed is what the machine is held against from then on,
// provided that the observation is current (I7). A re-pin takes nothing as applied: what a
// replaced node runs instead is a drift.
func (s *Store) PinObserved(ctx context.Context, name string, o Observation, repin bool, act Act) (audit.Receipt, error) {
	id := o.Identity
	if id.NodeID == "" || id.ClusterID == "" || !printable(id.NodeID+id.ClusterID+id.SMBIOS) ||
		len(id.NodeID) > 256 || len(id.ClusterID) > 256 || len(id.SMBIOS) > 256 {
		return audit.Receipt{}, fmt.Errorf("%w: an identity has a node id and a cluster id, each at most 256 printable bytes", ErrInvalid)
	}
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		m, err := lockMachine(ctx, tx, name, entry)
		if err != nil {
			return err
		}
		if m.Pinned() && m.Identity != id && !repin {
			return fmt.Errorf("pinning %q: %w: it is pinned to node id %s; another identity needs a re-pin", name, ErrConflict, m.NodeID)
		}
		held, err := holding(ctx, tx, m.ID)
		if err != nil {
			return err
		}
		if len(held) > 0 {
			return busyError(&held[0], "machine")
		}
		entry.NodeID = id.NodeID
		if _, err := tx.Exec(ctx, sqlMachinePin, m.ID, id.NodeID, id.ClusterID, id.SMBIOS); err != nil {
			return sqlError(fmt.Sprintf("pinning %q", name), err)
		}
		if m.ActiveDigest == "" && o.NotedSerial == m.Serial && o.Active != "" && o.Persistent != "" {
			if err := takeAsApplied(ctx, tx, m.ID, o.Active, o.Persistent); err != nil {
				return err
			}
			entry.Digest, entry.Persistent = o.Active, o.Persistent
		}
		if m.Pinned() && m.Identity != id {
			return overtakeAll(ctx, tx, m.ID, entry.ID, "the machine was pinned to another identity")
		}
		return nil
	})
}
