package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
)

// hurried makes lost answers end soon: the least transport deadline there is.
func hurried(s *setup) {
	s.gateway = func(c *Config) { c.TransportDeadline, c.VerifyDeadline = 2*time.Second, 300*time.Millisecond }
}

// reason is why the newest attempt is in its state.
func (h *house) reason(t testing.TB) string {
	t.Helper()
	return h.texts(t, "select reason from control.attempts order by opened_at desc limit 1")[0]
}

// I12: what became of an apply is told by what the machine holds and by nothing else. A
// lost answer is no success, is not sent again, and holds the machine; only evidence
// completes it.
func TestALostAnswerIsNeverASuccessWithoutEvidence(t *testing.T) {
	t.Parallel()
	failed := uint32(codes.FailedPrecondition)
	for _, row := range []struct {
		name  string
		fault talosd.Fault
		code  codes.Code
		words string // in the answer
		state string
		sent  int
	}{
		{"dropped after it landed: the read-back shows it", talosd.Fault{Kind: talosd.DropAnswer}, codes.OK, "the node's answer was lost", "completed", 1},
		{"reset after it landed: the read-back shows it", talosd.Fault{Kind: talosd.ResetAfter}, codes.OK, "the node's answer was lost", "completed", 1},
		{"reset before it landed", talosd.Fault{Kind: talosd.ResetBefore}, codes.DeadlineExceeded, "is unresolved", "unresolved", 1},
		{"reset at the headers", talosd.Fault{Kind: talosd.ResetRequest}, codes.DeadlineExceeded, "is unresolved", "unresolved", 0},
		{"refused, and nothing moved", talosd.Fault{Kind: talosd.ErrorBefore, Code: failed, Message: "busy"}, codes.FailedPrecondition, "busy", "rejected", 1},
		{"an error, and it has landed", talosd.Fault{Kind: talosd.ErrorAfter, Code: failed, Message: "odd"}, codes.OK, "the node's answer was lost", "completed", 1},
		// apid says Unavailable by itself when it loses the call on its way to machined.
		{"an error that a hop inside the machine makes", talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.Unavailable)}, codes.Aborted, "is unresolved", "unresolved", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, hurried)
			ok(t, h.nodes["w1"].Fault(row.fault))
			a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
			said := a.text()
			for _, m := range a.messages {
				var r machine.ApplyConfigurationResponse
				ok(t, proto.Unmarshal(m, &r))
				said += r.GetMessages()[0].GetModeDetails()
			}
			if a.code() != row.code || !strings.Contains(said, row.words) {
				t.Errorf("got %v %q", a.code(), said)
			}
			if got := h.attempts(t); len(got) != 1 || got[0] != row.state {
				t.Errorf("attempts are %v (%s), want %s", got, h.reason(t), row.state)
			}
			if n := len(h.applies("w1")); n != row.sent {
				t.Errorf("the node was sent %d applies, want %d", n, row.sent)
			}
			next := h.as(t, "otto").apply(t, "w1", noReboot(t, labelled("two")))
			if held := row.state == "unresolved"; held != (next.code() == codes.PermissionDenied) || !held && next.err != nil {
				t.Errorf("the next apply got %v", next.err)
			}
		})
	}
}

