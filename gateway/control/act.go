package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Standing is whether the house is in recovery.
	Standing Standing
	// Change is the locked change an act is about; null for all other acts.
	Change *Change
	// Repeated is true when the request came before with its Idempotency-Key: nothing is done again.
	Repeated bool
	// Law is what an activation is judged by; zero for all other acts.
	Law LawStamp
}

// Act is who does something to intent, and how it is written down.
type Act struct {
	// By is the person who acts; the zero value is the gateway itself.
	By policy.Person
	// Entry builds the audit entry under the locks. It is pure, may be called again when a
	// transaction lost a race, and may judge: when the verdict is not Allowed, the entry is
	// recorded, nothing else is done, and the act gives *RefusedError.
	// An act about several changes has an entry for each.
	Entry func(Stamp) audit.Entry
	// Once is set when the request carries an Idempotency-Key.
	Once *Once
	// Wrote, where it is set, is told the receipts of the entries once they are durable, in the
	// order of the changes, before the act returns.
	Wrote func([]audit.Receipt)

	// changes are those the act is about; their machines and they are locked before the clock is read.
	changes []ChangeID
	// law is the revision that the act makes live; empty for all other acts.
	law string
	// repeated becomes Stamp.Repeated.
	repeated bool
	// after runs when the entry, whose id it gets, has been appended, before the commit; null does nothing.
	after func(tx pgx.Tx, entry uuid.UUID) error
}

// authority says which side of the lock an act takes.
type authority bool

const (
	shared    authority = false // adds to what is known
	exclusive authority = true  // takes authority away, or changes what decisions depend on
)

// doing is an act under its locks.
type doing struct {
	Stamp
	// changes are the locked ones, in the order they were named, and entries the decision
	// about each; an act about no change has one entry.
	changes []Change
	entries []audit.Entry
}

// act runs one act that is about no change; see actOn.
func (s *Store) act(ctx context.Context, side authority, act Act, do func(tx pgx.Tx, st Stamp, entry *audit.Entry) error) (audit.Receipt, error) {
	return s.actOn(ctx, side, act, func(tx pgx.Tx, d *doing) error { return do(tx, d.Stamp, &d.entries[0]) })
}

// actOn runs one act: idempotency key, authority lock, version (moved by one when exclusive),
// changes, clock, entries, do, append, commit. An exclusive act that has returned nil is seen
// by every later decision. do may take machine, change and cluster locks, in that order, when
// the act is about no change; its error rolls back all.
func (s *Store) actOn(ctx context.Context, side authority, act Act, do func(tx pgx.Tx, d *doing) error) (audit.Receipt, error) {
	if act.Entry == nil {
		return audit.Receipt{}, errors.New("an act without an entry is not done")
	}
	var (
		receipts []audit.Receipt // of the entries, in their order
		refused  bool
	)
	pool := s.pool
	if side == exclusive {
		pool = s.urgent
	}
	err := s.inTxOf(ctx, pool, func(tx pgx.Tx) (written, error) {
		refused = false
		before, err := takeOnce(ctx, tx, act.By, act.Once)
		if err != nil {
			return written{}, err
		}
		act.repeated = before != nil
		d, err := s.lockForAct(ctx, tx, side, act)
		if err != nil {
			return written{}, err
		}
		no := slices.IndexFunc(d.entries, func(e audit.Entry) bool { return e.Verdict != audit.Allowed })
		if before != nil && no < 0 && !d.CallerRevoked {
			return written{}, before
		}
		if no >= 0 {
			refused = true
			d.entries = d.entries[no : no+1]
			if before == nil { // what a revoked person did earlier stays kept
				err = forgetOnce(ctx, tx, act.By, act.Once)
			}
		} else {
			err = s.carryOutAct(ctx, tx, side, act, d, do)
		}
		if err != nil {
			return written{}, err
		}
		receipts = make([]audit.Receipt, len(d.entries))
		for i := len(d.entries) - 1; i >= 0; i-- {
			if receipts[i], err = audit.Append(ctx, tx, d.entries[i]); err != nil {
				return written{}, sqlError("appending the entry", err)
			}
		}
		if act.after != nil && !refused {
			if err := act.after(tx, receipts[0].ID); err != nil {
				return written{}, sqlError("beginning the epoch", err)
			}
		}
		return written{entry: receipts[0].ID}, nil
	})
	if err := knownCommit(err); err != nil {
		return audit.Receipt{}, err
	}
	if act.Wrote != nil {
		act.Wrote(receipts)
	}
	if refused {
		return receipts[0], &RefusedError{Receipt: receipts[0]}
	}
	if side == exclusive {
		s.hint()
	}
	return receipts[0], nil
}

// carryOutAct moves the authority version, does the act and keeps the answer of its key.
func (s *Store) carryOutAct(ctx context.Context, tx pgx.Tx, side authority, act Act, d *doing, do func(tx pgx.Tx, d *doing) error) error {
	if d.CallerRevoked {
		return &GuardError{Guard: "caller_not_revoked", Message: "the caller is revoked"}
	}
	if side == exclusive {
		b := &pgx.Batch{}
		b.Queue(sqlBumpAuthority).QueryRow(func(row pgx.Row) error { return row.Scan(&d.AuthorityVersion) })
		b.Queue(sqlNotify)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return sqlError("moving the authority version", err)
		}
		for i := range d.entries {
			d.entries[i].AuthorityVersion = d.AuthorityVersion
		}
	}
	if err := do(tx, d); err != nil {
		return err
	}
	return keepOnce(ctx, tx, act.By, act.Once, uuid.Nil)
}

// lockForAct takes the locks in the documented order, reads the clock after the last one, and
// has the act judged.
func (s *Store) lockForAct(ctx context.Context, tx pgx.Tx, side authority, act Act) (*doing, error) {
	was := s.seen.before()
	st, err := lockAuthority(ctx, tx, side, act.By)
	if err != nil {
		return nil, err
	}
	st.Repeated = act.repeated
	s.seen.hold(was, st.Epoch, st.AuthorityVersion, st.Now, &st.Standing)
	if act.law != "" {
		if st.Law, err = readLaw(ctx, tx, act.law); err != nil {
			return nil, err
		}
	}
	d := &doing{Stamp: st}
	if len(act.changes) > 0 {
		locked, err := lockChanges(ctx, tx, act.changes)
		if err != nil {
			return nil, err
		}
		for _, id := range act.changes {
			d.changes = append(d.changes, locked[slices.IndexFunc(locked, func(c Change) bool { return c.ID == id })])
		}
		if d.Now, err = readClock(ctx, tx); err != nil {
			return nil, err
		}
	}
	for i := range max(1, len(d.changes)) {
		st := d.Stamp
		if len(d.changes) > 0 {
			st.Change = &d.changes[i]
		}
		entry := act.Entry(st)
		if err := s.stampEntry(&entry, st); err != nil {
			return nil, err
		}
		if c := st.Change; c != nil {
			entry.ChangeID, entry.MachineID, entry.MachineName, entry.Cluster = c.ID.String(), c.MachineID, c.MachineName, c.Cluster
			entry.Digest, entry.Base, entry.Persistent, entry.Mode = c.Digest, c.Base, c.Persistent, c.Mode
		}
		d.entries = append(d.entries, entry)
	}
	return d, nil
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
		return scanWithStanding(row, &st.Standing, &st.AuthorityVersion, &st.Epoch, &st.LiveRevision, &st.CallerRevoked, &st.Now)
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
