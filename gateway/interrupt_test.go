package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
)

// A repeat of the very same request while the first is on its way is told the first one's
// attempt, and nothing is sent a second time.
func TestARepeatInFlightGetsTheFirstOnesAttempt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.paused(t, "w1", 1)
	c := h.as(t, "olga")
	request := noReboot(t, labelled("one"))
	first := c.goApply(bounded(t), "w1", request)
	h.held(t, "w1")
	attempt := h.texts(t, "select id::text from control.attempts")[0]
	for range 2 {
		a := c.apply(t, "w1", request)
		refusedWith(t, a, codes.Aborted, "BW-ATTEMPT-001")
		if !strings.Contains(a.text(), attempt) {
			t.Errorf("the first one's attempt %s is not named: %s", attempt, a.text())
		}
	}
	// The same bytes of another person are another request.
	refusedWith(t, h.as(t, "otto").apply(t, "w1", request), codes.PermissionDenied, "BW-HOLDS")
	h.nodes["w1"].Resume()
	succeeded(t, <-first)
	if n := len(h.applies("w1")); n != 1 {
		t.Errorf("%d applies were sent", n)
	}
}

// A caller who hangs up once the decision is committed changes nothing: the apply reaches
// its outcome.
func TestACallerWhoHangsUpDoesNotStopTheApply(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.paused(t, "w1", 1)
	ctx, hangUp := context.WithCancel(bounded(t))
	answers := h.as(t, "olga").goApply(ctx, "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	hangUp()
	<-answers
	h.nodes["w1"].Resume()
	eventually(t, "the outcome", func() bool { return h.attempts(t)[0] == "completed" })
	if n := len(h.applies("w1")); n != 1 || !h.applies("w1")[0].Landed {
		t.Errorf("%d applies were sent", n)
	}
	if n := h.count(t, "select count(*) from audit.outcomes where attempt_id is not null and state = 'completed'"); n != 1 {
		t.Errorf("%d outcomes", n)
	}
}

// A caller who hangs up before the decision leaves nothing.
func TestACallerWhoHangsUpBeforeTheDecisionLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	release := must(h.db.HoldAuthority(t.Context()))(t)
	ctx, hangUp := context.WithCancel(bounded(t))
	answers := h.as(t, "olga").goApply(ctx, "w1", noReboot(t, labelled("one")))
	h.waiting(t, 1)
	hangUp()
	<-answers
	eventually(t, "the call to be over", func() bool { return h.gw.sessions.count() == 0 })
	ok(t, release())
	if n := len(h.attempts(t)); n != 0 || len(h.nodes["w1"].Log().Of(talosd.MethodApply)) != 0 {
		t.Errorf("%d attempts", n)
	}
	succeeded(t, h.as(t, "otto").apply(t, "w1", noReboot(t, labelled("two"))))
}

// Stop takes no new call, ends streams with a word, and lets a running apply reach its
// outcome and its caller.
func TestStopLetsARunningApplyFinish(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	stream := must(c.openEvents(bounded(t), "w1"))(t)
	h.streams(t, "w1", 1)
	h.paused(t, "w1", 1)
	apply := c.goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		h.gw.Stop(time.Minute)
	}()
	refusedWith(t, finishCall(stream), codes.Unavailable, "BW-GATEWAY-001")
	if a := h.as(t, "otto").version(t, "w1"); a.code() != codes.Unavailable {
		t.Errorf("a call while the gateway stops got %v", a.err)
	}
	select {
	case <-stopped:
		t.Fatal("the gateway stopped while an apply was running")
	default:
	}
	h.nodes["w1"].Resume()
	succeeded(t, <-apply)
	<-stopped
	if got := h.attempts(t); got[0] != "completed" {
		t.Errorf("the attempt is %v", got)
	}
}

// Stop waits for an apply whose caller has gone as well.
func TestStopWaitsForAnApplyWithoutACaller(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.paused(t, "w1", 1)
	ctx, hangUp := context.WithCancel(bounded(t))
	c := h.as(t, "olga")
	answers := c.goApply(ctx, "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	hangUp()
	<-answers
	ok(t, c.conn.Close())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		h.gw.Stop(time.Minute)
	}()
	eventually(t, "the listener to be closed", func() bool {
		return h.as(t, "otto").version(t, "w1").code() == codes.Unavailable
	})
	select {
	case <-stopped:
		t.Error("the gateway stopped while an apply was running")
	default:
	}
	h.nodes["w1"].Resume()
	<-stopped
	if got := h.attempts(t); got[0] != "completed" {
		t.Errorf("the attempt is %v", got)
	}
}

// Stop does not wait longer than it is told to: what is not done then stays open, and is
// the next process's to settle.
func TestStopIsBoundedByItsGrace(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.paused(t, "w1", 1)
	apply := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	h.gw.Stop(10 * time.Millisecond)
	if got := h.attempts(t); got[0] != "open" {
		t.Errorf("the attempt is %v", got)
	}
	if a := <-apply; a.err == nil {
		t.Error("the caller was told of a success nobody knows of")
	}
	h.nodes["w1"].Resume()
	eventually(t, "the apply's own end", func() bool { return h.attempts(t)[0] == "completed" })
	h.gw.server.GracefulStop() // waits for the handler
}

// The settling of dead owners' attempts only observes: what has landed is completed, what
// has not is unresolved, and nothing is sent.
func TestSettlingOnlyObserves(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		landed bool
		state  string
	}{{"it has landed", true, "completed"}, {"it has not", false, "unresolved"}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, hurried)
			ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetBefore}))
			_ = h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
			// As if its owner had died right after the send.
			ok(t, h.db.Exec(t.Context(), "update control.attempts set state = 'open', unresolved_at = null, instance = 'gone'"))
			h.leaseEnds(t)
			if row.landed {
				ok(t, h.nodes["w1"].SetConfig(labelled("one")))
			}
			ok(t, h.gw.settleOnce(t.Context()))
			if got := h.attempts(t); got[0] != row.state {
				t.Errorf("the attempt is %v, want %s", got, row.state)
			}
			if n := len(h.applies("w1")); n != 1 {
				t.Errorf("%d applies were sent", n)
			}
		})
	}
}

// What another machine at the address holds completes nothing.
func TestSettlingBelievesThePinnedMachineOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t, hurried)
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetBefore}))
	_ = h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
	ok(t, h.nodes["w1"].SetConfig(labelled("one")))
	ok(t, h.nodes["w1"].SwapIdentity(talosd.Identity{NodeID: "node-z"}))
	ok(t, h.gw.settleOnce(t.Context()))
	if got := h.attempts(t); got[0] != "unresolved" {
		t.Errorf("the attempt is %v", got)
	}
}