// An apply that lands 27 s after its deadline is recognised as that attempt's, by what the
// machine holds; until then the machine is held, and nothing is sent twice.
func TestALateLandingIsRecognised(t *testing.T) {
	t.Parallel()
	clock := talosd.NewManualClock(time.Now())
	h := newHouse(t, func(s *setup) {
		hurried(s)
		s.node = func(_ string, c *talosd.Config) { c.Clock = clock }
	})
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.LandLate, Delay: 27 * time.Second}))
	c := h.as(t, "olga")
	a := c.apply(t, "w1", noReboot(t, labelled("one")))
	refusedWith(t, a, codes.DeadlineExceeded, "BW-ATTEMPT-004")
	id := h.texts(t, "select id::text from control.attempts")[0]
	if !strings.Contains(a.text(), id) {
		t.Errorf("the attempt is not named: %s", a.text())
	}
	ok(t, h.gw.settleOnce(t.Context()))
	if got := h.attempts(t); got[0] != "unresolved" {
		t.Fatalf("before it lands the attempt is %v", got)
	}
	refusedWith(t, c.apply(t, "w1", noReboot(t, labelled("one"))), codes.PermissionDenied, "BW-HOLDS")
	refusedWith(t, h.as(t, "otto").apply(t, "w1", noReboot(t, labelled("two"))), codes.PermissionDenied, "BW-HOLDS")

	clock.Advance(27 * time.Second)
	eventually(t, "the landing", func() bool { return h.applies("w1")[0].Landed })
	ok(t, h.gw.settleOnce(t.Context()))
	if got := h.attempts(t); got[0] != "completed" {
		t.Errorf("after it landed the attempt is %v", got)
	}
	if n := h.count(t, "select count(*) from audit.outcomes where attempt_id::text = $1 and kind = 'late-landing'", id); n != 1 {
		t.Errorf("%d outcomes tell of a late landing", n)
	}
	if n := len(h.applies("w1")); n != 1 {
		t.Errorf("%d applies were sent", n)
	}
	succeeded(t, c.apply(t, "w1", noReboot(t, labelled("two"))))
}

// A connection that breaks in the middle of a large request leaves the attempt unresolved.
func TestAConnectionThatBreaksMidRequestIsUnresolved(t *testing.T) {
	t.Parallel()
	h := newHouse(t, hurried)
	h.nodes["w1"].CutNext(2 << 20)
	a := h.as(t, "olga").apply(t, "w1", padded(t, 6<<20))
	refusedWith(t, a, codes.DeadlineExceeded, "BW-ATTEMPT-004")
	if got := h.attempts(t); got[0] != "unresolved" || len(h.applies("w1")) != 0 {
		t.Errorf("the attempt is %v, %d applies arrived whole", got, len(h.applies("w1")))
	}
	if active, _ := h.nodes["w1"].Active(); string(active) != string(oracle.Base()) {
		t.Error("half a request landed")
	}
}

// A machine that cannot be reached, or read, before the decision: an entry of that class, no
// attempt, nothing held.
func TestAMachineThatCannotBeReadSpendsNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, class string
		spoil       func(t *testing.T, n *talosd.Node)
		mend        func(n *talosd.Node)
	}{
		{"refuses dials", "unreachable", func(_ *testing.T, n *talosd.Node) { n.RefuseDials(true) }, func(n *talosd.Node) { n.RefuseDials(false) }},
		{"is in maintenance", "untrusted", func(t *testing.T, n *talosd.Node) { ok(t, n.EnterMaintenance()) }, nil},
		{"does not tell its version", "refused", func(t *testing.T, n *talosd.Node) {
			ok(t, n.Fault(talosd.Fault{Kind: talosd.ErrorBefore, Method: methodVersion, Times: -1, Code: uint32(codes.Internal)}))
		}, func(n *talosd.Node) { n.ClearFaults() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, nil)
			row.spoil(t, h.nodes["w1"])
			c := h.as(t, "olga")
			a := c.apply(t, "w1", noReboot(t, labelled("one")))
			refusedWith(t, a, codes.Unavailable, "BW-UPSTREAM-001")
			if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'refuse' and convert_from(record, 'UTF8') like $2", a.decisions(), `%"detail":"`+row.class+`"%`); n != 1 {
				t.Errorf("%d entries are of class %s: %s", n, row.class, h.texts(t, "select convert_from(record, 'UTF8') from audit.entries where id::text = any ($1)", a.decisions()))
			}
			if n := len(h.attempts(t)); n != 0 || len(h.applies("w1")) != 0 {
				t.Errorf("%d attempts", n)
			}
			if row.mend != nil {
				row.mend(h.nodes["w1"])
				succeeded(t, c.apply(t, "w1", noReboot(t, labelled("one"))))
			}
		})
	}
}

