package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// ReleaseMachine lets go of a machine that a recovery holds. *RecoveryError when it was not observed
// since the recovery was entered, or was another machine than it is pinned to then; ErrConflict when
// it was released before.
func (s *Store) ReleaseMachine(ctx context.Context, name string, act Act) (audit.Receipt, error) {
	return s.act(ctx, shared, act, func(tx pgx.Tx, st Stamp, entry *audit.Entry) error {
		if st.Standing.State != RecoveryEntered {
			return notInRecovery()
		}
		m, err := lockMachine(ctx, tx, name, entry)
		if err != nil {
			return err
		}
		now, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		held, err := heldMachines(ctx, tx, st.Epoch)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(held, func(h HeldMachine) bool { return h.ID == m.ID })
		switch {
		case at < 0:
			return recoveryError("BW-RECOVERY-006", "bronzeward recovery status", "machine %s is not held by this recovery", m.Name)
		case held[at].ReleasedAt != nil:
			return Worded(ErrConflict, "machine %s is released already", m.Name)
		case held[at].ObservedAt == nil:
			return recoveryError("BW-RECOVERY-004", "bronzeward machines observe "+m.Name,
				"machine %s was not observed since recovery was entered: what it runs may be of what was lost", m.Name)
		case !held[at].Matches:
			return recoveryError("BW-RECOVERY-004", "bronzeward machines pin --replace "+m.Name,
				"what was observed of %s is not the machine it is pinned to", m.Name)
		}
		if _, err := tx.Exec(ctx, sqlRecoveryRelease, st.Epoch, m.ID, *held[at].observation, act.By.Issuer, act.By.Subject, entry.ID, now); err != nil {
			return sqlError(fmt.Sprintf("releasing machine %q", clip(name)), err)
		}
		return nil
	})
}

// Exiting is how a recovery is to be ended.
type Exiting struct {
	// RevocationsSettled says that lost revocations need not be made again; it needs a Reason.
	RevocationsSettled bool
	Reason             string
	// Deny is the gateway's deny list.
	Deny []policy.Person
}

// MayExit says what keeps the recovery from being ended, *RecoveryError, or of which epoch it is when
// nothing does. It holds no lock: ExitRecovery asks again.
func (s *Store) MayExit(ctx context.Context, e Exiting) (epoch uuid.UUID, _ error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.watch, opts, func(tx pgx.Tx) (err error) {
		epoch, err = mayExit(ctx, tx, e)
		return err
	})
	return epoch, err
}

func mayExit(ctx context.Context, tx pgx.Tx, e Exiting) (uuid.UUID, error) {
	if !validReason(e.Reason) || e.RevocationsSettled && e.Reason == "" {
		return uuid.Nil, fmt.Errorf("%w: who says that lost revocations need not be made again says why, in at most %d printable bytes", ErrInvalid, maxReason)
	}
	now, err := readStatus(ctx, tx, e.Deny, e.RevocationsSettled)
	if err != nil {
		return uuid.Nil, err
	}
	if now.Standing.State != RecoveryEntered {
		return uuid.Nil, notInRecovery()
	}
	var open []string
	for _, i := range now.Items {
		if i.Open {
			open = append(open, i.Text)
		}
	}
	if len(open) > 0 {
		return uuid.Nil, recoveryError("BW-RECOVERY-005", "bronzeward recovery status", "recovery cannot end yet: %s", strings.Join(open, "; "))
	}
	return now.Epoch, nil
}

// ExitRecovery ends the recovery, when nothing on its checklist is open: *RecoveryError otherwise.
// Every decision that commits after it has returned nil is judged as ever.
func (s *Store) ExitRecovery(ctx context.Context, e Exiting, act Act) (audit.Receipt, error) {
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		// Of what is open nothing can open again but under this lock's other side.
		epoch, err := mayExit(ctx, tx, e)
		if err != nil {
			return err
		}
		now, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		if e.RevocationsSettled {
			entry.Detail = "lost revocations need not be made again: " + e.Reason
		}
		if _, err := tx.Exec(ctx, sqlRecoveryExit, epoch, e.RevocationsSettled, act.By.Issuer, act.By.Subject, e.Reason, entry.ID, now); err != nil {
			return sqlError("ending the recovery", err)
		}
		return nil
	})
}
