package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// Why an open call ends before its own end.
var (
	errProofEnded  = errors.New("the credential this call was opened with has ended; log in again")
	errRevoked     = errors.New("this identity has been revoked")
	errUntrusted   = errors.New("the certificate this call was opened with is not trusted any more; log in again")
	errUnconfirmed = errors.New("the gateway cannot confirm with its database that nothing was revoked")
	errRetired     = errors.New("a machine of this call was retired; nothing reaches it any more")
	errTooMany     = errors.New("too many calls of this caller are open at once")
)

// personOf is who a caller is across certificates and tokens.
func personOf(c identity.Caller) policy.Person {
	return policy.Person{Issuer: c.Issuer, Subject: c.Subject}
}

// sessions are the calls that are open now, by person. Safe for concurrent use.
type sessions struct {
	limit int

	mu      sync.Mutex // guards open and stopped
	open    map[policy.Person]*openCalls
	stopped error // why no call is taken any more; nil while they are
}

type session struct {
	end context.CancelCauseFunc
	// trusted is whether the certificate the call was opened with still proves its caller; null when there was none.
	trusted func() bool
	// machines are those that the call names, once they are known; guarded by the mutex of the sessions.
	machines []uuid.UUID
}

// sessionKey finds the session of a call in its context.
type sessionKey struct{}

// openCalls are one person's open calls.
type openCalls struct {
	all map[*session]struct{}
	// bodies bounds how many of their request messages are held in memory at once.
	bodies *semaphore.Weighted
}

// maxBodies times MaxMessage is what one person can make the gateway hold.
const maxBodies = 8

func newSessions(limit int) *sessions {
	return &sessions{limit: limit, open: map[policy.Person]*openCalls{}}
}

// enter opens a call: its context ends with the proof, with a revocation, when trusted says
// that its certificate proves nothing any more, or with leave. It refuses when the person has
// too many calls open. trusted is null for a call without a certificate.
func (s *sessions) enter(ctx context.Context, who identity.Caller, trusted func() bool) (_ context.Context, bodies *semaphore.Weighted, leave func(), _ error) {
	ctx, end := context.WithCancelCause(ctx)
	stopProof := func() bool { return true }
	if !who.ProofEnds.IsZero() {
		// No deadline of the context: that would go along to the node, which would answer
		// DeadlineExceeded before the caller could be told to log in again.
		stopProof = time.AfterFunc(time.Until(who.ProofEnds), func() { end(errProofEnded) }).Stop
	}
	one, key := &session{end: end, trusted: trusted}, personOf(who)
	ctx = context.WithValue(ctx, sessionKey{}, one)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		stopProof()
		end(nil)
		return nil, nil, nil, s.stopped
	}
	if s.open[key] == nil {
		s.open[key] = &openCalls{all: map[*session]struct{}{}, bodies: semaphore.NewWeighted(maxBodies)}
	}
	mine := s.open[key]
	if len(mine.all) >= s.limit {
		stopProof()
		end(nil)
		return nil, nil, nil, fmt.Errorf("%w: the limit is %d (limits.streams_per_caller)", errTooMany, s.limit)
	}
	mine.all[one] = struct{}{}
	return ctx, mine.bodies, func() {
		s.mu.Lock()
		delete(mine.all, one)
		if len(mine.all) == 0 {
			delete(s.open, key)
		}
		s.mu.Unlock()
		stopProof()
		end(nil)
	}, nil
}

// endRevoked ends the open calls of everybody who is revoked.
func (s *sessions) endRevoked(revoked func(issuer, subject string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for who, calls := range s.open {
		if !revoked(who.Issuer, who.Subject) {
			continue
		}
		for one := range calls.all {
			one.end(errRevoked)
		}
	}
}

// aim notes which machines an open call names; ctx is the call's.
func (s *sessions) aim(ctx context.Context, machines []uuid.UUID) {
	if one, ok := ctx.Value(sessionKey{}).(*session); ok {
		s.mu.Lock()
		one.machines = machines
		s.mu.Unlock()
	}
}

// endRetired ends the open calls that name a machine that was retired: its addresses may be another machine's by now.
func (s *sessions) endRetired(retired func(uuid.UUID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, calls := range s.open {
		for one := range calls.all {
			if slices.ContainsFunc(one.machines, retired) {
				one.end(errRetired)
			}
		}
	}
}

// endUntrusted ends the open calls whose certificate is not trusted any more, such as those of
// an authority that was dropped.
func (s *sessions) endUntrusted() {
	s.mu.Lock()
	var asked []*session
	for _, calls := range s.open {
		for one := range calls.all {
			if one.trusted != nil {
				asked = append(asked, one)
			}
		}
	}
	s.mu.Unlock()
	for _, one := range asked {
		if !one.trusted() {
			one.end(errUntrusted)
		}
	}
}

// endAll ends every open call for one cause.
func (s *sessions) endAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, calls := range s.open {
		for one := range calls.all {
			one.end(cause)
		}
	}
}

// stop ends every open call and takes no more.
func (s *sessions) stop(cause error) {
	s.mu.Lock()
	s.stopped = cause
	s.mu.Unlock()
	s.endAll(cause)
}

// count is how many calls are open, for the metric.
func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, calls := range s.open {
		n += len(calls.all)
	}
	return n
}
