package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// gauge is the present value of a metric without labels.
func gauge(t testing.TB, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	for _, family := range must(from.Gather())(t) {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// What is over is marked, and how many wait is counted, by every round that keeps the house.
func TestWhatIsOverIsMarkedAndCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	h := approving(t, oneApproval, func(s *setup) { s.gateway = func(c *Config) { c.Registry = registry } })
	submit := func(value string) control.ChangeID {
		c, _, err := h.submit(t, "olga", labelled(value))
		ok(t, err)
		return c.ID
	}
	stays, late, unused := submit("stays"), submit("late"), submit("unused")
	h.approve(t, unused, "ada")
	ok(t, h.gw.keepOnce(t.Context(), false))
	if n := gauge(t, registry, "bronzeward_changes_waiting"); n != 2 {
		t.Errorf("%v wait, want 2", n)
	}
	ok(t, h.db.Exec(t.Context(), "update control.changes set approve_by = clock_timestamp() where id::text = $1", uuidOf(late)))
	ok(t, h.db.Exec(t.Context(), "update control.change_states set use_by = clock_timestamp() where change_id::text = $1", uuidOf(unused)))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.gw.Keep(ctx)
	}()
	eventually(t, "what is over to be marked and counted", func() bool {
		return h.change(t, late).State == control.ChangeExpired && h.change(t, unused).State == control.ChangeExpired &&
			gauge(t, registry, "bronzeward_changes_waiting") == 1
	})
	stop()
	<-done
	for id, reason := range map[control.ChangeID]string{late: "it was not approved in time", unused: "it was approved and not applied in time"} {
		if c := h.change(t, id); c.Reason != reason || c.By.Subject != "" {
			t.Errorf("it is %s by %q: %s", c.State, c.By.Subject, c.Reason)
		}
	}
	h.is(t, stays, control.ChangeWaiting)
	// The same bytes are another change by then.
	if again := submit("late"); again == late {
		t.Error("the expired change is live again")
	}
}

// Sealed bytes are dropped when their change has been over for as long as the setting says,
// and not before; what may still be applied, or may still come back, keeps them.
func TestSealedBytesAreDroppedAfterTheSetting(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, func(s *setup) {
		hurried(s)
		keep := s.gateway
		s.gateway = func(c *Config) {
			keep(c)
			c.Changes.KeepSealed = 3 * time.Hour
		}
		s.workers = 2
	})
	ok(t, h.db.Exec(t.Context(), "update control.clusters set rollout_limit = 100"))
	live := h.approved(t, labelled("live"))
	rejected, recent := h.approved(t, labelled("rejected")), h.approved(t, labelled("recent"))
	for _, id := range []control.ChangeID{rejected, recent} {
		must(h.acts().Reject(t.Context(), h.actor(t, "ada"), id, "no", nil))(t)
	}
	unresolved := waits(t, h.as(t, "olga").apply(t, "w2", noReboot(t, labelled("two"))))
	h.approve(t, unresolved, "ada")
	ok(t, h.nodes["w2"].Fault(talosd.Fault{Kind: talosd.ResetBefore}))
	refusedWith(t, h.as(t, "olga").apply(t, "w2", noReboot(t, labelled("two"))), codes.DeadlineExceeded, "BW-ATTEMPT-004")

	past := func(id control.ChangeID, by time.Duration) {
		ok(t, h.db.Exec(t.Context(), "update control.change_states set since = since - $2::interval where change_id::text = $1", uuidOf(id), by))
	}
	past(live, 4*time.Hour)
	past(rejected, 3*time.Hour+time.Minute)
	past(recent, 3*time.Hour-time.Minute)
	past(unresolved, 4*time.Hour)
	ok(t, h.gw.keepOnce(t.Context(), false))
	if !h.change(t, rejected).Sealed {
		t.Error("a round that does not tidy dropped something")
	}
	ok(t, h.gw.keepOnce(t.Context(), true))
	for id, want := range map[control.ChangeID]bool{live: true, rejected: false, recent: true, unresolved: true} {
		if c := h.change(t, id); c.Sealed != want {
			t.Errorf("the bytes of the %s change are kept: %t", c.State, c.Sealed)
		}
	}
	// What an approver saw, and what became of it, stays.
	if r := must(h.store.GetReview(t.Context(), rejected))(t); len(r.Changes) == 0 {
		t.Error("the review is gone")
	}
	_, err := h.applyChange(t, "olga", rejected)
	actRefused(t, err, "BW-CHANGE-002")
	_, err = h.applyChange(t, "olga", live)
	ok(t, err)
}
