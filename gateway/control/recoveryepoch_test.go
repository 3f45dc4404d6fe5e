package control

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
)

// inTurn has acts wait for the authority lock one after the other, so that each has looked before the
// first is done, and lets them go in that order.
func (w *world) inTurn(t *testing.T, acts ...func() error) []error {
	t.Helper()
	tx, err := w.root.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "select control.lock_authority()"); err != nil {
		t.Fatal(err)
	}
	came := make([]chan error, len(acts))
	for i, act := range acts {
		came[i] = make(chan error, 1)
		go func() { came[i] <- act() }()
		w.waiting(t, i+1)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := make([]error, len(acts))
	for i := range acts {
		out[i] = <-came[i]
	}
	return out
}

const foundEntries = "select count(*) from audit.entries where method = 'recovery.found'"

// What a replica found of an epoch is not marked in the next one, which another replica began between
// its comparison and its mark. The control is the same finding, said to be of the epoch that begins: it
// is marked there, and recovery has to be entered a second time.
func TestWhatWasFoundIsMarkedInItsEpochAlone(t *testing.T) {
	for _, row := range []struct {
		name    string
		of      func(old, next uuid.UUID) uuid.UUID
		state   RecoveryState
		entries int
	}{
		{"found of the epoch that ended", func(old, _ uuid.UUID) uuid.UUID { return old }, RecoveryEntered, 0},
		{"control: of the one that begins", func(_, next uuid.UUID) uuid.UUID { return next }, RecoveryRolledBack, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			other := w.store(t, "gw-2", nil)
			old, next := s.Snapshot().Epoch, uuid.New()
			f := rolledBack(s)
			f.OfEpoch = row.of(old, next)
			entering := func(epoch uuid.UUID) func() error {
				return func() error {
					_, err := other.EnterRecovery(t.Context(), Entering{Epoch: epoch, Origin: "bronzeward/test/" + epoch.String(), Reason: "restored"}, by(admin, "recovery.enter"))
					return err
				}
			}
			// Past the look that takes no lock, as by a replica that read before the epoch moved.
			marking := func() error { return s.mark(t.Context(), f) }
			if err := errors.Join(w.inTurn(t, entering(next), marking)...); err != nil {
				t.Fatal(err)
			}
			snap, err := s.Refresh(t.Context(), 0)
			if err != nil || snap.Epoch != next || snap.Standing.State != row.state {
				t.Errorf("epoch %s of %s stands %+v, %v", snap.Epoch, next, snap.Standing, err)
			}
			if n := w.count(t, foundEntries); n != row.entries {
				t.Errorf("%d entries say that something was found", n)
			}
			if again := entering(uuid.New())(); (again == nil) != (row.entries > 0) {
				t.Errorf("entering once more: %v", again)
			}
		})
	}
}

// Two replicas that find the same at once mark it once; a finding that OpenBao is older comes to
// nothing when the database was found to be rolled back meanwhile.
func TestWhatIsMarkedIsReadAgainUnderTheLock(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	other := w.store(t, "gw-2", nil)
	f := rolledBack(s)
	older := Found{OfEpoch: f.OfEpoch, State: RecoveryOlderOpenBao, Message: "OpenBao is older"}
	third := w.store(t, "gw-3", nil)
	mark := func(s *Store, f Found) func() error {
		return func() error { return s.MarkFound(t.Context(), f) }
	}
	if err := errors.Join(w.inTurn(t, mark(s, f), mark(other, f), mark(third, older))...); err != nil {
		t.Fatal(err)
	}
	if there, _, err := s.FoundNow(t.Context()); err != nil || there.State != RecoveryRolledBack {
		t.Errorf("%+v, %v", there, err)
	}
	if n := w.count(t, foundEntries); n != 1 {
		t.Errorf("%d entries say that something was found", n)
	}
}
