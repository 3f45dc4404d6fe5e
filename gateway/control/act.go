package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Stamp is what is read under the authority lock, for the entry of an act.
type Stamp struct {
	AuthorityVersion int64
	Epoch            uuid.UUID
	// Now is the database's clock, read after the last lock.
	Now time.Time
	// LiveRevision is empty when no bundle is live.
	LiveRevision string
	// CallerRevoked is true when the person who acts is revoked.
	CallerRevoked bool
}

// Act is who does something to intent, and how it is written down.
type Act struct {
	// By is the person who acts; the zero value is the gateway itself.
	By policy.Person
	// Entry builds the audit entry under the locks. It is pure, may be called again when a
	// transaction lost a race, and may judge: when the verdict is not Allowed, the entry is
	// recorded, nothing else is done, and the act gives *RefusedError.
	Entry func(Stamp) audit.Entry
}

// authority says which side of the lock an act takes.
type authority bool

const (
	shared    authority = false // adds to what is known
	exclusive authority = true  // takes authority away, or changes what decisions depend on
)

// act runs one act: authority lock, version (moved by one when exclusive), clock, entry, do,
// append, commit. An exclusive act that has returned nil is seen by every later decision.
// do may take machine, change and cluster locks, in that order; its error rolls back all.
func (s *Store) act(ctx context.Context, side authority, act Act, do func(tx pgx.Tx, st Stamp, entry *audit.Entry) error) (audit.Receipt, error) {
	if act.Entry == nil {
		return audit.Receipt{}, errors.New("an act without an entry is not done")
	}
	var (
		receipt audit.Receipt
		refused bool
	)
	err := s.inTx(ctx, func(tx pgx.Tx) (written, error) {
		refused = false
		st, err := lockAuthority(ctx, tx, side, act.By)
		if err != nil {
			return written{}, err
		}
		entry := act.Entry(st)
		if err := s.stampEntry(&entry, st); err != nil {
			return written{}, err
		}
		if entry.Verdict != audit.Allowed {
			refused = true
		} else if st.CallerRevoked {
			return written{}, &GuardError{Guard: "caller_not_revoked", Message: "the caller is revoked"}
		} else {
			if side == exclusive {
				b := &pgx.Batch{}
				b.Queue(sqlBumpAuthority).QueryRow(func(row pgx.Row) error { return row.Scan(&st.AuthorityVersion) })
				b.Queue(sqlNotify)
				if err := tx.SendBatch(ctx, b).Close(); err != nil {
					return written{}, sqlError("moving the authority version", err)
				}
				entry.AuthorityVersion = st.AuthorityVersion
			}
			if err := do(tx, st, &entry); err != nil {
				return written{}, err
			}
		}
		receipt, err = audit.Append(ctx, tx, entry)
		if err != nil {
			return written{}, sqlError("appending the entry", err)
		}
		return written{entry: entry.ID}, nil
	})
	if err := knownCommit(err); err != nil {
		return audit.Receipt{}, err
	}
	if refused {
		return receipt, &RefusedError{EntryID: receipt.ID}
	}
	if side == exclusive {
		s.hint()
	}
	return receipt, nil
}

// lockAuthority is the head of every transaction here: the lock, then the version in the
// next statement, then the clock.
func lockAuthority(ctx context.Context, tx pgx.Tx, side authority, by policy.Person) (Stamp, error) {
	lock := sqlLockShared
	if side == exclusive {
		lock = sqlLockExclusive
	}
	var st Stamp
	b := &pgx.Batch{}
	b.Queue(lock)
	b.Queue(sqlStamp, by.Issuer, by.Subject).QueryRow(func(row pgx.Row) error {
		return row.Scan(&st.AuthorityVersion, &st.Epoch, &st.LiveRevision, &st.CallerRevoked, &st.Now)
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return Stamp{}, sqlError("taking the authority lock", err)
	}
	return st, nil
}

// stampEntry fills what only the transaction knows.
func (s *Store) stampEntry(e *audit.Entry, st Stamp) error {
	if e.ID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("making an entry id: %w", err)
		}
		e.ID = id
	}
	if e.Count == 0 {
		e.Count = 1
	}
	e.AuthorityVersion, e.Epoch, e.At, e.Instance = st.AuthorityVersion, st.Epoch, st.Now, s.cfg.Instance
	return nil
}
