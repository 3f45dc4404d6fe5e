package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// sightOf is a sight of the machine as it stands now: what it shows, at this version of both.
func sightOf(t testing.TB, s *Store, name, active, persistent string, version int) Sight {
	t.Helper()
	m := get(t, s, name)
	pair := fmt.Sprintf("2026-01-01T00:00:00Z/%d", version)
	o := Sight{MachineID: m.ID, Known: true, Changes: []policy.ConfigChange{{Document: "v1alpha1", Path: "machine.nodeLabels.a", After: "x"}}, Observation: Observation{
		Began: s.cfg.Clock(), NotedSerial: m.Serial, Identity: m.Identity, Version: "v1.13.6", Stage: "running", Type: "worker",
		Active: active, Persistent: persistent, ActiveVersion: pair, PersistentVersion: pair,
	}}
	if active != persistent {
		o.Staged = o.Changes
	}
	return o
}

// sees records a sight and expects what it comes to.
func sees(t testing.TB, s *Store, o Sight, want SightResult) {
	t.Helper()
	got, err := s.RecordSight(t.Context(), o)
	if err != nil || got != want {
		t.Fatalf("the sight came to %q, %v; want %q", got, err, want)
	}
}

// drifted has a machine that was applied digestB and runs digestC instead.
func drifted(t testing.TB, s *Store, name string) Drift {
	t.Helper()
	sees(t, s, sightOf(t, s, name, digestB, digestB, 1), SightBaseline)
	sees(t, s, sightOf(t, s, name, digestC, digestC, 2), SightOpened)
	return openOf(t, s, name)
}

func openOf(t testing.TB, s *Store, name string) Drift {
	t.Helper()
	w, err := s.Watch(t.Context(), get(t, s, name).ID)
	if err != nil || w.Drift == nil {
		t.Fatalf("no drift is open: %v", err)
	}
	return *w.Drift
}

