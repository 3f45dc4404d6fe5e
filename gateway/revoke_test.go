package gateway

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

func (h *house) revoke(t testing.TB, subject string) {
	t.Helper()
	_, err := h.store.RevokeIdentity(context.Background(), policy.Person{Issuer: issuer, Subject: subject}, "left", admin("identities.revoke"))
	ok(t, err)
}

// I4: who is revoked is refused for good, on every way, retries included; others are not.
func TestARevokedPersonIsRefusedOnEveryWay(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	olga := h.as(t, "olga")
	succeeded(t, olga.version(t, "w1"))
	h.revoke(t, "olga")
	before := len(h.nodes["w1"].Log().Calls())
	for range 3 {
		for method, a := range map[string]answer{
			"read":    olga.version(t, "w1"),
			"apply":   olga.apply(t, "w1", noReboot(t, labelled("one"))),
			"dry run": olga.apply(t, "w1", applyRequest(t, labelled("one"), 2, true)),
			"mutate":  olga.call(bounded(t), "/machine.MachineService/Reboot", to("w1"), nil),
		} {
			if a.code() != codes.PermissionDenied || len(a.decisions()) != 1 {
				t.Errorf("a %s of a revoked person got %v", method, a.err)
			}
		}
	}
	if calls := h.nodes["w1"].Log().Calls()[before:]; len(calls) != 0 {
		t.Errorf("the node was sent %d calls, the first is %s", len(calls), calls[0].Method)
	}
	if n := h.count(t, "select count(*) from audit.entries where caller_subject = 'olga' and verdict = 'deny'"); n != 12 {
		t.Errorf("%d refusals are in the book, want 12", n)
	}
	succeeded(t, h.as(t, "otto").version(t, "w1"))
}

// I3: a revocation this replica was never told of is seen by the very next call: not the
// hint but the version read under the lock decides.
func TestARevocationNobodyTellsIsSeenByTheNextCall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.control = func(c *control.Config) { c.PollEvery = time.Hour } })
	olga := h.as(t, "olga")
	succeeded(t, olga.version(t, "w1"))
	calls := len(h.nodes["w1"].Log().Of(methodVersion))
	ok(t, h.db.Exec(t.Context(), `with v as (update control.authority set version = version + 1 returning version)
		insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id)
		select $1, 'olga', 'left', version, gen_random_uuid() from v`, issuer))
	if h.store.Snapshot().Revoked(issuer, "olga") {
		t.Fatal("the replica was told: this test proves nothing")
	}
	if a := olga.version(t, "w1"); a.code() != codes.PermissionDenied {
		t.Errorf("the next read got %v", a.err)
	}
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n != calls {
		t.Error("the read was forwarded")
	}
}

// A call that the revocation meets before anything was decided about it is refused with an entry of
// its own, like every other.
func TestACallThatTheRevocationMeetsLeavesAnEntry(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	release := must(h.db.HoldAuthority(t.Context()))(t)
	olga, said := h.as(t, "olga"), make(chan answer, 1)
	go func() { said <- olga.version(t, "w1") }()
	h.waiting(t, 1)
	ok(t, h.db.Exec(t.Context(), `with v as (update control.authority set version = version + 1 returning version)
		insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id)
		select $1, 'olga', 'left', version, gen_random_uuid() from v`, issuer))
	must(h.store.Refresh(t.Context(), 0))(t)
	ok(t, release())
	a := <-said
	if a.code() != codes.PermissionDenied || len(a.decisions()) != 1 {
		t.Fatalf("got %v, decisions %v", a.err, a.decisions())
	}
	if n := h.count(t, "select count(*) from audit.entries where caller_subject = 'olga' and verdict = 'deny'"); n != 1 {
		t.Errorf("%d refusals are in the book, want 1", n)
	}
	if n := h.count(t, "select count(*) from audit.entries where caller_subject = 'olga' and verdict = 'allow'"); n != 0 {
		t.Errorf("%d allowances are in the book, want none", n)
	}
}

// I3: open streams of a revoked person end, those of others go on.
func TestOpenStreamsEndWithTheRevocation(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.following = true })
	olga := must(h.as(t, "olga").openEvents(bounded(t), "w1"))(t)
	otto := must(h.as(t, "otto").openEvents(bounded(t), "w1"))(t)
	h.streams(t, "w1", 2)
	h.revoke(t, "olga")
	refusedWith(t, finishCall(olga), codes.PermissionDenied, "BW-IDENTITY-001")
	eventually(t, "the node to see the end of olga's stream", func() bool { return h.running("w1", methodEvents) == 1 })
	h.nodes["w1"].ResetConnections()
	if a := finishCall(otto); a.code() == codes.PermissionDenied {
		t.Errorf("otto's stream ended with %v", a.err)
	}
}

// A revocation waits for a decision that is under way, and that decision's entry is of an
// older authority version. Control: without the shared lock the revocation returns first,
// and the apply of a revoked person still goes out afterwards.
func TestARevocationWaitsForTheApplyThatIsBeingDecided(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{true, false} {
		t.Run(map[bool]string{true: "lock", false: "control: no shared lock"}[guarded], func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) { s.proxied = true })
			if !guarded {
				ok(t, h.db.Exec(t.Context(), `create or replace function control.lock_authority_shared() returns void language sql as $$ select null::void $$`))
			}
			f := h.proxy.Order(faults.HoldRequest, attemptRow)
			apply := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
			<-f.Met()
			revoked := make(chan struct{})
			go func() {
				defer close(revoked)
				h.revoke(t, "olga")
			}()
			early := h.revokedOrWaiting(t, revoked)
			if n := h.count(t, "select count(*) from control.attempts"); n != 0 {
				t.Fatal("the decision is committed already: this test proves nothing")
			}
			f.Release()
			<-revoked
			succeeded(t, <-apply)
			if n := len(h.applies("w1")); n != 1 {
				t.Fatalf("the node was sent %d applies", n)
			}
			// What had returned before the decision could commit.
			if got := len(early) == 1; got == guarded {
				t.Errorf("the revocation returned before the decision was committed: %t", got)
			}
		})
	}
}

// revokedOrWaiting returns once the revocation has returned, with its row, or waits for a lock.
func (h *house) revokedOrWaiting(t testing.TB, revoked <-chan struct{}) []string {
	t.Helper()
	for {
		select {
		case <-revoked:
			return h.texts(t, "select subject from control.identity_revocations")
		default:
		}
		if must(h.db.Waiting(context.Background()))(t) > 0 {
			return nil
		}
	}
}

// openEvents follows a node's events.
func (c *client) openEvents(ctx context.Context, machine string) (grpc.ClientStream, error) {
	s, err := c.open(ctx, methodEvents, to(machine))
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(&message{}); err != nil {
		return nil, err
	}
	return s, s.CloseSend()
}

// streams waits until the node serves so many event streams.
func (h *house) streams(t testing.TB, node string, n int) {
	t.Helper()
	eventually(t, "streams at the node", func() bool { return h.running(node, methodEvents) == n })
}

// running is how many calls of the method the node is still serving.
func (h *house) running(node, method string) int {
	n := 0
	for _, c := range h.nodes[node].Log().Of(method) {
		if !c.Done {
			n++
		}
	}
	return n
}
