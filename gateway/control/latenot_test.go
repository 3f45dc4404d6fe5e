package control

import (
	"testing"
	"time"

	"bronzeward/audit"
)

// While a drift is open, what is read is part of it: only the change that names the drift settles it (I18), and no late landing
// makes what somebody put there the configuration that was applied.
func TestALateLandingSettlesNoDrift(t *testing.T) {
	ways := map[string]func(t *testing.T, s *Store, a *Attempt) error{
		"by who looks after attempts": func(t *testing.T, s *Store, a *Attempt) error { return s.landed(t, a, digestA) },
		"by an observation": func(t *testing.T, s *Store, a *Attempt) error {
			m := get(t, s, a.MachineName)
			_, err := s.RecordObservation(t.Context(), m.Name, seen(m, digestA, digestA), by(admin, "machines.observe"))
			return err
		},
	}
	for name, see := range ways {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
			a := open(t, s, "w1", anna)
			w.judge(t, s, a, false)
			sees(t, s, sightOf(t, s, "w1", digestC, digestC, 2), SightOpened)
			d := openOf(t, s, "w1")
			// Whoever changed the machine now sends it the bytes of the attempt, directly.
			_ = see(t, s, a)
			if m := get(t, s, "w1"); m.ActiveDigest != digestB {
				t.Errorf("taken as applied while drift %s is open: %s", d.ID, m.ActiveDigest)
			}
			got, err := s.RecordSight(t.Context(), sightOf(t, s, "w1", digestA, digestA, 3))
			if err != nil || got != SightMoved {
				t.Errorf("the sight came to %q, %v", got, err)
			}
			if got := drift(t, s, d.ID); got.State != DriftOpen {
				t.Errorf("nobody has settled the drift, and it is %s", got.State)
			}
		})
	}
}

// Once something else was applied, an attempt from before it explains nothing: what shows up was sent by somebody again, and
// takes back what people approved since.
func TestWhatWasAppliedSinceIsNotTakenBackAsALateLanding(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	old := open(t, s, "w1", anna)
	w.judge(t, s, old, false)
	m := get(t, s, "w1")
	adm, err := s.Admit(t.Context(), apply(m, boris), func(l Locked) Judgement {
		j := allow(l)
		j.Attempt.Digest = digestC
		return j
	})
	if err != nil {
		t.Fatal(err)
	}
	next := adm.Attempt
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: next.ID, Owner: next.Owner, To: StateCompleted, ReadActive: digestC, ReadPersistent: digestC}); err != nil {
		t.Fatal(err)
	}
	sees(t, s, sightOf(t, s, "w1", digestC, digestC, 2), SightNoted)
	wantErr(t, s.landed(t, old, digestA), ErrNotLate)
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 3), SightOpened)
}

// Nobody says what became of the attempt of a retired machine, neither a person nor the gateway: also where the one looked at it
// just before it was retired.
func TestNobodySaysWhatBecameOfARetiredMachinesAttempt(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := w.lose(t, s, "w1")
	w.age(t, a.ID, 5*time.Minute)
	m := get(t, s, "w1")
	ok(t)(s.RecordObservation(t.Context(), "w1", seen(m, a.Base, a.Persistent), by(admin, "machines.observe")))
	retire(t, s, "w1", "its board burnt")
	_, err := s.Account(t.Context(), Accounting{AttemptID: a.ID, Landed: true, Reason: "the console says so"}, by(admin, "attempts.account"))
	wantErr(t, err, ErrRetired)
	wantErr(t, s.ResolveAttempt(t.Context(), a.ID, digestA, digestA, audit.Outcome{}), ErrRetired)
	if got, err := s.GetAttempt(t.Context(), a.ID); err != nil || got.State != StateUnresolved {
		t.Errorf("the attempt is %s, %v", got.State, err)
	}
}

// What was sent to one node does not land on the node that replaced it: what that one runs instead is a drift.
func TestAnAttemptDoesNotLandOnTheNodeThatReplacedItsOwn(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	a := open(t, s, "w1", anna)
	w.judge(t, s, a, false)
	ok(t)(s.PinMachine(t.Context(), "w1", worker(7), true, by(admin, "machines.repin")))
	wantErr(t, s.landed(t, a, digestA), ErrNotLate)
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 1), SightOpened)
}
