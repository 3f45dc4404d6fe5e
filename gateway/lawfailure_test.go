package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bronzeward/policy"
	"bronzeward/policytest/lawsign"
)

// failingJudge takes no law, and counts how often it was asked to.
type failingJudge struct {
	Judge
	asked atomic.Int64
	// held, where it is set, is closed for it to answer; begun is told that it was asked.
	held, begun chan struct{}
}

func (j *failingJudge) Use(context.Context, *policy.Bundle) error {
	j.asked.Add(1)
	if j.held != nil {
		j.begun <- struct{}{}
		<-j.held
	}
	return errors.New("this binary is too old for the law")
}

func (j *failingJudge) Revision() string { return "" }

// handClock is a clock that tests move.
type handClock struct {
	mu sync.Mutex
	at time.Time // guarded by mu
}

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *handClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func failing(t *testing.T) (*house, *failingJudge, *handClock) {
	t.Helper()
	judge, clock := &failingJudge{}, &handClock{at: time.Now()}
	h := newHouse(t, func(s *setup) {
		s.ownEngine = true
		s.gateway = func(c *Config) {
			judge.Judge = c.Judge
			c.Judge = judge
		}
	})
	h.gw.laws.now = clock.now
	return h, judge, clock
}

// A law that cannot be loaded is not read and compiled anew for each call, but is tried again after a
// while. The control lets that while pass between the calls: each of them tries it.
func TestALawThatCannotBeLoadedIsNotTriedAtEachCall(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		between time.Duration
		asked   int64
	}{{0, 1}, {lawFailureKept, 4}} {
		h, judge, clock := failing(t)
		for range 4 {
			err := h.gw.laws.load(t.Context(), h.gw, h.store.Snapshot().LiveRevision)
			if err == nil || err.Error() != "this binary is too old for the law" {
				t.Errorf("got %v", err)
			}
			clock.move(row.between)
		}
		if n := judge.asked.Load(); n != row.asked {
			t.Errorf("with %s between four calls: tried %d times, want %d", row.between, n, row.asked)
		}
		_ = h.as(t, "olga").version(t, "w1")
		h.untouched(t, "w1")
	}
}

// While somebody tries such a law again, nobody waits for that; and what a caller broke off says nothing
// about the law.
func TestNobodyWaitsForALawThatFailedBefore(t *testing.T) {
	t.Parallel()
	h, judge, clock := failing(t)
	revision := h.store.Snapshot().LiveRevision
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := h.gw.laws.load(gone, h.gw, revision); err == nil || h.gw.laws.failure.Load() != nil {
		t.Errorf("of a caller who is gone: %v, remembered %v", err, h.gw.laws.failure.Load())
	}
	if err := h.gw.laws.load(t.Context(), h.gw, revision); err == nil {
		t.Fatal("it is loaded")
	}
	clock.move(lawFailureKept)
	judge.held, judge.begun = make(chan struct{}), make(chan struct{}, 1)
	load := func() <-chan error {
		done := make(chan error, 1)
		go func() { done <- h.gw.laws.load(context.Background(), h.gw, revision) }()
		return done
	}
	first := load()
	<-judge.begun
	select {
	case err := <-load():
		if err == nil {
			t.Error("it is loaded")
		}
	case <-bounded(t).Done():
		t.Error("a caller waits for another one's try")
	}
	close(judge.held)
	if err := <-first; err == nil {
		t.Error("it is loaded")
	}
}

// A signature that is saved later heals it: at the next look of the watch, or at a call after a while. The
// control saves none.
func TestASignatureSavedLaterHeals(t *testing.T) {
	t.Parallel()
	key := must(lawsign.New())(t)
	for _, row := range []struct {
		name           string
		saved, watched bool
		after          time.Duration
		healed         bool
	}{
		{"the watch looks", true, true, 0, true},
		{"a while passes", true, false, lawFailureKept, true},
		{"nothing of both", true, false, 0, false},
		{"none is saved", false, true, lawFailureKept, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			clock := &handClock{at: time.Now()}
			h := newHouse(t, func(s *setup) {
				s.ownEngine = true
				s.gateway = func(c *Config) { c.LawKeys = policy.Keys{"2026": pinnedKey(key)} }
			})
			h.gw.laws.now = clock.now
			b := signedLaw(t, key, 7, "BW-TEST-001")
			h.activate(t, b) // saved without its signature
			ctx := t.Context()
			if err := h.gw.laws.load(ctx, h.gw, b.Revision()); err == nil || h.gw.laws.why(b.Revision()) == nil {
				t.Fatalf("an unsigned law: %v", err)
			}
			if row.saved {
				ok(t, h.db.Exec(ctx, "insert into control.bundle_signatures (revision, key_id, counter, signatures, manifest, entry_id) values ($1, '2026', 7, $2, $3, gen_random_uuid())",
					b.Revision(), b.Proof().Signatures, b.Proof().Manifest))
			}
			if row.watched {
				h.gw.laws.forgetIfSigned(ctx, h.gw, b.Revision())
			}
			clock.move(row.after)
			err := h.gw.laws.load(ctx, h.gw, b.Revision())
			if (err == nil) != row.healed || (h.gw.laws.why(b.Revision()) == nil) != row.healed {
				t.Errorf("healed %v, want %v: %v", err == nil, row.healed, err)
			}
		})
	}
}
