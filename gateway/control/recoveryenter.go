package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Entering is a recovery that is to be entered.
type Entering struct {
	// Epoch is the one that begins, and Origin what the checkpoints of its tree begin with.
	Epoch  uuid.UUID
	Origin string
	// OldSize and OldRoot are the last head that the anchor remembers of the epoch that ends; what was
	// found has its own and is taken instead.
	OldSize int64
	OldRoot string
	// Reason is why, in a sentence; required.
	Reason string
}

// Recovery is one that was entered. Times are the database's.
type Recovery struct {
	Epoch, OldEpoch uuid.UUID
	// Found is why: what had been found, State RecoveryNone when nothing had.
	Found
	ApprovalsVoided, ChangesEnded int64
	By                            policy.Person
	Reason                        string
	EntryID                       uuid.UUID
	EnteredAt                     time.Time
	ExitedAt                      *time.Time
	// Revoked is how many identities are revoked now.
	Revoked int64
}

// abandoned is what the attempts and changes of an ended epoch say.
const abandoned = "its epoch ended: recovery was entered"

// EnterRecovery ends the epoch: another one begins, with a tree whose first leaf is the entry of this
// act; live changes end, and with them no approval counts any more; open attempts become unresolved;
// every machine is held until it was observed and released. All of it is one transaction, and once it
// has returned nil, every decision that commits, on every replica, has seen it. ErrConflict when a
// recovery is under way and nothing was found wrong since.
//
// The machines' locks are taken of all of them: nothing else is decided meanwhile.
func (s *Store) EnterRecovery(ctx context.Context, e Entering, act Act) (Recovery, error) {
	if e.Epoch == uuid.Nil || e.Origin == "" || e.Reason == "" || !validReason(e.Reason) {
		return Recovery{}, fmt.Errorf("%w: entering recovery needs a reason of at most %d printable bytes", ErrInvalid, maxReason)
	}
	var out Recovery
	act.after = func(tx pgx.Tx, first uuid.UUID) error { return audit.BeginTree(ctx, tx, e.Epoch, e.Origin, first) }
	_, err := s.act(ctx, exclusive, act, func(tx pgx.Tx, st Stamp, entry *audit.Entry) error {
		if st.Standing.State == RecoveryEntered {
			return fmt.Errorf("entering recovery: %w: a recovery is under way", ErrConflict)
		}
		out = Recovery{Epoch: e.Epoch, OldEpoch: st.Epoch, By: act.By, Reason: e.Reason, EntryID: entry.ID}
		if err := s.endEpoch(ctx, tx, act.By, entry.ID, &out); err != nil {
			return err
		}
		if out.State == RecoveryNone || out.OldSize == 0 {
			out.OldSize, out.OldRoot = e.OldSize, e.OldRoot
		}
		// The entry is of the epoch that begins, and says what it goes on from.
		entry.Epoch, entry.Detail = e.Epoch, out.detail()
		if _, err := tx.Exec(ctx, sqlRecoveryEnter, out.Epoch, out.OldEpoch, out.OldSize, out.OldRoot, string(out.State), out.LostRows,
			out.LostFrom, out.LostUntil, out.LostRevocations, out.Revocations, out.ApprovalsVoided, out.ChangesEnded,
			act.By.Issuer, act.By.Subject, e.Reason, entry.ID, out.EnteredAt); err != nil {
			return sqlError("entering recovery", err)
		}
		if _, err := tx.Exec(ctx, sqlEpochMove, out.Epoch, out.EnteredAt); err != nil {
			return sqlError("moving the epoch", err)
		}
		// A crash after the commit leaves a house in recovery whose anchor does not say so yet: entering
		// again says it.
		if _, err := tx.Exec(ctx, sqlRecoveryUnmark, out.State == RecoveryOlderOpenBao); err != nil {
			return sqlError("taking the mark off", err)
		}
		act.Once.came(out)
		return nil
	})
	return out, err
}

// endEpoch locks everything that is live, and ends it.
func (s *Store) endEpoch(ctx context.Context, tx pgx.Tx, by policy.Person, entry uuid.UUID, out *Recovery) (err error) {
	for _, lock := range []string{sqlMachinesLockAll, sqlChangesLockAllLive} {
		if _, err := tx.Exec(ctx, lock); err != nil {
			return sqlError("locking what is live", err)
		}
	}
	if out.EnteredAt, err = readClock(ctx, tx); err != nil {
		return err
	}
	if out.Found, _, out.Revoked, err = readFound(ctx, tx); err != nil {
		return err
	}
	if out.State == RecoveryNone {
		out.Revocations = out.Revoked
	}
	if err := tx.QueryRow(ctx, sqlApprovalsUnspent).Scan(&out.ApprovalsVoided); err != nil {
		return sqlError("counting approvals", err)
	}
	live, err := readChanges(ctx, tx, "reading the live changes", sqlChangesAllLive)
	if err != nil {
		return err
	}
	out.ChangesEnded = int64(len(live))
	for i := range live {
		if err := live[i].become(ctx, tx, out.EnteredAt, step{to: ChangeExpired, by: by, reason: abandoned, entry: entry}); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, sqlAttemptsOpen)
	if err != nil {
		return sqlError("reading the open attempts", err)
	}
	open, err := pgx.CollectRows(rows, collectAttempt)
	if err != nil {
		return sqlError("reading the open attempts", err)
	}
	for i := range open {
		a := &open[i]
		if _, err := tx.Exec(ctx, sqlAttemptAbandon, a.ID, abandoned, s.cfg.Instance, out.EnteredAt); err != nil {
			return sqlError("leaving an attempt unresolved", err)
		}
		if _, err := s.finish(ctx, tx, a, StateUnresolved, "", "", abandoned, nil); err != nil {
			return err
		}
	}
	return nil
}

// detail is what the first entry of the new tree says of the old one.
func (r *Recovery) detail() string {
	text := fmt.Sprintf("epoch %s ended, with a head of %s", r.OldEpoch, number(r.OldSize, "leaf", "leaves"))
	if r.OldRoot != "" {
		text += " and root " + r.OldRoot
	}
	if r.Message != "" {
		text += "; " + r.Message
	}
	return text + "; reason: " + r.Reason
}

// LatestRecovery is the recovery that the epoch in force began with, ended or not; ErrNotFound when
// it began with the installation.
func (s *Store) LatestRecovery(ctx context.Context) (Recovery, error) {
	return latestRecovery(ctx, s.watch)
}

func latestRecovery(ctx context.Context, q querier) (Recovery, error) {
	var r Recovery
	var state string
	err := q.QueryRow(ctx, sqlRecoveryLatest).Scan(&r.Epoch, &r.OldEpoch, &r.OldSize, &r.OldRoot, &state, &r.LostRows, &r.LostFrom, &r.LostUntil,
		&r.LostRevocations, &r.Revocations, &r.ApprovalsVoided, &r.ChangesEnded, &r.By.Issuer, &r.By.Subject, &r.Reason, &r.EntryID,
		&r.EnteredAt, &r.ExitedAt, &r.Revoked)
	r.State = RecoveryState(state)
	if err != nil {
		return Recovery{}, sqlError("reading the recovery", err)
	}
	return r, nil
}
