package identity

import (
	"slices"
	"strings"
	"time"
)

// IssuerHealth is the state of one issuer's keys.
type IssuerHealth struct {
	// Issuer is the configured issuer URL.
	Issuer string
	// Usable says that tokens can be verified now: there is a key set, not older than its maximum age.
	Usable bool
	// Keys is the number of usable keys, Skipped of those left out (private, symmetric, weak, unreadable).
	Keys, Skipped int
	// LastGood is when the set held was last confirmed by the issuer, zero before the first time.
	LastGood time.Time
	// LastAttempt is when the last fetch began, zero before the first.
	LastAttempt time.Time
	// Error is why the last fetch was no good, empty when it was. It is for operators, not for callers.
	Error string
}

// Health returns the state of every issuer, sorted by URL, for /readyz. It does no I/O.
func (a *Authenticator) Health() []IssuerHealth {
	states := make([]IssuerHealth, 0, len(a.issuers))
	for _, s := range a.issuers {
		states = append(states, s.health())
	}
	slices.SortFunc(states, func(x, y IssuerHealth) int { return strings.Compare(x.Issuer, y.Issuer) })
	return states
}

func (s *issuer) health() IssuerHealth {
	state := IssuerHealth{Issuer: s.cfg.Issuer, Usable: s.current() != nil}
	if good := s.good.Load(); good != nil {
		state.Keys, state.Skipped, state.LastGood = len(good.set.keys), good.set.skipped, good.at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state.LastAttempt = s.lastAttempt
	if s.lastErr != nil {
		state.Error = s.lastErr.Error()
	}
	return state
}
