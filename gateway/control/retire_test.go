package control

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
)

func retire(t testing.TB, s *Store, name, reason string) Machine {
	t.Helper()
	m, _, err := s.RetireMachine(t.Context(), name, reason, by(admin, "machines.retire"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// lose leaves the machine with an unresolved attempt.
func (w *world) lose(t testing.TB, s *Store, name string) *Attempt {
	t.Helper()
	a := open(t, s, name, anna)
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateUnresolved, Reason: "no answer came"}); err != nil {
		t.Fatal(err)
	}
	return a
}

// A machine that never comes back frees the cluster's slot and its addresses, and nobody says
// what became of its attempt.
func TestARetiredMachineHoldsNobodyUp(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	waiting := propose(t, s, boris, proposal(get(t, s, "w1")))
	lost := w.lose(t, s, "w1")
	if got := heldBy(locked(t, s, "w2").Holds); got != "unresolved-attempt/cluster" {
		t.Fatalf("the other machine of the cluster is held by %q", got)
	}
	was := get(t, s, "w1")
	m := retire(t, s, "w1", "its board burnt")
	if m.Retired == nil || m.Retired.By != admin || m.Retired.Reason != "its board burnt" || len(m.Addresses) != 0 || m.Serial != was.Serial+1 {
		t.Errorf("retired as %+v", m)
	}
	open(t, s, "w2", boris)
	if got, err := s.GetAttempt(t.Context(), lost.ID); err != nil || got.State != StateUnresolved || got.Landed != nil {
		t.Errorf("the attempt is %s, landed %v, %v", got.State, got.Landed, err)
	}
	if c := wantState(t, s, waiting.ID, ChangeSuperseded); c.Reason != "the machine was retired: its board burnt" {
		t.Errorf("the change ended because %q", c.Reason)
	}
	held, err := s.ListAttempts(t.Context(), AttemptFilter{Held: true})
	if err != nil || slices.ContainsFunc(held, func(a Attempt) bool { return a.ID == lost.ID }) {
		t.Errorf("the attempt is listed as holding: %v", err)
	}
	if n := w.count(t, "select count(*) from audit.unresolved where attempt_id = $1 and not holds", lost.ID); n != 1 {
		t.Error("audit.unresolved says that it holds")
	}
	if _, _, err := s.AddMachine(t.Context(), NewMachine{Name: "w1-b", Cluster: "lab", Addresses: was.Addresses}, by(admin, "machines.add")); err != nil {
		t.Errorf("its address is not free: %v", err)
	}
	_, _, err = s.AddMachine(t.Context(), NewMachine{Name: "w1", Cluster: "lab", Addresses: addrs("10.9.9.9")}, by(admin, "machines.add"))
	wantErr(t, err, ErrConflict)
	if n := w.count(t, "select count(*) from control.retirements where addresses = array['10.5.0.2']::inet[]"); n != 1 {
		t.Error("the addresses it had are not kept")
	}
}

// Nothing is done to a retired machine any more, and every refusal says who retired it and why.
func TestARetiredMachineTakesNoAct(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	m := get(t, s, "w1")
	retire(t, s, "w1", "its board burnt")
	acts := map[string]func() error{
		"observing": func() error {
			_, err := s.RecordObservation(t.Context(), "w1", seen(m, digestA, digestA), by(admin, "machines.observe"))
			return err
		},
		"pinning": func() error {
			_, err := s.PinMachine(t.Context(), "w1", worker(7), true, by(admin, "machines.repin"))
			return err
		},
		"updating": func() error {
			_, err := s.UpdateMachine(t.Context(), "w1", MachineUpdate{Addresses: m.Addresses}, by(admin, "machines.update"))
			return err
		},
		"freezing": func() error {
			_, _, err := s.FreezeMachine(t.Context(), "w1", "stop", by(admin, "machines.freeze"))
			return err
		},
		"retiring": func() error {
			_, _, err := s.RetireMachine(t.Context(), "w1", "again", by(admin, "machines.retire"))
			return err
		},
	}
	for name, act := range acts {
		err := act()
		if !errors.Is(err, ErrRetired) || !strings.Contains(err.Error(), "by admin at ") || !strings.Contains(err.Error(), "its board burnt") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := heldBy(locked(t, s, "w1").Holds); got != "retired/machine" {
		t.Errorf("held by %q", got)
	}
	_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), boris), allow)
	wantGuard(t, err, "attempts_machine_not_retired")
	_, err = s.Admit(t.Context(), apply(get(t, s, "w1"), boris), capturing(proposal(m)))
	wantGuard(t, err, "changes_machine_not_retired")
}