func drift(t testing.TB, s *Store, id DriftID) Drift {
	t.Helper()
	d, err := s.GetDrift(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// settling is a change of this kind that names the drift.
func settling(t testing.TB, s *Store, d Drift, kind string) *NewChange {
	t.Helper()
	m, err := s.Machine(t.Context(), d.MachineID)
	if err != nil {
		t.Fatal(err)
	}
	n := proposal(*m)
	n.Kind, n.Drift, n.Why = kind, d.ID, "because"
	n.Base, n.Persistent, n.Digest = d.FoundActive, d.FoundPersistent, d.AppliedActive
	if kind == KindAdopt {
		n.Digest = d.FoundActive
	}
	return n
}

// adopting is a careless judge that allows an adoption whatever it sees.
func adopting(c Change, q policy.Quorum) func(Locked) Judgement {
	return func(l Locked) Judgement {
		j := allowOnly(l)
		j.Adopt = &NewAdoption{Digest: c.Digest, Size: c.Size, Base: c.Base, Persistent: c.Persistent, Mode: c.Mode, Identity: c.Identity}
		j.Spend, j.Quorum = c.ID, q
		return j
	}
}

// sending is a careless judge that allows the sending of a change whatever it sees.
func sending(c Change, q policy.Quorum) func(Locked) Judgement {
	return func(l Locked) Judgement {
		j := spending(c.ID, q)(l)
		j.Attempt.Digest, j.Attempt.Base, j.Attempt.Persistent = c.Digest, c.Base, c.Persistent
		return j
	}
}

// looking is a request that reads the machine under its serial and sends nothing.
func looking(m Machine, p policy.Person) Request {
	r := apply(m, p)
	r.Apply, r.Changes = false, true
	return r
}

func adoptOf(t testing.TB, s *Store, p policy.Person, c Change, q policy.Quorum) error {
	t.Helper()
	m, err := s.Machine(t.Context(), c.MachineID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Admit(t.Context(), looking(*m, p), adopting(c, q))
	return err
}

func TestTheTransitionTableOfDriftsIsOne(t *testing.T) {
	w := newWorld(t)
	for _, from := range DriftStates() {
		for _, to := range DriftStates() {
			var sql bool
			if err := w.root.QueryRow(t.Context(), "select control.drift_may_become($1, $2)", string(from), string(to)).Scan(&sql); err != nil {
				t.Fatal(err)
			}
			if from.MayBecome(to) != sql {
				t.Errorf("%s to %s: Go says %v, SQL %v", from, to, from.MayBecome(to), sql)
			}
		}
	}
}

// A machine that nothing was applied to drifts from nothing: the first sight is what it is held
// against. What differs from that is a drift, with both digests, by entries of the system.
func TestADriftIsOpenedAgainstTheBaseline(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	before := get(t, s, "w1")
	d := drifted(t, s, "w1")
	m := get(t, s, "w1")
	if d.AppliedActive != digestB || d.FoundActive != digestC || d.FoundPersistent != digestC || len(d.Changes) != 1 || !d.Known || d.State != DriftOpen {
		t.Errorf("the drift is %+v", d)
	}
	if d.BeforeActive != "2026-01-01T00:00:00Z/1" || d.ActiveVersion != "2026-01-01T00:00:00Z/2" {
		t.Errorf("the versions are %q and %q", d.BeforeActive, d.ActiveVersion)
	}
	if m.ActiveDigest != digestB || m.Serial != before.Serial+2 { // the baseline, and the drift
		t.Errorf("applied is %s, the serial went from %d to %d", m.ActiveDigest, before.Serial, m.Serial)
	}
	for _, method := range []string{"drift.baseline", "drift.opened"} {
		if n := w.count(t, "select count(*) from audit.entries where kind = 'system' and method = $1 and machine_name = 'w1'", method); n != 1 {
			t.Errorf("%d entries of %s", n, method)
		}
	}
	// Seen again, by this replica or another, it is the same drift.
	sees(t, w.store(t, "gw-2", nil), sightOf(t, s, "w1", digestC, digestC, 2), SightNothing)
	if n := w.count(t, "select count(*) from control.drifts"); n != 1 {
		t.Errorf("%d drifts", n)
	}
	sees(t, s, sightOf(t, s, "w1", digestA, digestC, 3), SightMoved)
	if got := openOf(t, s, "w1"); got.ID != d.ID || got.FoundActive != digestA || !got.Staged() || got.Since != d.Since {
		t.Errorf("the drift is %+v by now", got)
	}
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 4), SightReturned)
	if got := drift(t, s, d.ID); got.State != DriftReturned || got.ClosedAt == nil || got.ClosedEntryID == uuid.Nil {
		t.Errorf("the drift is %+v at the end", got)
	}
	if n := w.count(t, "select count(*) from control.drift_steps"); n != 3 {
		t.Errorf("%d steps", n)
	}
	if n := w.count(t, "select count(*) from audit.entries where kind = 'system' and method = 'drift.closed'"); n != 1 {
		t.Errorf("%d closing entries", n)
	}
}

// A step that no apply explains and that changed no digest is in the book, and holds nothing.
// One for each apply is explained, and so is whatever a boot does to versions.
func TestAStepWithAnEqualDigestIsWrittenDown(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	steps := func(want int) {
		t.Helper()
		if n := w.count(t, "select count(*) from audit.entries e join control.observations o on o.entry_id = e.id where e.method = 'drift.step'"); n != want {
			t.Fatalf("%d steps are in the book, want %d", n, want)
		}
	}
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 1), SightBaseline)
	a := open(t, s, "w1", anna)
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateCompleted, ReadActive: digestA, ReadPersistent: digestA}); err != nil {
		t.Fatal(err)
	}
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 2), SightNoted)
	steps(0)
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 3), SightStep)
	steps(1)
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 3), SightNothing)
	booted := sightOf(t, s, "w1", digestA, digestA, 9)
	booted.ActiveVersion, booted.PersistentVersion = "2026-02-01T00:00:00Z/9", "2026-02-01T00:00:00Z/9"
	sees(t, s, booted, SightNoted)
	steps(1)
	if n := w.count(t, "select count(*) from control.drifts"); n != 0 {
		t.Errorf("%d drifts", n)
	}
}

// A reading that began before an attempt opened or closed, or that began while one was under
// way, opens nothing (I7); neither does one of another machine.
func TestWhatIsNotCurrentOpensNoDrift(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	early := sightOf(t, s, "w1", digestC, digestC, 2)
	a := open(t, s, "w1", anna)
	_, err := s.RecordSight(t.Context(), early)
	wantErr(t, err, ErrMoved)
	_, err = s.RecordSight(t.Context(), sightOf(t, s, "w1", digestA, digestA, 2))
	wantErr(t, err, ErrMoved)
	during := sightOf(t, s, "w1", digestB, digestB, 1)
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateCompleted, ReadActive: digestA, ReadPersistent: digestA}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Sight{early, during} {
		_, err = s.RecordSight(t.Context(), o)
		wantErr(t, err, ErrMoved)
	}
	stranger := sightOf(t, s, "w1", digestC, digestC, 2)
	stranger.Identity = worker(9)
	_, err = s.RecordSight(t.Context(), stranger)
	wantGuard(t, err, "sights_expected_identity")
	_, err = s.RecordSight(t.Context(), sightOf(t, s, "w1", "sha256:cccc", "sha256:cccc", 2))
	wantErr(t, err, ErrInvalid)
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 2), SightNoted)
	if n := w.count(t, "select count(*) from control.drifts"); n != 0 {
		t.Fatalf("%d drifts", n)
	}
	// Control: without the serial that an attempt moves, the reading from before it opens one.
	early.NotedSerial = get(t, s, "w1").Serial
	sees(t, s, early, SightOpened)
}

