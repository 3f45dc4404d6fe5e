package gateway

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/world"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// approveFor approves a change in the database itself, as ada: which door it came through is
// not what a kill is about.
func (s *street) approveFor(t *testing.T, id control.ChangeID) {
	t.Helper()
	ctx := context.Background()
	store := must(control.Open(ctx, control.Config{URL: s.Postgres.DSN(world.Database, "gateway"), Instance: "test", Logger: slog.New(slog.DiscardHandler)}))(t)
	defer store.Close()
	c := must(store.GetChange(ctx, id))(t)
	ada := control.Approver{Person: policy.Person{Issuer: s.PeopleIssuer(), Subject: "ada"}, Kind: "human", Groups: []string{idp.GroupApprovers}}
	act := admin("changes.approve")
	act.By = ada.Person
	_, err := store.Approve(ctx, ada, []control.ApproveOne{{ID: id, Digest: c.Digest}}, act)
	ok(t, err)
}

// changesOf are the states of a machine's changes, oldest first.
func (s *street) changesOf(t *testing.T, machine string) string {
	t.Helper()
	return strings.Join(must(s.db.Texts(context.Background(),
		"select state from control.change_rows where machine = $1 order by created_at", machine))(t), " ")
}

// die kills the process, lets go of what was held, and waits until the database has noticed.
func (s *street) die(t *testing.T, p *process, instance string, release func()) {
	t.Helper()
	p.kill()
	release()
	eventually(t, "the dead gateway's sessions to end", func() bool {
		return must(s.db.Count(context.Background(), "select count(*) from pg_stat_activity where application_name = $1", "bronzeward "+instance))(t) == 0
	})
}

// I17 with approvals: a gateway that is killed while it captures leaves the change whole or
// not at all, and the retry finds it; one that is killed between spending and sending leaves
// the change spent, and nothing lands, then or later.
func TestAGatewayKilledWithAChangeInItsHands(t *testing.T) {
	s := newStreet(t, 3, 1)
	ctx := context.Background()
	// Each point has a machine of its own, and none waits for another's.
	ok(t, s.db.Exec(ctx, "update control.clusters set rollout_limit = 100"))
	text := func(machine string) []byte {
		active, _ := s.Nodes[machine].Active()
		return []byte(strings.Replace(string(active), "machine:\n", "machine:\n    nodeLabels:\n        test.bronzeward/value: killed\n", 1))
	}

	t.Run("before the capture's commit", func(t *testing.T) {
		request := noReboot(t, text("worker-1"))
		p := s.serve(t, "victim-1")
		let := must(s.db.HoldAuthority(ctx))(t)
		answers := s.as(t, "olga").goApply(bounded(t), "worker-1", request)
		eventually(t, "the decision to wait", func() bool { return must(s.db.Waiting(ctx))(t) > 0 })
		s.die(t, p, "victim-1", func() { ok(t, let()) })
		if a := <-answers; a.err == nil || strings.Contains(a.text(), "chg_") {
			t.Errorf("the caller was told %v", a.err)
		}
		if got := s.changesOf(t, "worker-1"); got != "" {
			t.Errorf("changes left are %s", got)
		}
		heir := s.serve(t, "heir-1")
		waits(t, s.as(t, "olga").apply(t, "worker-1", request))
		if got := s.changesOf(t, "worker-1"); got != "waiting" {
			t.Errorf("after the retry the changes are %s", got)
		}
		heir.kill()
	})

	t.Run("after the capture's commit, before the answer", func(t *testing.T) {
		request := noReboot(t, text("worker-2"))
		p := s.serve(t, "victim-2")
		f := s.proxy.Order(faults.HoldReply, "insert into control.changes")
		answers := s.as(t, "olga").goApply(bounded(t), "worker-2", request)
		<-f.Met()
		s.die(t, p, "victim-2", f.Release)
		<-answers
		if got := s.changesOf(t, "worker-2"); got != "waiting" {
			t.Fatalf("changes left are %q", got)
		}
		left := must(s.db.Texts(ctx, `select e.change_id from audit.entries e join control.change_rows c on c.entry_id = e.id
			where c.machine = 'worker-2' and e.verdict = 'deny' and exists (select from control.sealed_bytes b where b.change_id = c.id)`))(t)
		heir := s.serve(t, "heir-2")
		id := waits(t, s.as(t, "otto").apply(t, "worker-2", request))
		if len(left) != 1 || left[0] != id.String() || s.changesOf(t, "worker-2") != "waiting" {
			t.Errorf("left were %v, found is %s, there are %s", left, id, s.changesOf(t, "worker-2"))
		}
		s.approveFor(t, id)
		succeeded(t, s.as(t, "otto").apply(t, "worker-2", request))
		if got := s.changesOf(t, "worker-2"); got != "spent" {
			t.Errorf("the changes are %s", got)
		}
		heir.kill()
	})

	t.Run("after the spending's commit, before the send", func(t *testing.T) {
		request := noReboot(t, text("worker-3"))
		p := s.serve(t, "victim-3")
		id := waits(t, s.as(t, "olga").apply(t, "worker-3", request))
		s.approveFor(t, id)
		f := s.proxy.Order(faults.HoldReply, attemptRow)
		answers := s.as(t, "olga").goApply(bounded(t), "worker-3", request)
		<-f.Met()
		s.die(t, p, "victim-3", f.Release)
		if a := <-answers; a.err == nil {
			t.Error("the caller was told of a success")
		}
		if got := s.changesOf(t, "worker-3") + ", " + strings.Join(s.states(t, "worker-3"), " "); got != "spent, open" {
			t.Errorf("left are %s", got)
		}
		heir := s.serve(t, "heir-3")
		refusedWith(t, s.as(t, "otto").apply(t, "worker-3", request), codes.PermissionDenied, "BW-HOLDS")
		// As if the lease's time had gone by.
		ok(t, s.db.Exec(ctx, `update control.attempts set opened_at = opened_at - interval '10 minutes',
			send_by = send_by - interval '10 minutes', lease_until = lease_until - interval '10 minutes',
			transport_deadline = transport_deadline - interval '10 minutes' where state = 'open'`))
		eventually(t, "the attempt to be unresolved", func() bool { return strings.Join(s.states(t, "worker-3"), " ") == "unresolved" })
		refusedWith(t, s.as(t, "otto").apply(t, "worker-3", request), codes.PermissionDenied, "BW-HOLDS")
		if got := s.changesOf(t, "worker-3"); got != "spent" {
			t.Errorf("the changes are %s", got)
		}
		if n := len(s.Nodes["worker-3"].Log().Applies()); n != 0 {
			t.Errorf("the node was sent %d applies", n)
		}
		heir.kill()
	})

	sent := 0
	for _, n := range s.Nodes {
		sent += len(n.Log().Applies())
	}
	if sent != 1 {
		t.Errorf("%d applies were sent in all, want the one that was approved and asked for", sent)
	}
}