// Somebody is at work there: the machine is not retired under a sending.
func TestAMachineThatIsBeingSentToIsNotRetired(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	_, _, err := s.RetireMachine(t.Context(), "w1", "gone", by(admin, "machines.retire"))
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Holder != a.ID {
		t.Fatalf("got %v", err)
	}
	for _, needs := range []string{"", "because"} {
		_, _, err := s.RetireMachine(t.Context(), "w1", strings.Repeat(needs+"\n", 1), by(admin, "machines.retire"))
		wantErr(t, err, ErrInvalid)
	}
}

// The rows keep a retirement. Controls: without each guard, the bad end state is reached.
func TestTheRowsThemselvesKeepARetirement(t *testing.T) {
	rows := map[string]struct{ sql, guard, drop, end string }{
		"an attempt on a retired machine": {
			`insert into control.attempts select (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'entry_id', gen_random_uuid(),
				'machine_id', m.id, 'state', 'open', 'node_id', m.node_id, 'closed_at', null, 'change_id', null))).*
				from control.attempts a, control.machines m where m.name = 'w1'`,
			"attempts_machine_not_retired", "drop trigger attempts_machine_open_to_changes on control.attempts",
			"select count(*) from control.attempts a join control.retirements using (machine_id)",
		},
		"an address of a retired machine": {
			"insert into control.machine_addresses select 'lab', '10.9.9.9', machine_id, 0 from control.retirements",
			"machine_addresses_not_retired", "drop trigger machine_addresses_not_retired on control.machine_addresses",
			"select count(*) from control.machine_addresses join control.retirements using (machine_id)",
		},
		"a machine that came back": {
			"delete from control.retirements", "", "drop trigger retirements_permanent on control.retirements",
			"select 1 - count(*) from control.retirements",
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 2)
			a := open(t, s, "w2", anna)
			if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent, Outcomes: []audit.Outcome{}}); err != nil {
				t.Fatal(err)
			}
			retire(t, s, "w1", "gone")
			_, err := w.root.Exec(t.Context(), row.sql)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || row.guard != "" && pg.ConstraintName != row.guard || row.guard == "" && pg.Code != "BW004" {
				t.Fatalf("%v, want a refusal by %s", err, row.guard)
			}
			if _, err := w.root.Exec(t.Context(), row.drop); err != nil {
				t.Fatal(err)
			}
			if _, err := w.root.Exec(t.Context(), row.sql); err != nil {
				t.Fatal(err)
			}
			if n := w.count(t, row.end); n == 0 {
				t.Error("the guard is not what refuses")
			}
		})
	}
}

// The drift of a machine that never comes back stays open, as nobody can look, and waits for nobody.
func TestTheDriftOfARetiredMachineIsNotCounted(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	drifted(t, s, "w1")
	drifted(t, s, "w2")
	retire(t, s, "w1", "gone")
	if n, err := s.CountDrifts(t.Context()); err != nil || n != 1 {
		t.Errorf("%d drifts wait for somebody, %v", n, err)
	}
	if n := w.count(t, "select count(*) from control.drifts where state = 'open'"); n != 2 {
		t.Errorf("%d are open", n)
	}
}
