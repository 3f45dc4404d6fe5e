package gateway

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/talosd"
	"bronzeward/policy"
)

// stumbling is a judge that panics on one person's calls.
type stumbling struct {
	*policy.Engine
	panics atomic.Int64
}

func (s *stumbling) Decide(ctx context.Context, f *policy.Facts) policy.Decision {
	if f.Caller.Subject == "otto" {
		s.panics.Add(1)
		panic("a fault of ours")
	}
	return s.Engine.Decide(ctx, f)
}

// A fault of ours in one call ends that call as Unavailable, and no other: nothing was
// forwarded, and the process goes on.
func TestAPanicEndsOneCallOnly(t *testing.T) {
	t.Parallel()
	judge := &stumbling{Engine: must(shippedLaw())(t).engine}
	h := newHouse(t, func(s *setup) {
		s.workers = 2
		s.gateway = func(c *Config) { c.Judge = judge }
	})
	otto, olga := h.as(t, "otto"), h.as(t, "olga")
	for what, a := range map[string]answer{
		"a read":            otto.version(t, "w1"),
		"a read of several": otto.call(bounded(t), methodVersion, toAll("w1", "w2"), nil),
		"an apply":          otto.apply(t, "w1", noReboot(t, labelled("one"))),
		"a mutation":        otto.call(bounded(t), "/machine.MachineService/Reboot", to("w1"), nil),
	} {
		if a.code() != codes.Unavailable || !strings.Contains(a.text(), "BW-GATEWAY-002") {
			t.Errorf("%s got %v", what, a.err)
		}
	}
	h.untouched(t, "w1")
	h.untouched(t, "w2")
	if judge.panics.Load() < 4 {
		t.Errorf("%d panics: nothing is proven", judge.panics.Load())
	}
	succeeded(t, olga.version(t, "w1"))
	succeeded(t, olga.apply(t, "w1", noReboot(t, labelled("two"))))
}

// A gateway whose attempt was taken over meanwhile does not tell of a success: it names
// the decision and the attempt, and writes nothing about it.
func TestAnOwnerThatWasReplacedReportsNoSuccess(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.paused(t, "w1", 1)
	answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	ok(t, h.db.Exec(t.Context(), "update control.attempts set instance = 'gw-2', generation = generation + 1"))
	h.nodes["w1"].Resume()
	a := <-answers
	refusedWith(t, a, codes.Unavailable, "BW-ATTEMPT-002")
	for _, word := range h.texts(t, "select id::text from control.attempts union all select entry_id::text from control.attempts") {
		if !strings.Contains(a.text(), word) {
			t.Errorf("%s is not named: %s", word, a.text())
		}
	}
	if got := h.attempts(t); got[0] != "open" || h.count(t, "select count(*) from audit.outcomes where attempt_id is not null") != 0 {
		t.Errorf("the attempt is %v", got)
	}
}

// A gateway that comes to send too late, and whose attempt was taken over meanwhile, says that
// nothing was sent: it is the one who knows.
func TestAnOwnerThatWasReplacedBeforeTheSendSaysThatNothingWasSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.proxied = true })
	f := h.proxy.Order(faults.HoldReply, attemptRow)
	answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	<-f.Met()
	eventually(t, "send_by to pass", func() bool {
		return h.count(t, "select count(*) from control.attempts where send_by < clock_timestamp()") == 1
	})
	ok(t, h.db.Exec(t.Context(), "update control.attempts set instance = 'gw-2', generation = generation + 1"))
	f.Release()
	a := <-answers
	refusedWith(t, a, codes.Unavailable, "BW-ATTEMPT-003")
	if !strings.Contains(a.text(), "another gateway has taken it over") || !strings.Contains(a.text(), "it stays held") {
		t.Errorf("the caller was told %s", a.text())
	}
	if got := h.attempts(t); got[0] != "open" || len(h.nodes["w1"].Log().Of(talosd.MethodApply)) != 0 {
		t.Errorf("the attempt is %v", got)
	}
}

// Every log line of a call is one line, and names the decision.
func TestACallIsOneLogLine(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	a := succeeded(t, h.as(t, "olga").version(t, "w1"))
	eventually(t, "the call's line", func() bool { return strings.Contains(h.logs.String(), a.decisions()[0]) })
	if n := strings.Count(h.logs.String(), a.decisions()[0]); n != 1 {
		t.Errorf("%d lines name the decision", n)
	}
}
