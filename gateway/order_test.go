package gateway

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// attemptRow is in the text of the statement that opens an attempt.
const attemptRow = "insert into control.attempts"

// An ordinary apply: the decision and the attempt are in the book, the node has the very
// bytes once, and the attempt is completed by what was read back.
func TestAnApplyGoesItsWay(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	request := noReboot(t, labelled("one"))
	a := succeeded(t, h.as(t, "olga").apply(t, "w1", request))
	applies := h.applies("w1")
	if len(applies) != 1 || len(applies[0].Requests) != 1 || string(applies[0].Requests[0].Bytes) != string(request) {
		t.Fatalf("the node was sent %d applies, or other bytes", len(applies))
	}
	if active, _ := h.nodes["w1"].Active(); string(active) != string(labelled("one")) {
		t.Error("the node does not hold what was sent")
	}
	if got := h.attempts(t); len(got) != 1 || got[0] != "completed" {
		t.Errorf("attempts are %v", got)
	}
	if n := h.count(t, "select count(*) from audit.entries where id::text = $1 and verdict = 'allow' and method = $2", a.decisions()[0], talosd.MethodApply); n != 1 {
		t.Errorf("%d entries have the trailer's id %v", n, a.decisions())
	}
	// Both clocks are this machine's: the row was inserted before the node heard of the call.
	if n := h.count(t, "select count(*) from audit.entries where attempt_id is not null and recorded_at < $1", applies[0].At); n != 1 {
		t.Error("the node heard of the apply before its entry was inserted")
	}
}

// I1: no byte of an apply leaves before its entry and attempt are committed, whatever the
// commit is waiting for.
func TestNoByteOfAnApplyLeavesBeforeTheCommit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		// hold keeps the commit; its result tells when it is reached, and lets it go.
		hold func(t *testing.T, h *house) (reached func(), release func())
		// committed says whether another connection sees the rows meanwhile.
		committed int
	}{
		{"while somebody holds the authority lock", func(t *testing.T, h *house) (func(), func()) {
			let := must(h.db.HoldAuthority(t.Context()))(t)
			return func() { h.waiting(t, 1) }, func() { ok(t, let()) }
		}, 0},
		{"while COMMIT is on its way", func(_ *testing.T, h *house) (func(), func()) {
			f := h.proxy.Order(faults.HoldRequest, attemptRow)
			return func() { <-f.Met() }, f.Release
		}, 0},
		{"while COMMIT's answer is on its way", func(_ *testing.T, h *house) (func(), func()) {
			f := h.proxy.Order(faults.HoldReply, attemptRow)
			return func() { <-f.Met() }, f.Release
		}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) { s.proxied = true })
			reached, release := row.hold(t, h)
			answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
			reached()
			if n := len(h.nodes["w1"].Log().Of(talosd.MethodApply)); n != 0 {
				t.Errorf("the node was sent %d applies before the commit was known", n)
			}
			if n := h.count(t, "select count(*) from control.attempts a join audit.entries e on e.id = a.entry_id"); n != row.committed {
				t.Errorf("%d attempts with their entry are committed, want %d", n, row.committed)
			}
			release()
			succeeded(t, <-answers)
			if n := len(h.applies("w1")); n != 1 {
				t.Errorf("the node was sent %d applies", n)
			}
		})
	}
}

// I1 for reads: a read's entry is committed before the node hears of the call.
func TestNoByteOfAReadLeavesBeforeItsEntry(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	release := must(h.db.HoldAuthority(t.Context()))(t)
	answers := make(chan answer, 1)
	c := h.as(t, "vera")
	go func() { answers <- c.call(bounded(t), methodVersion, to("w1"), nil) }()
	h.waiting(t, 1)
	h.untouched(t, "w1")
	ok(t, release())
	succeeded(t, <-answers)
}

// waiting returns once so many sessions wait for a lock.
func (h *house) waiting(t testing.TB, n int) {
	t.Helper()
	eventually(t, "sessions that wait for a lock", func() bool {
		return must(h.db.Waiting(context.Background()))(t) >= n
	})
}

