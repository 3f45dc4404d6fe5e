package control

import (
	"testing"

	"bronzeward/policy"
)

// showing is an apply whose evidence shows this.
func showing(t testing.TB, s *Store, active, persistent string) Request {
	t.Helper()
	r := apply(get(t, s, "w1"), anna)
	r.Active, r.Persistent = active, persistent
	return r
}

// An apply may come before any sight has seen what somebody did round the gateway: its own
// evidence shows it then, and it is refused as it would be a moment later. Without what the
// evidence shows, the attempt opens on a machine that has drifted.
func TestAnApplyThatSeesADriftFirstIsRefused(t *testing.T) {
	old := "hmac-sha256:k0:" + digestC[len("hmac-sha256:k1:"):]
	rows := map[string]struct {
		active, persistent string
		refused            bool
	}{
		"both are others":                {digestC, digestC, true},
		"what is on the disk is another": {digestB, digestC, true},
		"what runs is another":           {digestC, digestB, true},
		"control: as applied":            {digestB, digestB, false},
		"control: nothing is shown":      {"", "", false},
		"of another key":                 {old, old, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
			var holds []policy.Hold
			_, err := s.Admit(t.Context(), showing(t, s, row.active, row.persistent), func(l Locked) Judgement {
				holds = l.Holds
				return allow(l)
			})
			if !row.refused {
				if err != nil || len(holds) != 0 || w.count(t, "select count(*) from control.attempts") != 1 {
					t.Errorf("it is held by %v: %v", holds, err)
				}
				return
			}
			wantGuard(t, err, "attempts_no_unseen_drift")
			if len(holds) != 1 || holds[0].Kind != policy.HoldDrift || holds[0].ID != "" {
				t.Errorf("the holds are %v", holds)
			}
			if n := w.count(t, "select count(*) from control.attempts"); n != 0 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}

// What was never applied drifts from nothing, an open drift holds by its own name, and what an
// attempt explains that landed after it was accounted for is no drift.
func TestWhatIsNoUnseenDrift(t *testing.T) {
	held := func(t *testing.T, s *Store, r Request) (out []string) {
		t.Helper()
		_, err := s.Admit(t.Context(), r, func(l Locked) Judgement {
			for _, h := range l.Holds {
				out = append(out, h.Kind+" "+h.ID)
			}
			return allowOnly(l)
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Run("never applied", func(t *testing.T) {
		s := newWorld(t).house(t, 1)
		if got := held(t, s, showing(t, s, digestC, digestC)); len(got) != 0 {
			t.Errorf("the holds are %v", got)
		}
	})
	t.Run("open", func(t *testing.T) {
		s := newWorld(t).house(t, 1)
		d := drifted(t, s, "w1")
		if got := held(t, s, showing(t, s, digestC, digestC)); len(got) != 1 || got[0] != "drift "+d.ID.String() {
			t.Errorf("the holds are %v", got)
		}
	})
	t.Run("landed late", func(t *testing.T) {
		w := newWorld(t)
		s := w.house(t, 1)
		sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
		w.judge(t, s, open(t, s, "w1", anna), false)
		if got := held(t, s, showing(t, s, digestA, digestA)); len(got) != 0 {
			t.Errorf("the holds are %v", got)
		}
		if got := held(t, s, showing(t, s, digestA, digestC)); len(got) != 1 {
			t.Errorf("half of it is no landing, and the holds are %v", got)
		}
	})
}

// The row says it once more: a Go that had not looked at the evidence would be stopped there. Without
// the trigger the attempt opens on a machine that has drifted. It refuses nothing that Go lets through:
// what was applied last, what is under another key, what landed late, and where nothing was applied.
func TestTheRowRefusesAnUnseenDriftToo(t *testing.T) {
	old := "hmac-sha256:k0:" + digestC[len("hmac-sha256:k1:"):]
	const trigger = "drop trigger attempts_unseen_drift on control.attempts"
	for name, row := range map[string]struct {
		active, persistent string
		before             func(t *testing.T, w *world, s *Store)
		refused            bool
	}{
		"both are others":                {digestC, digestC, nil, true},
		"what is on the disk is another": {digestB, digestC, nil, true},
		"what runs is another":           {digestC, digestB, nil, true},
		"half of it landed late":         {digestA, digestC, judged, true},
		"it landed late, more than a day ago": {digestA, digestA, func(t *testing.T, w *world, s *Store) {
			judged(t, w, s)
			w.exec(t, "update control.attempts set closed_at = closed_at - interval '25 hours', unresolved_at = unresolved_at - interval '25 hours'")
		}, true},
		"control: as applied":     {digestB, digestB, nil, false},
		"control: of another key": {old, old, nil, false},
		"control: it landed late": {digestA, digestA, judged, false},
		"control: nothing was applied": {digestC, digestC, func(t *testing.T, w *world, _ *Store) {
			w.exec(t, "update control.machines set applied_active = '', applied_persistent = ''")
		}, false},
		"control: the guard is taken away": {digestC, digestC, func(t *testing.T, w *world, _ *Store) { w.exec(t, trigger) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
			if row.before != nil {
				row.before(t, w, s)
			}
			was := w.count(t, "select count(*) from control.attempts")
			// The request does not say what was read, so Go sees nothing.
			_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), func(l Locked) Judgement {
				j := allow(l)
				j.Attempt.Base, j.Attempt.Persistent = row.active, row.persistent
				return j
			})
			if row.refused {
				wantGuard(t, err, "attempts_no_unseen_drift")
			} else if err != nil {
				t.Error(err)
			}
			if n := w.count(t, "select count(*) from control.attempts") - was; (n == 0) != row.refused {
				t.Errorf("%d attempts were opened", n)
			}
		})
	}
}

// judged has an attempt of digestA that was accounted for as not landed.
func judged(t *testing.T, w *world, s *Store) {
	t.Helper()
	w.judge(t, s, open(t, s, "w1", anna), false)
}
