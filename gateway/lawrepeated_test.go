package gateway

import (
	"context"
	"errors"
	"testing"

	"bronzeward/gateway/control"
	"bronzeward/policy"
	"bronzeward/policytest/lawsign"
)

// Making a law live again with the same Idempotency-Key gives what it came to, although its counter was reached by then,
// and nothing becomes live. The control is another key.
func TestMakingALawLiveIsRepeated(t *testing.T) {
	t.Parallel()
	key := must(lawsign.New())(t)
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	acts, sven, ctx := h.acts(), h.actor(t, "sven"), context.Background()
	h.as(t, "olga").version(t, "w1")
	acts.Keys = policy.Keys{"2026": pinnedKey(key)}
	b := signedLaw(t, key, 5, "BW-TEST-001")
	with := func(key string) error {
		once := &control.Once{Key: key, Route: "POST /policies/previous/activations", Body: "d", SameBody: func(string) bool { return true }}
		keep(once, b.Revision())
		once.Answer = func() (int, []byte, error) { return 201, []byte(once.Result.(string)), nil }
		_, err := acts.Activate(ctx, sven, tried(b), once)
		return err
	}
	ok(t, with("one"))
	var before *control.ReplayedError
	if err := with("one"); !errors.As(err, &before) || string(before.Body) != b.Revision() {
		t.Errorf("repeated: %v", err)
	}
	wantDenied(t, with("two"), "BW-BUNDLE-002")
	if n := h.count(t, "select count(*) from control.bundle_activations where revision = $1", b.Revision()); n != 1 {
		t.Errorf("it became live %d times", n)
	}
}
