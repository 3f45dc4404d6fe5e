package gateway

import (
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
)

// shiftable makes the database's clock one that a test can move: the gateway's queries find a
// function of the test's own before PostgreSQL's.
func shiftable(s *setup) {
	s.control = func(c *control.Config) { c.URL += "&search_path=shifted,pg_catalog" }
}

// shift installs the clock, or moves it, by so much.
func (h *house) shift(t testing.TB, by time.Duration) {
	t.Helper()
	for _, statement := range []string{
		"create schema if not exists shifted",
		"create table if not exists shifted.by (amount interval not null)",
		"delete from shifted.by",
		`create or replace function shifted.clock_timestamp() returns timestamptz language sql volatile as
			$$ select pg_catalog.clock_timestamp() + (select amount from shifted.by) $$`,
		"grant usage on schema shifted to public",
		"grant select on shifted.by to public",
	} {
		ok(t, h.db.Exec(t.Context(), statement))
	}
	ok(t, h.db.Exec(t.Context(), "insert into shifted.by values ($1)", by))
}

// carelessOne allows everything with one approval, whoever asks and when.
var carelessOne = sync.OnceValues(func() (law, error) {
	return newLaw(admission(`"allow": true, "approvals": {"required": 1, "groups": ["talos-approvers"], "self_approval": false}`), quorumData("1", "false", ""))
})

// A proof that ends between the request and the commit proves nothing any more, by the
// database's clock read after the last lock, whatever the host's clock says and whatever a
// careless law allows.
func TestAProofThatEndsBeforeTheCommit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		law  func() (law, error)
		act  func(*testing.T, *house, control.ChangeID) <-chan error
		code string
	}{
		{"an apply", oneApproval, applyBytes, "BW-IDENTITY-003"},
		{"an apply, under a careless law", carelessOne, applyBytes, "BW-INVARIANT-017"},
		{"an apply by id", oneApproval, func(t *testing.T, h *house, id control.ChangeID) <-chan error {
			return inBackground(func() error { _, err := h.applyChange(t, "olga", id); return err })
		}, "BW-ACT-005"},
		{"an approval", oneApproval, func(t *testing.T, h *house, id control.ChangeID) <-chan error {
			by := h.actor(t, "abel")
			return inBackground(func() error { _, err := h.approveAs(t, by, id); return err })
		}, "BW-ACT-005"},
		{"a rejection", oneApproval, func(t *testing.T, h *house, id control.ChangeID) <-chan error {
			by := h.actor(t, "abel")
			return inBackground(func() error { _, err := h.acts().Reject(bounded(t), by, id, "no", nil); return err })
		}, "BW-ACT-005"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, row.law, shiftable)
			h.shift(t, 0)
			id := h.approved(t, labelled("one"))
			release := must(h.db.HoldAuthority(t.Context()))(t)
			done := row.act(t, h, id)
			h.waiting(t, 1)
			h.shift(t, 30*time.Hour)
			ok(t, release())
			err := <-done
			if err == nil || !strings.Contains(err.Error(), row.code) {
				t.Errorf("it came to %v, want %s", err, row.code)
			}
			h.sentNothing(t)
			if n := h.approvalsOf(t, id); n != 1 || len(h.attempts(t)) != 0 {
				t.Errorf("%d approvals, %d attempts", n, len(h.attempts(t)))
			}
			if c := h.change(t, id); c.State != control.ChangeApproved && c.State != control.ChangeExpired {
				t.Errorf("the change is %s", c.State)
			}
		})
	}
}

func inBackground(do func() error) <-chan error {
	out := make(chan error, 1)
	go func() { out <- do() }()
	return out
}

func applyBytes(t *testing.T, h *house, _ control.ChangeID) <-chan error {
	c, request := h.as(t, "olga"), noReboot(t, labelled("one"))
	return inBackground(func() error { return c.apply(t, "w1", request).err })
}

// A token that ends while its act by id waits ends the act, as it ends a call.
func TestATokenThatEndsWhileItsApplyWaits(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	release := must(h.db.HoldAuthority(t.Context()))(t)
	by := h.actor(t, "olga")
	by.Caller.Proof, by.Caller.ProofEnds = identity.ProofToken, time.Now().Add(500*time.Millisecond)
	_, err := h.acts().ApplyChange(bounded(t), by, id, nil)
	if got := actRefused(t, err, "BW-CREDENTIAL-004"); got.grpc != codes.Unauthenticated {
		t.Errorf("the door answers %v", got.grpc)
	}
	ok(t, release())
	h.sentNothing(t)
	h.is(t, id, control.ChangeApproved)
}

// The change's clocks are the database's as well: one that runs out between request and commit
// is not spent, and is marked.
func TestAChangeThatExpiresBeforeTheCommit(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, shiftable)
	h.shift(t, 0)
	id := h.approved(t, labelled("one"))
	by := h.actor(t, "olga")
	by.Caller.ProofEnds = by.Caller.ProofEnds.Add(240 * time.Hour)
	release := must(h.db.HoldAuthority(t.Context()))(t)
	done := inBackground(func() error { _, err := h.acts().ApplyChange(bounded(t), by, id, nil); return err })
	h.waiting(t, 1)
	h.shift(t, 61*time.Minute)
	ok(t, release())
	if got := actRefused(t, <-done, "BW-CHANGE-002"); !strings.Contains(got.text, "is expired") {
		t.Errorf("it is told %s", got.text)
	}
	c := h.is(t, id, control.ChangeExpired)
	if c.Reason != "it was approved and not applied in time" {
		t.Errorf("the reason is %q", c.Reason)
	}
	h.sentNothing(t)
}
