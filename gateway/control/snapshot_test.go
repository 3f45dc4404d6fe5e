package control

import (
	"context"
	"sync"
	"testing"
	"time"

	"bronzeward/policy"
)

func TestASnapshotIsOfOneAuthorityVersion(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	first, err := s.Refresh(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if first.LiveRevision != revision1 || len(first.Machines) != 2 || first.Revoked(anna.Issuer, anna.Subject) {
		t.Errorf("snapshot: %+v", first)
	}
	other := w.store(t, "gw-2", nil)
	revoked(t)(other.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke")))
	second, err := s.Refresh(t.Context(), first.AuthorityVersion+1)
	if err != nil {
		t.Fatal(err)
	}
	if !second.Revoked(anna.Issuer, anna.Subject) || second.Revoked(anna.Issuer, boris.Subject) {
		t.Error("the second snapshot does not know who is revoked")
	}
	if first.Revoked(anna.Issuer, anna.Subject) {
		t.Error("the first snapshot changed")
	}
	select {
	case <-first.Superseded():
	case <-time.After(10 * time.Second):
		t.Error("the first snapshot is not superseded")
	}
	revoked(t)(other.RevokeIdentity(t.Context(), boris, "left", by(admin, "identities.revoke")))
	third, err := s.Refresh(t.Context(), 0)
	if err != nil || !third.Revoked(anna.Issuer, anna.Subject) || !third.Revoked(boris.Issuer, boris.Subject) {
		t.Errorf("the third snapshot lost somebody: %v", err)
	}
	_, err = s.Refresh(t.Context(), third.AuthorityVersion+5)
	wantErr(t, err, ErrUnavailable)
}

// A hint from another process moves the snapshot although nobody polls.
func TestAHintIsHeard(t *testing.T) {
	w := newWorld(t)
	s, other := w.house(t, 0), w.store(t, "gw-2", nil)
	eventually(t, "both to listen", func() bool {
		return w.count(t, "select count(*) from pg_stat_activity where datname = current_database() and query = 'listen bronzeward_authority'") == 2
	})
	revoked(t)(other.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke")))
	eventually(t, "the hint", func() bool { return s.Snapshot().Revoked(anna.Issuer, anna.Subject) })
	<-s.Hint()
}

// Without hints, polling finds the truth.
func TestPollingIsTheTruth(t *testing.T) {
	w := newWorld(t)
	w.house(t, 0)
	s := w.store(t, "gw-poll", func(c *Config) { c.PollEvery = 20 * time.Millisecond })
	w.exec(t, "insert into control.identity_revocations values ('i', 's', 'left', 1000000, gen_random_uuid())")
	w.exec(t, "update control.authority set version = 1000000")
	eventually(t, "the poll", func() bool { return s.Snapshot().Revoked("i", "s") })
}

// However many wait, they share one reading, and none gets one that began before it asked.
func TestReadingIsShared(t *testing.T) {
	const waiters = 50
	w := newWorld(t)
	s := w.house(t, 0)
	before := s.Snapshot()
	tx, err := w.root.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "lock table control.authority in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		snaps = map[*Snapshot]int{}
	)
	asked := time.Now()
	for range waiters {
		wg.Go(func() {
			snap, err := s.Refresh(t.Context(), 0)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			snaps[snap]++
		})
	}
	w.waiting(t, 1)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	// A goroutine that came late may have begun another one.
	if len(snaps) == 0 || len(snaps) > waiters/2 || snaps[before] != 0 {
		t.Errorf("%d readings for %d waiters", len(snaps), waiters)
	}
	for snap := range snaps {
		if snap.At.Before(asked) {
			t.Error("a reading from before it was asked for")
		}
	}
}

// One caller that goes away does not fail the others.
func TestAWaiterMayLeave(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	tx, err := w.root.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "lock table control.authority in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Refresh(ctx, 0); gone <- err }()
	w.waiting(t, 1)
	go func() { _, err := s.Refresh(t.Context(), 0); stays <- err }()
	cancel()
	wantErr(t, <-gone, ErrUnavailable)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stays; err != nil {
		t.Error(err)
	}
}

// A replica that cannot ask knows for how long it has not been able to.
func TestUnconfirmedGrowsWhileTheDatabaseIsAway(t *testing.T) {
	w := newWorld(t)
	w.house(t, 0)
	p, dsn := newProxy(t)
	now := time.Now()
	var ahead time.Duration
	var mu sync.Mutex
	s := w.store(t, "gw-away", func(c *Config) {
		c.URL = dsn + " dbname=" + w.name
		c.Clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return now.Add(ahead) }
	})
	p.shut.Store(true)
	s.watch.Reset()
	mu.Lock()
	ahead = 11 * time.Second
	mu.Unlock()
	_, err := s.Refresh(t.Context(), 0)
	wantErr(t, err, ErrUnavailable)
	if got := s.Unconfirmed(); got <= ConfirmLimit {
		t.Errorf("unconfirmed for %s, want more than %s", got, ConfirmLimit)
	}
	p.shut.Store(false)
	if _, err := s.Refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := s.Unconfirmed(); got != 0 {
		t.Errorf("unconfirmed for %s after a confirmation", got)
	}
}

func TestBundles(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	_, _, err := s.LiveBundle(t.Context())
	wantErr(t, err, ErrNotFound)
	activate := func(revision string) error {
		_, err := s.ActivateBundle(t.Context(), NewLive{Revision: revision, Way: WayActivate}, by(admin, "policy.activate"))
		return err
	}
	wantErr(t, activate(revision1), ErrNotFound)
	w.activate(t, s, revision1)
	ok(t)(s.SaveBundle(t.Context(), revision1, []byte("other bytes"), nil, by(admin, "policy.save")))
	revision, content, err := s.LiveBundle(t.Context())
	if err != nil || revision != revision1 || string(content) != "bundle 1" {
		t.Errorf("live: %s %q %v", revision, content, err)
	}
	ok(t)(s.SaveBundle(t.Context(), revision2, []byte("two"), nil, by(admin, "policy.save")))
	wantErr(t, activate("../x"), ErrInvalid)
	for i, want := range []string{revision2, revision1} {
		if err := activate(want); err != nil {
			t.Fatal(err)
		}
		if snap, err := s.Refresh(t.Context(), 0); err != nil || snap.LiveRevision != want || snap.BundleCounter != int64(i+2) {
			t.Errorf("snapshot: %+v, %v", snap, err)
		}
	}
}

func TestAClosedStoreAnswersSo(t *testing.T) {
	w := newWorld(t)
	s, err := Open(t.Context(), Config{URL: w.url(t, asGateway), Instance: "gw", Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := s.Refresh(t.Context(), 0); err == nil {
		t.Error("a closed store refreshes")
	}
	_, err = s.RevokeIdentity(t.Context(), policy.Person{Issuer: "i", Subject: "s"}, "x", by(admin, "identities.revoke"))
	wantErr(t, err, ErrClosed)
}
