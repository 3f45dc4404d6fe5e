package gateway

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/talosd"
)

// An owner that is stopped past its lease, and goes on afterwards, neither sends nor says anything
// of its attempt: another replica has taken it over meanwhile, and what that saw stands.
func TestAStaleOwnerNeitherSendsNorSays(t *testing.T) {
	s := newStreet(t, 2, 0)
	ok(t, s.db.Exec(context.Background(), "update control.clusters set rollout_limit = 100"))
	for i, p := range []struct {
		name, machine string
		// pause lets the owner go on until it is to be stopped; seen is called once the other one
		// has taken over, and lets the world go on.
		pause func(t *testing.T) (reached, seen func())
		then  string
		sent  int
		told  string
	}{
		{"before its send", "worker-1", func(*testing.T) (func(), func()) {
			f := s.proxy.Order(faults.HoldReply, attemptRow)
			return func() { <-f.Met() }, f.Release
		}, "unresolved", 0, "BW-ATTEMPT-003"},
		{"while the node is at work", "worker-2", func(t *testing.T) (func(), func()) {
			n := s.Nodes["worker-2"]
			ok(t, n.Fault(talosd.Fault{Kind: talosd.Pause}))
			return func() { ok(t, n.Log().Wait(bounded(t), heldNow)) }, n.Resume
		}, "completed", 1, "BW-ATTEMPT-002"},
	} {
		t.Run(p.name, func(t *testing.T) {
			node := s.Nodes[p.machine]
			active, _ := node.Active()
			text := []byte(strings.Replace(string(active), "machine:\n", "machine:\n    nodeLabels:\n        test.bronzeward/value: stale\n", 1))
			owner := s.serve(t, "owner-"+itoa(i))
			reached, seen := p.pause(t)
			answers := s.as(t, "olga").goApply(bounded(t), p.machine, noReboot(t, text))
			reached()
			eventually(t, "the attempt", func() bool { return strings.Join(s.states(t, p.machine), " ") == "open" })
			ok(t, owner.Pause())
			t.Cleanup(func() { _ = owner.Resume() }) // before it is killed
			// Its own time to send goes by, and, as if it were so, that of its lease.
			eventually(t, "the time to send to be over", func() bool {
				return must(s.db.Count(context.Background(), "select count(*) from control.attempts where state = 'open' and send_by < clock_timestamp()"))(t) == 1
			})
			ok(t, s.db.Exec(context.Background(), `update control.attempts set opened_at = opened_at - interval '10 minutes',
				send_by = send_by - interval '10 minutes', lease_until = lease_until - interval '10 minutes',
				transport_deadline = transport_deadline - interval '10 minutes' where state = 'open'`))
			heir := s.serveAt(t, "heir-"+itoa(i), freeAddress(t))
			eventually(t, "the attempt to be taken over", func() bool { return strings.Join(s.states(t, p.machine), " ") == "unresolved" })
			seen()
			eventually(t, "the attempt to be "+p.then, func() bool { return strings.Join(s.states(t, p.machine), " ") == p.then })
			before := s.outcomes(t, p.machine)
			ok(t, owner.Resume())
			a := <-answers
			// Whether the stopped one still learns that it had committed is a race of its own.
			if a.code() != codes.Unavailable || !strings.Contains(a.text(), p.told) && !strings.Contains(a.text(), "BW-BOOK-001") {
				t.Errorf("the caller was told %v", a.err)
			}
			if got := s.outcomes(t, p.machine); got != before {
				t.Errorf("the stale owner wrote outcomes: %s, before %s", got, before)
			}
			if got := strings.Join(s.states(t, p.machine), " "); got != p.then {
				t.Errorf("the attempt is %s, want %s", got, p.then)
			}
			if n := len(node.Log().Applies()); n != p.sent {
				t.Errorf("the node was sent %d applies, want %d", n, p.sent)
			}
			owner.kill()
			heir.kill()
		})
	}
}

// outcomes are the kinds and writers of all that was written about the machine's attempts.
func (s *street) outcomes(t *testing.T, machine string) string {
	t.Helper()
	return strings.Join(must(s.db.Texts(context.Background(), `select o.kind || ' by ' || o.instance from audit.outcomes o
		join control.attempts a on a.id = o.attempt_id join control.machines m on m.id = a.machine_id
		where m.name = $1 order by o.recorded_at, o.id`, machine))(t), ", ")
}
