package control

import "testing"

// A reading that is older than what another replica has written down judges nothing: the machine was
// put back and changed again between the two, and the drift that is there is not over.
func TestAnOlderSightDoesNotCloseADrift(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	// One replica reads what was applied, put back by hand, and is slow; another reads what came after that.
	slow := sightOf(t, s, "w1", digestB, digestB, 3)
	sees(t, w.store(t, "gw-2", nil), sightOf(t, s, "w1", digestA, digestA, 4), SightMoved)
	_, err := s.RecordSight(t.Context(), slow)
	wantErr(t, err, ErrMoved)
	if got := drift(t, s, d.ID); got.State != DriftOpen || got.FoundActive != digestA {
		t.Errorf("the machine runs %s, and the drift is %s with %s", digestA, got.State, got.FoundActive)
	}
}

// The same where the newer sight found the same configuration as before, at another version.
func TestAnOlderSightDoesNotCloseADriftThatWasPutBack(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	slow := sightOf(t, s, "w1", digestB, digestB, 3)
	sees(t, w.store(t, "gw-2", nil), sightOf(t, s, "w1", digestC, digestC, 4), SightNoted)
	_, err := s.RecordSight(t.Context(), slow)
	wantErr(t, err, ErrMoved)
	if got := drift(t, s, d.ID); got.State != DriftOpen {
		t.Errorf("the machine runs %s, and the drift is %s", digestC, got.State)
	}
}

// An older reading does not take back what a drift has moved to, and ends no change that settles it.
func TestAnOlderSightDoesNotMoveADriftBack(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	slow := sightOf(t, s, "w1", digestC, digestC, 3)
	sees(t, w.store(t, "gw-2", nil), sightOf(t, s, "w1", digestA, digestA, 4), SightMoved)
	c := propose(t, s, anna, settling(t, s, drift(t, s, d.ID), KindAdopt))
	if _, err := s.RecordSight(t.Context(), slow); err == nil {
		t.Error("the older reading was judged")
	}
	wantState(t, s, c.ID, ChangeWaiting)
	if got := drift(t, s, d.ID); got.FoundActive != digestA {
		t.Errorf("the machine runs %s, and the drift says %s", digestA, got.FoundActive)
	}
}

// Without a drift: an older reading opens none against what was seen after it.
func TestAnOlderSightOpensNoDrift(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	slow := sightOf(t, s, "w1", digestC, digestC, 2)
	sees(t, w.store(t, "gw-2", nil), sightOf(t, s, "w1", digestB, digestB, 3), SightStep)
	_, err := s.RecordSight(t.Context(), slow)
	wantErr(t, err, ErrMoved)
	if n := w.count(t, "select count(*) from control.drifts"); n != 0 {
		t.Errorf("%d drifts", n)
	}
}

// Digests of two keys are never compared, while a drift is open neither: a replica that lacks the key of what was applied moves none.
func TestASightOfAnotherKeyMovesNoDrift(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	_, err := s.RecordSight(t.Context(), sightOf(t, s, "w1", "sha256:cccc", "sha256:cccc", 2))
	wantErr(t, err, ErrInvalid)
	if got := drift(t, s, d.ID); got.FoundActive != digestC {
		t.Errorf("the drift has %s", got.FoundActive)
	}
}
