package control

import (
	"strings"
	"testing"
	"time"
)

// What a drift was stays when it is over, in the record and in the entries. Without the steps
// behind the view it would be told that what was applied had been found.
func TestWhatADriftWasStaysWhenItIsOver(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	if d.ClosedActive != "" || d.ClosedPersistent != "" {
		t.Errorf("an open drift was closed with %q and %q", d.ClosedActive, d.ClosedPersistent)
	}
	sees(t, s, sightOf(t, s, "w1", digestA, digestC, 3), SightMoved)
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 4), SightReturned)
	got := drift(t, s, d.ID)
	if got.FoundActive != digestA || got.FoundPersistent != digestC || got.ClosedActive != digestB || got.ClosedPersistent != digestB || got.AppliedActive != digestB {
		t.Errorf("found %s and %s, closed with %s and %s", got.FoundActive, got.FoundPersistent, got.ClosedActive, got.ClosedPersistent)
	}
	if list, err := s.ListDrifts(t.Context(), DriftFilter{}); err != nil || len(list) != 1 || list[0].FoundActive != digestA {
		t.Errorf("the list has %+v, %v", list, err)
	}
	for method, want := range map[string][3]string{ // runs now, ran before, was on its disk before
		"drift.opened": {digestC, digestB, digestB}, "drift.moved": {digestA, digestC, digestC}, "drift.closed": {digestB, digestA, digestC},
	} {
		if n := w.count(t, "select count(*) from audit.entries where method = $1 and digest = $2 and base_digest = $3 and persistent_digest = $4", method, want[0], want[1], want[2]); n != 1 {
			t.Errorf("%d entries of %s say %v", n, method, want)
		}
	}

	var view string
	if err := w.root.QueryRow(t.Context(), "select pg_get_viewdef('control.drift_rows'::regclass)").Scan(&view); err != nil {
		t.Fatal(err)
	}
	careless := strings.Replace(view, "COALESCE(s.found_active, d.found_active)", "d.found_active", 1)
	if careless == view {
		t.Fatalf("the view does not look at the steps:\n%s", view)
	}
	w.exec(t, "create or replace view control.drift_rows as "+careless)
	if got := drift(t, s, d.ID); got.FoundActive != digestB {
		t.Errorf("without the steps %s was found", got.FoundActive)
	}
}

// What was last read of a machine is kept whoever read it: the watch that finds all as it was, an
// apply's read-back. A reading that is older than what was written down changes nothing.
func TestWhatWasLastReadIsKept(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	last := func() Seen {
		t.Helper()
		all, err := s.LastSeen(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%d machines were seen: %v", len(all), err)
		}
		return all[get(t, s, "w1").ID]
	}
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	first := last()
	if first.Version != "v1.13.6" || first.Stage != "running" || first.Type != "worker" || first.Active != digestB {
		t.Errorf("seen was %+v", first)
	}

	stale := sightOf(t, s, "w1", digestB, digestB, 1)
	again := stale
	again.Began, again.Stage = s.cfg.Clock(), "booting"
	if err := s.SawAgain(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	second := last()
	if !second.At.After(first.At) || second.Stage != "booting" || get(t, s, "w1").Serial != stale.NotedSerial {
		t.Errorf("seen again at %s after %s, %+v", second.At, first.At, second)
	}

	// Staged round the gateway, and taken back by a revert: the read-back is the last reading.
	sees(t, s, sightOf(t, s, "w1", digestB, digestC, 2), SightOpened)
	if n := last(); n.Persistent != digestC || n.Staged == nil {
		t.Errorf("seen was %+v", n)
	}
	c := propose(t, s, anna, settling(t, s, openOf(t, s, "w1"), KindRevert))
	approve(t, s, bea, c)
	adm, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), sending(c, asksFor(1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: adm.Attempt.ID, Owner: adm.Attempt.Owner, To: StateCompleted, ReadActive: digestB, ReadPersistent: digestB, Reason: "read back"}); err != nil {
		t.Fatal(err)
	}
	read := last()
	if m := get(t, s, "w1"); read.Persistent != digestB || read.Staged != nil || *m.Latest(&read).Staged() {
		t.Errorf("after the read-back the disk holds %s, %+v", read.Persistent, read.Staged)
	}
	if holds, err := s.CountHolds(t.Context()); err != nil || holds.Staged != 0 {
		t.Errorf("%d machines count as staged: %v", holds.Staged, err)
	}
	// What was read before that says nothing of now.
	stale.Began = s.cfg.Clock().Add(-time.Minute)
	if err := s.SawAgain(t.Context(), stale); err != nil || !last().At.Equal(read.At) || last().Stage != read.Stage {
		t.Errorf("an old reading counts: %v", err)
	}
}
