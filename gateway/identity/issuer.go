package identity

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// fetchTimeout bounds one fetch, discovery included: a caller may be waiting for it, and an issuer that takes
// longer is as good as away.
const fetchTimeout = 5 * time.Second

// goodKeys is a key set and when it was last fetched.
type goodKeys struct {
	set *keySet
	at  time.Time // with the monotonic clock
}

// issuer is one trusted issuer and its cached keys. All fetches are made by its one goroutine, run.
type issuer struct {
	cfg      IssuerConfig
	client   *http.Client
	maxAge   time.Duration
	refresh  time.Duration
	cooldown time.Duration
	log      *slog.Logger

	good atomic.Pointer[goodKeys] // nil until a first fetch succeeds

	wake chan struct{} // buffered by one: a demand waits for run

	mu          sync.Mutex
	pending     chan struct{} // closed when the demanded fetch is done; nil when none is
	demandedAt  time.Time     // when the last demanded fetch was asked for
	lastErr     error         // outcome of the last fetch of any sort
	lastAttempt time.Time
	closed      bool
}

// run fetches at once, then on demand and on a timer, until ctx ends.
func (s *issuer) run(ctx context.Context) {
	defer s.stop()
	failures := 0
	for {
		err := s.fetchAndKeep(ctx)
		s.settle(err)
		if err != nil {
			failures++
		} else {
			failures = 0
		}
		timer := time.NewTimer(s.pause(failures))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pause is how long to wait after a fetch: the refresh interval, less up to a tenth so that replicas do not fetch in
// step; after failures the cool-down, doubled with each further one, up to the refresh interval.
func (s *issuer) pause(failures int) time.Duration {
	if failures == 0 {
		return s.refresh - rand.N(s.refresh/10+1)
	}
	return min(s.cooldown<<min(failures-1, 10), s.refresh)
}

// demand brings about one fetch, unless one was demanded within the cool-down, and waits for it. It returns the outcome
// of the latest fetch, or ctx's error. Any number of callers share one fetch, which is detached
// from all of them: one that hangs up must not fail it for the others.
func (s *issuer) demand(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	if s.pending == nil {
		if time.Since(s.demandedAt) < s.cooldown {
			err := s.lastErr
			s.mu.Unlock()
			return err
		}
		s.demandLocked()
	}
	pending := s.pending
	s.mu.Unlock()

	select {
	case <-pending:
	case <-ctx.Done():
		return fmt.Errorf("waiting for keys: %w", ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastErr
}

// demandLocked notes a demanded fetch and wakes run. The caller holds mu and has seen pending nil.
func (s *issuer) demandLocked() {
	s.pending = make(chan struct{})
	s.demandedAt = time.Now()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// settle records a fetch's outcome and lets its waiters go. A demand made after the fetch began is not answered by it:
// the answer may be older than the key that is looked for. run has been woken and fetches again.
func (s *issuer) settle(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logChange(err)
	s.lastErr = err
	if s.pending == nil || s.lastAttempt.Before(s.demandedAt) {
		return
	}
	close(s.pending)
	s.pending = nil
}

// logChange writes one line when fetching begins or stops to err. The caller holds mu.
func (s *issuer) logChange(err error) {
	switch {
	case err != nil && s.lastErr == nil:
		s.log.Warn("fetching keys errs; the last good set is used until its maximum age", "issuer", s.cfg.Issuer, "error", err)
	case err == nil && s.lastErr != nil:
		s.log.Info("fetching keys works again", "issuer", s.cfg.Issuer)
	}
}

// stop lets every waiter go for good.
func (s *issuer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.pending != nil {
		s.lastErr = errClosed
		close(s.pending)
		s.pending = nil
	}
}

// fetchAndKeep fetches the key set once. An unusable or emptied set is an error and leaves the last good one, whose
// age goes on.
func (s *issuer) fetchAndKeep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	started := time.Now()
	s.mu.Lock()
	s.lastAttempt = started
	s.mu.Unlock()

	set, err := s.fetch(ctx)
	if err != nil {
		return err
	}
	if old := s.good.Load(); old != nil && old.set.fingerprint == set.fingerprint {
		set = old.set
	} else {
		s.log.Info("key set changed", "issuer", s.cfg.Issuer, "keys", len(set.keys), "skipped", set.skipped)
	}
	s.good.Store(&goodKeys{set: set, at: started})
	return nil
}

// current returns the last good set while it is younger than the maximum age, else nil.
func (s *issuer) current() *keySet {
	good := s.good.Load()
	if good == nil || time.Since(good.at) > s.maxAge {
		return nil
	}
	return good.set
}

// keysFor returns the set to verify with and the keys in it that kid names. It fetches, within the cool-down, when there
// is no usable set or kid is not in it.
func (s *issuer) keysFor(ctx context.Context, kid string) (*keySet, []verifyKey, *Refusal) {
	set := s.current()
	if set != nil {
		if keys := set.find(kid); len(keys) > 0 {
			return set, keys, nil
		}
		if kid == "" {
			return nil, nil, malformed("the token does not say which of its issuer's keys signed it (no kid)")
		}
	}
	err := s.demand(ctx)
	set = s.current()
	if set != nil {
		if keys := set.find(kid); len(keys) > 0 {
			return set, keys, nil
		}
	}
	if set == nil || err != nil {
		if err == nil {
			err = fmt.Errorf("no key set younger than %v", s.maxAge)
		}
		return nil, nil, refuse(ClassKeysUnavailable, "the keys of the token's issuer cannot be fetched; try again later",
			fmt.Errorf("fetching keys of %s: %w", s.cfg.Issuer, err))
	}
	if kid == "" {
		return nil, nil, malformed("the token does not say which of its issuer's keys signed it (no kid)")
	}
	return nil, nil, refuse(ClassUnknownKey, "the token is signed with a key that its issuer does not publish; get a new one", nil)
}
