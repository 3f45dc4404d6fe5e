package control

import (
	"strings"
	"testing"
)

// A database that goes back under a running gateway is noticed by its authority version, at the very
// next question, and nothing is sent until it has caught up. The control is a gateway that never saw
// the higher version: the attempt opens.
func TestADatabaseThatWentBackIsNoticedAtOnce(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	high := s.Snapshot().AuthorityVersion
	if snap, err := s.Refresh(t.Context(), 0); err != nil || snap.Standing.Stops() {
		t.Fatalf("before it went back: %v, %v", snap, err)
	} else {
		high = max(high, snap.AuthorityVersion)
	}
	w.exec(t, "update control.authority set version = version - 1")
	m := get(t, s, "w1")
	var told Standing
	_, err := s.Admit(t.Context(), apply(m, anna), func(l Locked) Judgement {
		told = l.Standing
		return allow(l)
	})
	wantGuard(t, err, "attempts_not_in_recovery")
	if told.State != RecoveryRolledBack || !strings.Contains(told.Message, "older than it was") {
		t.Errorf("the judge is told %+v", told)
	}
	snap, err := s.Refresh(t.Context(), 0)
	if err != nil || snap.AuthorityVersion != high-1 || !snap.Standing.Doubtful() {
		t.Errorf("the snapshot is of version %d and stands %+v, %v", snap.AuthorityVersion, snap.Standing, err)
	}
	if n := w.count(t, "select count(*) from control.attempts"); n != 0 {
		t.Fatalf("%d attempts", n)
	}
	w.exec(t, "update control.authority set version = version + 1")
	if snap, err := s.Refresh(t.Context(), 0); err != nil || snap.Standing.Stops() {
		t.Errorf("once it is back: %+v, %v", snap.Standing, err)
	}
	w.exec(t, "update control.authority set version = version - 1")
	blind := w.store(t, "gw-2", nil)
	if _, err := blind.Admit(t.Context(), apply(m, anna), allow); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// The status that a gateway gives says what it refuses by itself, before it is marked for all; and
// nothing of it once the version is reached again. The control is a gateway that never saw the higher
// version: it says that there is nothing.
func TestTheStatusSaysWhatThisGatewayHasSeen(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	says := func(t *testing.T, s *Store, want RecoveryState) RecoveryStatus {
		t.Helper()
		now, err := s.RecoveryStatus(t.Context(), nil)
		if err != nil || now.Standing.State != want {
			t.Fatalf("it stands %+v, %v; want %s", now.Standing, err, want)
		}
		return now
	}
	if _, err := s.Refresh(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	says(t, s, RecoveryNone)
	w.exec(t, "update control.authority set version = version - 1")
	now := says(t, s, RecoveryRolledBack)
	if len(now.Items) != 1 || now.Items[0].Name != "enter" || !now.Items[0].Open || !strings.Contains(now.Items[0].Text, "older than it was") {
		t.Errorf("the list is %+v", now.Items)
	}
	says(t, w.store(t, "gw-2", nil), RecoveryNone) // the control
	w.exec(t, "update control.authority set version = version + 1")
	if now := says(t, s, RecoveryNone); len(now.Items) != 0 {
		t.Errorf("the list is %+v", now.Items)
	}
}