// I2: with PostgreSQL away nothing is forwarded and everybody hears Unavailable; with it
// back, everything goes on.
func TestWithoutPostgreSQLNothingIsForwarded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		away, back func(t *testing.T, own *pgtest.Shared)
	}{
		{
			"stopped", func(t *testing.T, own *pgtest.Shared) { ok(t, own.Server(t).Stop()) },
			func(t *testing.T, own *pgtest.Shared) { ok(t, own.Server(t).Restart(context.Background())) },
		},
		{
			"frozen", func(t *testing.T, own *pgtest.Shared) { ok(t, own.Server(t).Pause()) },
			func(t *testing.T, own *pgtest.Shared) { ok(t, own.Server(t).Resume()) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			own := &pgtest.Shared{}
			t.Cleanup(func() { ok(t, own.Close()) })
			h := newHouse(t, func(s *setup) {
				s.server, s.following = own, true
				s.book = func(c *audit.BookConfig) { c.BatchTimeout, c.UnknownTimeout = time.Second, time.Second }
			})
			c := h.as(t, "olga")
			succeeded(t, c.version(t, "w1"))
			before := len(h.nodes["w1"].Log().Calls())
			row.away(t, own)
			apply := c.goApply(bounded(t), "w1", noReboot(t, labelled("one")))
			if a := c.version(t, "w1"); a.code() != codes.Unavailable {
				t.Errorf("a read got %v", a.err)
			}
			if a := <-apply; a.code() != codes.Unavailable {
				t.Errorf("an apply got %v", a.err)
			}
			for _, call := range h.nodes["w1"].Log().Calls()[before:] {
				if call.Method == methodVersion && call.Metadata[DecisionTrailer] != nil || call.Method == talosd.MethodApply {
					t.Errorf("the node was sent %s", call.Method)
				}
			}
			row.back(t, own)
			eventually(t, "a read that is answered", func() bool { return c.version(t, "w1").err == nil })
			succeeded(t, c.apply(t, "w1", noReboot(t, labelled("two"))))
		})
	}
}

// I1: a COMMIT that errs is unknown. What was committed is not sent, not even later; the
// machine is held by it, and it ends unresolved.
func TestACommitWithoutAnAnswerIsNeverSent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.proxied = true })
	c := h.as(t, "olga")
	f := h.proxy.Order(faults.CutReply, attemptRow)
	a := c.apply(t, "w1", noReboot(t, labelled("one")))
	<-f.Met()
	refusedWith(t, a, codes.Unavailable, "BW-BOOK-001")
	if got := h.attempts(t); len(got) != 1 || got[0] != "open" {
		t.Fatalf("attempts are %v", got)
	}
	refusedWith(t, c.apply(t, "w1", noReboot(t, labelled("two"))), codes.PermissionDenied, "BW-HOLDS")

	h.leaseEnds(t)
	ok(t, h.gw.settleOnce(t.Context()))
	ok(t, h.gw.settleOnce(t.Context()))
	if got := h.attempts(t); got[0] != string(control.StateUnresolved) {
		t.Errorf("after its lease the attempt is %v", got)
	}
	if n := len(h.applies("w1")); n != 0 {
		t.Errorf("the node was sent %d applies", n)
	}
}

// A COMMIT that never reached the server leaves nothing, and the machine free.
func TestACommitThatNeverArrivedLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.proxied = true })
	c := h.as(t, "olga")
	h.proxy.Order(faults.CutRequest, attemptRow)
	if a := c.apply(t, "w1", noReboot(t, labelled("one"))); a.code() != codes.Unavailable {
		t.Errorf("the apply got %v", a.err)
	}
	if n := len(h.attempts(t)); n != 0 || len(h.applies("w1")) != 0 {
		t.Errorf("%d attempts are recorded, %d applies were sent", n, len(h.applies("w1")))
	}
	succeeded(t, c.apply(t, "w1", noReboot(t, labelled("two"))))
}

// leaseEnds moves all open attempts into the past, as if their owner had long been gone.
func (h *house) leaseEnds(t testing.TB) {
	t.Helper()
	ok(t, h.db.Exec(context.Background(), `update control.attempts set opened_at = opened_at - interval '10 minutes',
		send_by = send_by - interval '10 minutes', lease_until = lease_until - interval '10 minutes',
		transport_deadline = transport_deadline - interval '10 minutes' where state = 'open'`))
}