// An apply of what the machine holds already is an apply like any other; when its answer is
// lost, the machine's holding it is no evidence.
func TestAnApplyThatChangesNothing(t *testing.T) {
	t.Parallel()
	t.Run("answered", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, hurried)
		succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, oracle.Base())))
		if got := h.attempts(t); got[0] != "completed" {
			t.Errorf("the attempt is %v", got)
		}
	})
	t.Run("the answer is lost, and nothing landed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, hurried)
		ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetBefore}))
		refusedWith(t, h.as(t, "olga").apply(t, "w1", noReboot(t, oracle.Base())), codes.DeadlineExceeded, "BW-ATTEMPT-004")
		ok(t, h.gw.settleOnce(t.Context()))
		if got := h.attempts(t); got[0] != "unresolved" {
			t.Errorf("the attempt is %v: nothing showed that it landed", got)
		}
	})
}

// An owner that gets to send later than send_by sends nothing, and says so; the machine is free.
func TestAfterSendByNothingIsSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.proxied = true })
	c := h.as(t, "olga")
	f := h.proxy.Order(faults.HoldReply, attemptRow)
	answers := c.goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	<-f.Met()
	eventually(t, "send_by to pass", func() bool {
		return h.count(t, "select count(*) from control.attempts where send_by < clock_timestamp()") == 1
	})
	f.Release()
	refusedWith(t, <-answers, codes.Unavailable, "BW-ATTEMPT-003")
	if got := h.attempts(t); got[0] != "not_sent" || len(h.nodes["w1"].Log().Of(talosd.MethodApply)) != 0 {
		t.Errorf("the attempt is %v", got)
	}
	succeeded(t, c.apply(t, "w1", noReboot(t, labelled("one"))))
}

// A sending connection that died between evidence and send is not replaced by another: the
// attempt is not_sent if that was noticed in time, else unresolved, and nothing arrives.
func TestAConnectionThatDiedBeforeTheSendIsNotReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		hurried(s)
		s.proxied = true
	})
	f := h.proxy.Order(faults.HoldReply, attemptRow)
	answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	<-f.Met()
	h.nodes["w1"].ResetConnections()
	f.Release()
	a, state := <-answers, h.attempts(t)[0]
	want := map[string]codes.Code{"not_sent": codes.Unavailable, "unresolved": codes.DeadlineExceeded}
	if code, known := want[state]; !known || a.code() != code {
		t.Errorf("the attempt is %s, the caller was told %v", state, a.err)
	}
	if n := len(h.nodes["w1"].Log().Of(talosd.MethodApply)); n != 0 {
		t.Errorf("%d applies arrived", n)
	}
}

// A dry run that is not answered is Unavailable, never a success, and holds nothing.
func TestADryRunWithoutAnAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	h := newHouse(t, hurried)
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.DropAnswer, DryRuns: true}))
	c := h.as(t, "olga")
	request := applyRequest(t, labelled("one"), machine.ApplyConfigurationRequest_NO_REBOOT, true)
	refusedWith(t, c.apply(t, "w1", request), codes.Unavailable, "BW-UPSTREAM-002")
	succeeded(t, c.apply(t, "w1", request))
}

// What the database was away for at the end is written when it comes back, and the answer waits for it.
func TestTheOutcomeWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.proxied = true })
	h.paused(t, "w1", 1)
	answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	f := h.proxy.Order(faults.CutRequest, faults.Closing)
	h.nodes["w1"].Resume()
	<-f.Met()
	succeeded(t, <-answers)
	if got := h.attempts(t); got[0] != "completed" {
		t.Errorf("the attempt is %v", got)
	}
}
