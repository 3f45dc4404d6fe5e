package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// ErrRetired means that the machine never comes back; the text says who said so, when and why.
var ErrRetired = errors.New("the machine is retired")

// Retirement is a person's word that a machine never comes back. It is for good.
type Retirement struct {
	By     policy.Person
	Reason string
	// At is the database's clock.
	At      time.Time
	EntryID uuid.UUID
}

// Text says who retired the machine, when and why.
func (r *Retirement) Text() string {
	return fmt.Sprintf("by %s at %s: %s", r.By.Subject, r.At.UTC().Format(time.RFC3339), r.Reason)
}

// Hold gives the retirement as a reason why the machine's scope is closed.
func (r *Retirement) Hold() policy.Hold {
	return policy.Hold{Kind: policy.HoldRetired, ID: r.EntryID.String(), Holder: r.By, Since: r.At, Scope: "machine", Reason: r.Reason}
}

// RetireMachine closes a machine's scope for good: it takes no call, its live changes are
// superseded, and another machine may have its addresses. Its name stays taken, and its history
// stays. Nothing becomes of an unresolved attempt: whether it landed is not known and, as nobody
// can look any more, stays so (I12); it holds nobody else up from then on. An attempt that is
// open is somebody's at work: *BusyError, until it has ended. ErrRetired when it is so already.
func (s *Store) RetireMachine(ctx context.Context, name, reason string, act Act) (Machine, audit.Receipt, error) {
	var retired Machine
	if err := reasonGiven("retiring a machine", reason); err != nil {
		return Machine{}, audit.Receipt{}, err
	}
	receipt, err := s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		m, err := lockMachine(ctx, tx, name, entry)
		if err != nil {
			return err
		}
		held, err := holding(ctx, tx, m.ID)
		if err != nil {
			return err
		}
		for i := range held {
			if held[i].State == StateOpen {
				return fmt.Errorf("retiring %q: %w", m.Name, busyError(&held[i], "machine"))
			}
		}
		if err := overtakeAll(ctx, tx, m.ID, entry.ID, "the machine was retired: "+reason); err != nil {
			return err
		}
		now, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		addresses := make([]netip.Prefix, 0, len(m.Addresses))
		for _, a := range m.Addresses {
			addresses = append(addresses, netip.PrefixFrom(a, a.BitLen()))
		}
		b := &pgx.Batch{}
		b.Queue(sqlRetirementAdd, m.ID, act.By.Issuer, act.By.Subject, reason, addresses, now, entry.ID)
		b.Queue(sqlAddressesRemove, m.ID)
		b.Queue(sqlSerialBump, m.ID)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return sqlError(fmt.Sprintf("retiring %q", m.Name), err)
		}
		retired, err = machineByID(ctx, tx, m.ID)
		return err
	})
	return retired, receipt, err
}

// holding are the attempts that hold a locked machine.
func holding(ctx context.Context, tx pgx.Tx, machine uuid.UUID) ([]Attempt, error) {
	rows, err := tx.Query(ctx, sqlHeldAttempts, machine, false)
	if err != nil {
		return nil, sqlError("reading what holds the machine", err)
	}
	held, err := pgx.CollectRows(rows, collectAttempt)
	if err != nil {
		return nil, sqlError("reading what holds the machine", err)
	}
	return held, nil
}
