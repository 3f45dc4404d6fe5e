package gateway

import (
	"context"
	"strings"
	"testing"

	"bronzeward/fixtures/faults"
	"bronzeward/gateway/httpapi/api"
)

// readyToEnd enters recovery at a process, and does all that is on its list.
func (s *street) readyToEnd(t *testing.T, at *process) {
	t.Helper()
	if out, err := s.again(t, at, entering...); err != nil {
		t.Fatalf("entering: %v\n%s", err, out)
	}
	for name := range s.Nodes {
		_ = must(s.At(at.Gateway).Bronzeward(context.Background(), "olga", "machines", "observe", name))(t)
		if out, err := s.again(t, at, "release", name); err != nil {
			t.Fatalf("releasing %s: %v\n%s", name, err, out)
		}
	}
	s.stands(t, at, api.Entered)
}

// ended is how many recoveries have ended.
func (s *street) ended(t *testing.T) int {
	t.Helper()
	return must(s.db.Count(context.Background(), "select count(*) from control.recovery_exits"))(t)
}

// A gateway that is killed between the two writings of ending a recovery leaves a house in recovery,
// and one that is killed after both, before it answers, one that is over it. The same command at a
// fresh process ends it, or says that it has ended. The points are those of the table in
// docs/recovery.md.
func TestAGatewayKilledWhileItEndsRecovery(t *testing.T) {
	s := newStreet(t, 1, 0)
	for i, point := range []struct {
		name  string
		pause func(*testing.T) (reached, release func())
		over  bool // the database knows
		state api.RecoveryState
		// refused is the code of an apply that comes then, and again of ending once more; empty when it is done.
		refused, again string
	}{
		{
			name: "the anchor knows, the database does not",
			pause: func(t *testing.T) (func(), func()) {
				let := must(s.db.HoldAuthority(context.Background()))(t)
				return func() {
					eventually(t, "OpenBao to be told", func() bool { return s.anchor(t)["recovering"] == nil })
					eventually(t, "ending to wait", func() bool { return must(s.db.Waiting(context.Background()))(t) > 0 })
				}, func() { ok(t, let()) }
			},
			state: api.Entered, refused: codeInRecovery,
		},
		{
			name: "both know, and nobody was told",
			pause: func(*testing.T) (func(), func()) {
				f := s.proxy.Order(faults.HoldReply, "insert into control.recovery_exits")
				return func() { <-f.Met() }, f.Release
			},
			over: true, state: api.None, again: "BW-RECOVERY-006",
		},
	} {
		t.Run(point.name, func(t *testing.T) {
			name := "victim-" + itoa(i)
			victim := s.serve(t, name)
			s.readyToEnd(t, victim)
			before := s.ended(t)
			reached, release := point.pause(t)
			first := s.recovery(victim, "exit")
			ok(t, first.Start())
			reached()
			victim.kill()
			release()
			if err := first.Wait(); err == nil {
				t.Error("whoever ended it was told of a success")
			}
			s.sessionsEnd(t, name)
			if over := s.ended(t) > before; over != point.over || s.anchor(t)["recovering"] != nil {
				t.Fatalf("the database is over it: %v; the anchor has %v", over, s.anchor(t))
			}

			heir := s.serve(t, "heir-"+itoa(i))
			s.stands(t, heir, point.state)
			s.applies(t, "before it was ended again, "+name, point.refused)
			out, err := s.again(t, heir, "exit")
			if point.again == "" && err != nil || point.again != "" && (err == nil || !strings.Contains(out, point.again)) {
				t.Fatalf("ending again: %v\n%s\nthe gateway:\n%s", err, out, heir.Log())
			}
			if n := s.ended(t); n != before+1 || s.anchor(t)["recovering"] != nil {
				t.Errorf("%d recoveries have ended, of %d; the anchor has %v", n, before+1, s.anchor(t))
			}
			s.stands(t, heir, api.None)
			s.applies(t, "once it was ended, "+name, "")
			heir.kill()
			if strings.Contains(heir.Log(), "panic") {
				t.Errorf("the fresh process panicked:\n%s", heir.Log())
			}
		})
	}
}