// An attempt that somebody has accounted for and that lands after all explains itself.
func TestALateLandingExplainsItself(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	a := open(t, s, "w1", anna)
	w.exec(t, "update control.attempts set state = 'unresolved', unresolved_at = clock_timestamp()")
	w.exec(t, "update control.attempts set state = 'accounted', landed = false, reason = 'it is away', closed_at = clock_timestamp(), closed_by = 'rhea'")
	sees(t, s, sightOf(t, s, "w1", digestA, digestA, 2), SightLate)
	if m := get(t, s, "w1"); m.ActiveDigest != digestA {
		t.Errorf("applied is %s", m.ActiveDigest)
	}
	if n := w.count(t, "select count(*) from audit.outcomes where attempt_id = $1 and kind = $2", a.ID, string(audit.OutcomeLate)); n != 1 {
		t.Errorf("%d outcomes say so", n)
	}
	if n := w.count(t, "select count(*) from control.drifts"); n != 0 {
		t.Errorf("%d drifts", n)
	}
}

// Pinning holds a machine against what was observed for it, where nothing is known as applied.
func TestPinningTakesWhatWasObservedAsBaseline(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	pin := func(name string, o Observation, repin bool) {
		t.Helper()
		ok(t)(s.PinObserved(t.Context(), name, o, repin, by(admin, "machines.pin")))
	}
	pin("w1", sightOf(t, s, "w1", digestB, digestB, 1).Observation, false)
	if m := get(t, s, "w1"); m.ActiveDigest != digestB || m.PersistentDigest != digestB {
		t.Errorf("applied is %q", m.ActiveDigest)
	}
	stale := sightOf(t, s, "w2", digestB, digestB, 1).Observation
	stale.NotedSerial--
	pin("w2", stale, false)
	if m := get(t, s, "w2"); m.ActiveDigest != "" {
		t.Errorf("an observation that was not current became the baseline: %q", m.ActiveDigest)
	}
	// A re-pin takes nothing as applied: what a replaced node runs instead is a drift.
	other := sightOf(t, s, "w1", digestC, digestC, 1).Observation
	other.Identity = worker(7)
	pin("w1", other, true)
	sees(t, s, sightOf(t, s, "w1", digestC, digestC, 1), SightOpened)
}

func TestCopiesOfWhatWasApplied(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	m := get(t, s, "w1")
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	for _, digest := range []string{digestB, digestC} {
		if err := s.KeepAppliedCopy(t.Context(), m.ID, digest, ChangeID(newID(t)), []byte("sealed "+digest)); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.DropAppliedCopies(t.Context(), time.Hour)
	if err != nil || n != 0 {
		t.Fatalf("%d were dropped in time, %v", n, err)
	}
	n, err = s.DropAppliedCopies(t.Context(), 0)
	if err != nil || n != 1 {
		t.Fatalf("%d were dropped, %v", n, err)
	}
	if _, sealed, err := s.AppliedCopy(t.Context(), m.ID, digestB); err != nil || string(sealed) != "sealed "+digestB {
		t.Errorf("the last applied one is %q, %v", sealed, err)
	}
	_, _, err = s.AppliedCopy(t.Context(), m.ID, digestC)
	wantErr(t, err, ErrNotFound)
	// Control: the row itself refuses, and without its trigger the way back is lost.
	if _, err := w.root.Exec(t.Context(), "delete from control.applied_copies"); err == nil {
		t.Error("the copy of what was applied last was dropped")
	}
	w.exec(t, "drop trigger applied_copies_end on control.applied_copies")
	w.exec(t, "delete from control.applied_copies")
	_, _, err = s.AppliedCopy(t.Context(), m.ID, digestB)
	wantErr(t, err, ErrNotFound)
}
