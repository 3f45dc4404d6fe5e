package control

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// judge lets time pass over an attempt nobody heard of again, and accounts for it.
func (w *world) judge(t testing.TB, s *Store, a *Attempt, landed bool) Attempt {
	t.Helper()
	w.age(t, a.ID, 5*time.Minute)
	if err := s.MarkUnresolved(t.Context(), a.ID, "its gateway is gone"); err != nil {
		t.Fatal(err)
	}
	m := get(t, s, a.MachineName)
	ok(t)(s.RecordObservation(t.Context(), m.Name, seen(m, a.Base, a.Persistent), by(admin, "machines.observe")))
	ok(t)(s.Account(t.Context(), Accounting{AttemptID: a.ID, Landed: landed, Reason: "the console says so"}, by(admin, "attempts.account")))
	got, err := s.GetAttempt(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (s *Store) landed(t testing.TB, a *Attempt, digest string) error {
	t.Helper()
	return s.LandedLate(t.Context(), a.ID, digest, digest, get(t, s, a.MachineName).Serial, audit.Outcome{})
}

// explained asks as somebody does who opens drift, under the machine's lock.
func explained(t testing.TB, s *Store, name, digest string) (a *Attempt) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		m, err := lockMachine(t.Context(), tx, name, &audit.Entry{})
		if err != nil {
			return err
		}
		a, err = ExplainedBy(t.Context(), tx, m.ID, digest)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// What lands after it was accounted for is recognised, whether it was said to have landed or not:
// the judgement stands, the machine's digests follow, and changes on the old base are over.
func TestALandingAfterAnAccountingIsRecognised(t *testing.T) {
	ways := map[string]func(t *testing.T, s *Store, a *Attempt) error{
		"by who looks after attempts": func(t *testing.T, s *Store, a *Attempt) error { return s.landed(t, a, digestA) },
		"by an observation": func(t *testing.T, s *Store, a *Attempt) error {
			m := get(t, s, a.MachineName)
			_, err := s.RecordObservation(t.Context(), m.Name, seen(m, digestA, digestA), by(admin, "machines.observe"))
			return err
		},
	}
	for name, see := range ways {
		for landed, state := range map[bool]State{false: StateAccounted, true: StateFailed} {
			t.Run(name+", "+string(state), func(t *testing.T) {
				w := newWorld(t)
				s := w.house(t, 1)
				a := open(t, s, "w1", anna)
				if got := w.judge(t, s, a, landed); got.State != state {
					t.Fatalf("the attempt is %s", got.State)
				}
				n := proposal(get(t, s, "w1"))
				n.Digest, n.Base, n.Persistent = digestC, digestB, digestB
				waiting := propose(t, s, boris, n)
				before := get(t, s, "w1")
				if e := explained(t, s, "w1", digestA); e == nil || e.ID != a.ID {
					t.Errorf("explained by %v", e)
				}
				if err := see(t, s, a); err != nil {
					t.Fatal(err)
				}
				got, err := s.GetAttempt(t.Context(), a.ID)
				if err != nil || got.State != state || got.LateAt == nil {
					t.Errorf("the attempt is %s, seen at %v, %v", got.State, got.LateAt, err)
				}
				after := get(t, s, "w1")
				if after.ActiveDigest != digestA || after.PersistentDigest != digestA || after.Serial != before.Serial+1 {
					t.Errorf("the machine is known to hold %s and %s at serial %d, before %d", after.ActiveDigest, after.PersistentDigest, after.Serial, before.Serial)
				}
				wantState(t, s, waiting.ID, ChangeSuperseded)
				if n := w.count(t, "select count(*) from audit.outcomes where attempt_id = $1 and kind = 'late-landing' and state = $2 and digest = $3", a.ID, string(state), digestA); n != 1 {
					t.Errorf("%d outcomes say so", n)
				}
				// Once.
				wantErr(t, s.landed(t, a, digestA), ErrNotLate)
				if e := explained(t, s, "w1", digestA); e != nil {
					t.Errorf("it explains again, as %s", e.ID)
				}
			})
		}
	}
}

// What no attempt explains is nobody's late landing.
func TestWhatIsNoLateLanding(t *testing.T) {
	rows := map[string]struct {
		prepare func(t *testing.T, w *world, s *Store, a *Attempt)
		digest  string
		want    error
	}{
		"another configuration": {nil, digestC, ErrNotLate},
		"a day later": {func(t *testing.T, w *world, _ *Store, a *Attempt) {
			w.exec(t, "update control.attempts set closed_at = closed_at - interval '24 hours 1 second' where id = $1", a.ID)
		}, digestA, ErrNotLate},
		"what is known as applied": {func(t *testing.T, w *world, _ *Store, _ *Attempt) {
			w.exec(t, "update control.machines set applied_active = $1, applied_persistent = $1", digestA)
		}, digestA, ErrNotLate},
		"what it held before": {func(t *testing.T, w *world, _ *Store, _ *Attempt) {
			w.exec(t, "update control.attempts set base_active = digest, base_persistent = digest")
		}, digestA, ErrNotLate},
		"while another may still land": {func(t *testing.T, _ *world, s *Store, _ *Attempt) { open(t, s, "w1", boris) }, digestA, ErrBusy},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			a := open(t, s, "w1", anna)
			w.judge(t, s, a, false)
			if row.prepare != nil {
				row.prepare(t, w, s, a)
			}
			wantErr(t, s.landed(t, a, row.digest), row.want)
			if n := w.count(t, "select count(*) from control.late_landings"); n != 0 {
				t.Error("it was written down")
			}
		})
	}
	t.Run("by a reading from before something moved", func(t *testing.T) {
		w := newWorld(t)
		s := w.house(t, 1)
		a := open(t, s, "w1", anna)
		w.judge(t, s, a, false)
		wantErr(t, s.LandedLate(t.Context(), a.ID, digestA, digestA, get(t, s, "w1").Serial-1, audit.Outcome{}), ErrMoved)
	})
	t.Run("of an attempt that is not accounted for", func(t *testing.T) {
		w := newWorld(t)
		s := w.house(t, 1)
		a := open(t, s, "w1", anna)
		if e := explained(t, s, "w1", digestA); e == nil || e.ID != a.ID {
			t.Errorf("what is under way explains nothing: %v", e)
		}
		if e := explained(t, s, "w1", digestC); e != nil {
			t.Errorf("another digest is explained by %s", e.ID)
		}
		if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent}); err != nil {
			t.Fatal(err)
		}
		wantErr(t, s.landed(t, a, digestA), ErrNotLate)
		if e := explained(t, s, "w1", digestA); e != nil {
			t.Errorf("what was never sent explains it: %s", e.ID)
		}
	})
}

// The rows say it too. Control: without the trigger a stranger's digest becomes a late landing.
func TestTheRowsKnowALateLanding(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	w.judge(t, s, a, false)
	const forged = "insert into control.late_landings select id, machine_id, 'x', 'x', now(), gen_random_uuid() from control.attempts"
	if _, err := s.pool.Exec(t.Context(), forged); err == nil {
		t.Fatal("a digest that nobody sent was taken")
	}
	if _, err := w.root.Exec(context.WithoutCancel(t.Context()), "drop trigger late_landings_recognised on control.late_landings"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), forged); err != nil {
		t.Fatalf("the trigger is not what refuses: %v", err)
	}
	if n := w.count(t, "select count(*) from control.late_landings l join control.attempts a on a.id = l.attempt_id where l.active <> a.digest"); n != 1 {
		t.Error("the bad end state is not reached")
	}
}
