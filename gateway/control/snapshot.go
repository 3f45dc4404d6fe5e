package control

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// ConfirmLimit is how long a replica may go without confirming the authority version before
// it ends its open streams.
const ConfirmLimit = 10 * time.Second

// Snapshot is what cheap early judging sees: as of one authority version, immutable. It may
// refuse; what allows is judged under the lock.
type Snapshot struct {
	AuthorityVersion int64
	Epoch            uuid.UUID
	InstallationID   uuid.UUID
	// Standing is whether the house is in recovery.
	Standing Standing
	// LiveRevision is empty when no bundle is live.
	LiveRevision  string
	BundleCounter int64
	// Machines is keyed by id. Serials in it may be old: note them with Store.Serial.
	Machines map[uuid.UUID]*Machine
	// At is this process's clock when the version was asked for, the database's clock is
	// At plus ClockOffset, at most one round trip wrong.
	At          time.Time
	ClockOffset time.Duration

	revoked    map[policy.Person]struct{}
	superseded chan struct{}
	clock      func() time.Time
}

// Revoked is true when the person is, as of this snapshot.
func (s *Snapshot) Revoked(issuer, subject string) bool {
	_, is := s.revoked[policy.Person{Issuer: issuer, Subject: subject}]
	return is
}

// Revocations is how many people are revoked, as of this snapshot.
func (s *Snapshot) Revocations() int64 { return int64(len(s.revoked)) }

// Now is the database's clock by this snapshot's offset. It rests on the monotonic clock, so
// that setting the host's clock does not move it. It decides early refusals only.
func (s *Snapshot) Now() time.Time { return s.At.Add(s.ClockOffset).Add(s.clock().Sub(s.At)).UTC() }

// Superseded is closed once a snapshot of another authority version has taken this one's
// place: whoever holds a stream open looks again.
func (s *Snapshot) Superseded() <-chan struct{} { return s.superseded }

// refresher shares the reading of snapshots among all who wait for one.
type refresher struct {
	mu      sync.Mutex
	last    *Snapshot // guarded by mu
	next    *flight   // the flight that will begin after the running one; guarded by mu
	running bool      // guarded by mu
	closed  bool      // guarded by mu
}

// flight is one reading; its result is set before done is closed.
type flight struct {
	done chan struct{}
	snap *Snapshot
	err  error
}

func (r *refresher) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Snapshot is the last one read. Open has read the first.
func (s *Store) Snapshot() *Snapshot {
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	return s.reader.last
}

// Unconfirmed is how long ago the authority version was last confirmed with the database:
// counted from before the question. Beyond ConfirmLimit, open streams are to be ended.
func (s *Store) Unconfirmed() time.Duration { return s.cfg.Clock().Sub(s.Snapshot().At) }

// Refresh gives a snapshot of at least that authority version. With zero it gives one whose
// reading began after the call: one round trip when nothing has changed, and shared by all
// who wait. ErrUnavailable when the database does not answer within the caller's patience.
func (s *Store) Refresh(ctx context.Context, atLeast int64) (*Snapshot, error) {
	f, have, err := s.join(atLeast)
	if err != nil || have != nil {
		return have, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, unavailable("reading the authority version", ctx.Err())
	}
	if f.err != nil {
		return nil, f.err
	}
	if f.snap.AuthorityVersion < atLeast {
		return nil, unavailable("reading the authority version",
			errors.New("the database is behind what was seen of it: a restore or a lagging replica"))
	}
	return f.snap, nil
}

// join gives the snapshot in hand when it suffices, else the flight that begins next.
func (s *Store) join(atLeast int64) (*flight, *Snapshot, error) {
	r := &s.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, ErrClosed
	}
	if atLeast > 0 && r.last != nil && r.last.AuthorityVersion >= atLeast {
		return nil, r.last, nil
	}
	if r.next == nil {
		r.next = &flight{done: make(chan struct{})}
	}
	f := r.next
	if !r.running {
		r.running = true
		s.done.Go(s.fly)
	}
	return f, nil, nil
}

// fly runs flights until nobody waits. It is this process's, not one caller's: a caller that
// goes away does not fail the others.
func (s *Store) fly() {
	r := &s.reader
	for {
		r.mu.Lock()
		f, last := r.next, r.last
		r.next = nil
		if f == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		f.snap, f.err = s.read(last)
		if f.err == nil {
			r.mu.Lock()
			r.last = f.snap
			r.mu.Unlock()
			if last != nil && last.superseded != f.snap.superseded {
				close(last.superseded)
			}
		}
		close(f.done)
	}
}

// readWithin bounds one reading: well under ConfirmLimit, so that several fit.
const readWithin = 3 * time.Second

// read confirms the last snapshot or makes the next.
func (s *Store) read(last *Snapshot) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(s.life, readWithin)
	defer cancel()
	was := s.seen.before()
	next := &Snapshot{InstallationID: s.installation, At: s.cfg.Clock(), clock: s.cfg.Clock}
	var now time.Time
	err := scanWithStanding(s.watch.QueryRow(ctx, sqlConfirm), &next.Standing,
		&next.AuthorityVersion, &next.Epoch, &next.LiveRevision, &next.BundleCounter, &now)
	if err != nil {
		return nil, unavailable("reading the authority version", err)
	}
	next.ClockOffset = now.Sub(next.At.Round(0))
	if last != nil && last.AuthorityVersion == next.AuthorityVersion && last.Epoch == next.Epoch {
		next.Machines, next.revoked, next.superseded = last.Machines, last.revoked, last.superseded
		s.seen.hold(was, next.Epoch, next.AuthorityVersion, now, &next.Standing)
		return next, nil
	}
	next.superseded = make(chan struct{})
	if err := s.fill(ctx, last, next); err != nil {
		return nil, err
	}
	s.seen.hold(was, next.Epoch, next.AuthorityVersion, now, &next.Standing)
	return next, nil
}

// fill reads what moved, in one transaction of one database snapshot. Revocations are
// permanent, so only those since the last version are read; after an epoch or a version that
// went back, all.
func (s *Store) fill(ctx context.Context, last, next *Snapshot) error {
	since := int64(0)
	old := map[policy.Person]struct{}{}
	if last != nil && last.Epoch == next.Epoch && last.AuthorityVersion < next.AuthorityVersion {
		since, old = last.AuthorityVersion, last.revoked
	}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.watch, opts, func(tx pgx.Tx) error {
		var now time.Time
		var fresh []policy.Person
		var machines []Machine
		b := &pgx.Batch{}
		b.Queue(sqlConfirm).QueryRow(func(row pgx.Row) error {
			return scanWithStanding(row, &next.Standing, &next.AuthorityVersion, &next.Epoch, &next.LiveRevision, &next.BundleCounter, &now)
		})
		b.Queue(sqlRevokedSince, since).Query(func(rows pgx.Rows) (err error) {
			fresh, err = pgx.CollectRows(rows, pgx.RowToStructByPos[policy.Person])
			return err
		})
		b.Queue(sqlMachines).Query(func(rows pgx.Rows) (err error) {
			machines, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Machine, error) {
				var m Machine
				err := scanMachine(row, &m)
				return m, err
			})
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		next.Machines = make(map[uuid.UUID]*Machine, len(machines))
		for i := range machines {
			next.Machines[machines[i].ID] = &machines[i]
		}
		next.revoked = old
		if len(fresh) > 0 {
			next.revoked = maps.Clone(old)
			for _, p := range fresh {
				next.revoked[p] = struct{}{}
			}
		}
		return nil
	})
	if err != nil {
		return unavailable("reading the snapshot", err)
	}
	return nil
}
