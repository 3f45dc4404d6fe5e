package control

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// later lets time pass for what replicas told, which nobody may do but the one who owns the database.
func (w *world) later(t testing.TB, span string) {
	t.Helper()
	w.exec(t, "update control.replicas set heard_at = heard_at - $1::text::interval, started_at = started_at - $1::text::interval", span)
}

func (w *world) replicas(t testing.TB, s *Store) Replicas {
	t.Helper()
	all, err := s.Replicas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What replicas told is known by their names and processes, and they agree only when each of them is heard
// and has loaded the live law.
func TestReplicasAgreeWhenAllThatAreThereSaySo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.house(t, 0)
	two := w.store(t, "gw-2", nil)
	report := func(s *Store, r ReplicaReport) {
		t.Helper()
		if err := s.ReportReplica(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	agree := func(want string, listed int) {
		t.Helper()
		all := w.replicas(t, one)
		if all.Agree() != want || len(all.List) != listed || all.Live == "" {
			t.Errorf("agree is %q, want %q; %d listed, want %d: %+v", all.Agree(), want, len(all.List), listed, all)
		}
	}
	agree(AgreeUnknown, 0)
	r1, r2 := ReplicaReport{Process: uuid.New(), Loaded: revision1, Counter: 1}, ReplicaReport{Process: uuid.New(), Loaded: revision1, Counter: 1}
	report(one, r1)
	agree(AgreeYes, 1)
	r2.Loaded, r2.Wanted, r2.FailedWhy = "", revision1, strings.Repeat("é", 3000)
	report(two, r2)
	agree(AgreeNo, 2)
	if lag := w.replicas(t, one).Lagging(); len(lag) != 1 || lag[0].Instance != "gw-2" || lag[0].LoadedAt != nil || len([]rune(lag[0].FailedWhy)) != 2000 {
		t.Errorf("lagging: %+v", lag)
	}
	r2.Loaded, r2.FailedWhy = revision1, ""
	report(two, r2)
	agree(AgreeYes, 2)
	w.activate(t, one, revision2)
	agree(AgreeNo, 2)
	r1.Loaded, r2.Loaded = revision2, revision2
	report(one, r1)
	report(two, r2)
	agree(AgreeYes, 2)

	w.later(t, "1 minute")
	agree(AgreeUnknown, 2)
	report(one, r1)
	agree(AgreeUnknown, 2) // the other one is silent
	r3 := ReplicaReport{Process: uuid.New(), Loaded: revision2}
	report(two, r3)
	agree(AgreeYes, 2) // another process has its name
	w.later(t, "1 minute")
	report(one, r1)
	agree(AgreeUnknown, 2)
	r3.Stopped = true
	report(two, r3)
	agree(AgreeYes, 1) // it said that it stops
	w.later(t, "25 hours")
	agree(AgreeUnknown, 0)
}

// A replica that is gone does not look alive because its clock was ahead: when it was heard is said by the
// database. The control takes that away.
func TestAReplicasOwnClockDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{true, false} {
		w := newWorld(t)
		s := w.house(t, 0)
		if !guarded {
			w.exec(t, "drop trigger replicas_heard on control.replicas")
		}
		if _, err := s.pool.Exec(t.Context(), `insert into control.replicas (instance, process, loaded_revision, heard_at)
			values ('gw-9', gen_random_uuid(), $1, clock_timestamp() + interval '1 hour')`, revision1); err != nil {
			t.Fatal(err)
		}
		if got := w.replicas(t, s).Agree(); got != AgreeYes {
			t.Errorf("guarded %v: while it is there: %q", guarded, got)
		}
		w.later(t, "1 minute") // it is gone
		all := w.replicas(t, s)
		want := AgreeUnknown
		if !guarded {
			want = AgreeYes
		}
		if got := all.Agree(); got != want || len(all.List) != 1 || all.List[0].Heard() == guarded {
			t.Errorf("guarded %v: after it is gone: %q, want %q: %+v", guarded, got, want, all.List)
		}
	}
}
