package gateway

import (
	"testing"

	"bronzeward/fixtures/talosd"
)

// An attempt whose machine's row somebody has locked waits alone: that of another machine is marked
// unresolved, and completed, meanwhile. Each machine is the locked one once, so that whoever settled
// them one after the other would wait in one of the two.
func TestAnAttemptThatCannotBeSettledHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, locked, other, state, settled string }{
		{"their owner is gone, the first is locked", "w1", "w2", "open", "unresolved"},
		{"their owner is gone, the second is locked", "w2", "w1", "open", "unresolved"},
		{"they have landed, the first is locked", "w1", "w2", "unresolved", "completed"},
		{"they have landed, the second is locked", "w2", "w1", "unresolved", "completed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) {
				hurried(s)
				s.workers = 2
			})
			ok(t, h.db.Exec(t.Context(), "update control.clusters set rollout_limit = 2"))
			for _, name := range []string{"w1", "w2"} {
				ok(t, h.nodes[name].Fault(talosd.Fault{Kind: talosd.ResetBefore}))
				_ = h.as(t, "olga").apply(t, name, noReboot(t, labelled("one")))
				ok(t, h.nodes[name].SetConfig(labelled("one")))
			}
			if row.state == "open" {
				ok(t, h.db.Exec(t.Context(), "update control.attempts set state = 'open', unresolved_at = null, instance = 'gone'"))
				h.leaseEnds(t)
			}
			letGo := must(h.db.Hold(t.Context(), "select from control.machines where name = $1 for update", row.locked))(t)
			done := make(chan error, 1)
			go func() { done <- h.gw.settleOnce(t.Context()) }()
			of := func(machine string) string {
				return h.texts(t, "select a.state from control.attempts a join control.machines m on m.id = a.machine_id where m.name = $1", machine)[0]
			}
			eventually(t, row.other+"'s attempt to be "+row.settled, func() bool { return of(row.other) == row.settled })
			h.waiting(t, 1)
			if got := of(row.locked); got != row.state {
				t.Errorf("the attempt on the locked machine is %s", got)
			}
			ok(t, letGo())
			ok(t, <-done)
			if a, b := of(row.locked), of(row.other); a != "completed" || b != "completed" {
				t.Errorf("in the end the attempts are %s and %s", a, b)
			}
		})
	}
}
