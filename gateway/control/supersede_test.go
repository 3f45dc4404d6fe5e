package control

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// seen is a reading of m under its present serial.
func seen(m Machine, active, persistent string) Observation {
	return Observation{Began: time.Now(), NotedSerial: m.Serial, Identity: m.Identity, Active: active, Persistent: persistent}
}

// When the base moves, what was proposed against it ends in the same transaction, and says
// what overtook it. Digests of another scheme or key are nobody's to compare here.
func TestABaseThatMovesSupersedes(t *testing.T) {
	const disk = "hmac-sha256:k1:dddd"
	rows := []struct {
		name               string
		active, persistent string
		by                 string // empty: the change lives on
	}{
		{"nothing moved", digestB, digestB, ""},
		{"both moved", digestC, digestC, digestC},
		{"the active one moved", digestC, digestB, digestC},
		{"only the one on the disk moved", digestB, disk, disk},
		{"it runs already what is proposed", digestA, digestA, digestA},
		{"another key", "hmac-sha256:k2:bbbb", "hmac-sha256:k2:bbbb", ""},
		{"another scheme", "sha256:k1:bbbb", "sha256:k1:bbbb", ""},
		{"nothing was read", "", "", ""},
		{"one of another key, and one that moved", "hmac-sha256:k2:bbbb", disk, disk},
	}
	w := newWorld(t)
	s := w.house(t, len(rows))
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := get(t, s, fmt.Sprintf("w%d", i+1))
			c := propose(t, s, anna, proposal(m))
			receipt, err := s.RecordObservation(t.Context(), m.Name, seen(m, row.active, row.persistent), by(admin, "machines.observe"))
			if err != nil {
				t.Fatal(err)
			}
			if row.by == "" {
				wantState(t, s, c.ID, ChangeWaiting)
				return
			}
			why := runsAnother
			if row.by == disk {
				why = holdsAnother
			}
			if got := wantState(t, s, c.ID, ChangeSuperseded); got.OvertakenBy != row.by || got.Reason != why {
				t.Errorf("overtaken by %q because %q, want %q", got.OvertakenBy, got.Reason, row.by)
			}
			n := w.count(t, `select count(*) from control.observations o, control.change_states s, control.change_steps t
				where o.machine_id = $1 and s.change_id = $2 and t.change_id = $2 and t.state = 'superseded'
				and o.xmin::text = s.xmin::text and s.entry_id = $3 and t.entry_id = $3`, m.ID, uuid.UUID(c.ID), receipt.ID)
			if n != 1 {
				t.Error("the observation and what it ended are not one transaction under one entry")
			}
		})
	}
}

// What ends a change by what it shows. Reading under an older serial, or while an attempt may
// still land, ends nothing (I7).
func TestAReadingThatIsNotCurrentEndsNothing(t *testing.T) {
	rows := []struct {
		name   string
		change func(t *testing.T, s *Store, name string, o *Observation)
	}{
		{"the serial was not noted", func(_ *testing.T, _ *Store, _ string, o *Observation) { o.NotedSerial = 0 }},
		{"the serial has moved", func(t *testing.T, s *Store, name string, _ *Observation) {
			m := get(t, s, name)
			ok(t)(s.UpdateMachine(t.Context(), name, MachineUpdate{Addresses: m.Addresses, Labels: map[string]string{"moved": "yes"}}, by(admin, "machines.update")))
		}},
		{"it shows another machine", func(_ *testing.T, _ *Store, _ string, o *Observation) { o.NodeID = "stranger" }},
		{"it began while an attempt was open", func(t *testing.T, s *Store, name string, o *Observation) {
			a := open(t, s, name, boris)
			o.NotedSerial = get(t, s, name).Serial
			if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent}); err != nil {
				t.Fatal(err)
			}
		}},
		{"an attempt is open", func(t *testing.T, s *Store, name string, o *Observation) {
			open(t, s, name, boris)
			o.NotedSerial = get(t, s, name).Serial
		}},
		{"an attempt is unresolved", func(t *testing.T, s *Store, name string, o *Observation) {
			a := open(t, s, name, boris)
			o.NotedSerial = get(t, s, name).Serial
			if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateUnresolved, Reason: "no answer"}); err != nil {
				t.Fatal(err)
			}
		}},
	}
	w := newWorld(t)
	s := w.house(t, len(rows))
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			name := fmt.Sprintf("w%d", i+1)
			c := approved(t, s, name)
			o := seen(get(t, s, name), digestC, digestC)
			row.change(t, s, name, &o)
			ok(t)(s.RecordObservation(t.Context(), name, o, by(admin, "machines.observe")))
			wantState(t, s, c.ID, ChangeApproved)
		})
	}
}

// What an attempt leaves on the machine ends the machine's other changes as it closes, where
// the digests can be compared.
func TestACompletedAttemptSupersedesTheOthers(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	m := get(t, s, "w1")
	other, onTop, oldKey := proposal(m), proposal(m), proposal(m)
	other.Digest = digestC
	onTop.Digest, onTop.Base, onTop.Persistent = digestC, digestA, digestA
	oldKey.Digest, oldKey.Base, oldKey.Persistent = digestC, "hmac-sha256:k0:bbbb", "hmac-sha256:k0:bbbb"
	for _, n := range []*NewChange{other, onTop, oldKey} {
		propose(t, s, anna, n)
	}
	a, err := spendOf(t, s, anna, c, asksFor(1))
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, s, other.ID, ChangeWaiting)
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateCompleted, ReadActive: digestA, ReadPersistent: digestA}); err != nil {
		t.Fatal(err)
	}
	got := wantState(t, s, other.ID, ChangeSuperseded)
	if got.OvertakenBy != digestA || got.Reason != runsAnother+" (attempt "+a.ID.String()+" is completed)" {
		t.Errorf("overtaken by %q because %q", got.OvertakenBy, got.Reason)
	}
	if err := NotLive(&got); err.Error() != "change "+other.ID.String()+" is superseded: "+got.Reason+"; it has "+digestA {
		t.Errorf("it is told as %q", err)
	}
	wantState(t, s, onTop.ID, ChangeWaiting)
	wantState(t, s, oldKey.ID, ChangeWaiting)
	wantState(t, s, c.ID, ChangeSpent)
}

// A decision that finds the base moved ends the change with it, whatever it decides; while
// something may still land, or with no serial noted, it ends nothing (I7).
func TestADecisionSupersedesWhatItFindsOvertaken(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 5)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
	for i, row := range []struct {
		name    string
		held    bool
		serial  bool
		verdict audit.Verdict
		ends    bool
	}{
		{"refused", false, true, audit.Denied, true},
		{"only on the disk", false, true, audit.Denied, true},
		{"allowed", false, true, audit.Allowed, true},
		{"while an attempt is open", true, true, audit.Denied, false},
		{"without a serial", false, false, audit.Denied, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := fmt.Sprintf("w%d", i+1)
			c, why := approved(t, s, name), runsAnother
			if row.name == "only on the disk" {
				why = holdsAnother
			}
			if row.held {
				open(t, s, name, boris)
			}
			r := apply(get(t, s, name), anna)
			if !row.serial {
				r.Apply, r.Changes, r.Serial = false, true, 0
			}
			adm, err := s.Admit(t.Context(), r, func(l Locked) Judgement {
				j := allowOnly(l)
				j.Entry.Verdict, j.Supersede, j.Overtaken = row.verdict, []ChangeID{c.ID}, digestC
				if why == holdsAnother {
					j.OnDisk = j.Supersede
				}
				return j
			})
			if err != nil {
				t.Fatal(err)
			}
			if !row.ends {
				wantState(t, s, c.ID, ChangeApproved)
				return
			}
			wantState(t, s, c.ID, ChangeSuperseded)
			steps, err := s.ChangeSteps(t.Context(), c.ID)
			if last := steps[len(steps)-1]; err != nil || last.OvertakenBy != digestC || last.Reason != why || last.EntryID != adm.Receipt.ID {
				t.Errorf("the last step is %+v, %v", last, err)
			}
		})
	}
}

// Another identity is another machine: a re-pin ends what was for the one before, and pinning
// the same again ends nothing.
func TestARePinSupersedes(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	ok(t)(s.PinMachine(t.Context(), "w1", worker(1), false, by(admin, "machines.pin")))
	wantState(t, s, c.ID, ChangeApproved)
	ok(t)(s.PinMachine(t.Context(), "w1", worker(7), true, by(admin, "machines.repin")))
	wantState(t, s, c.ID, ChangeSuperseded)
	_, err := spendOf(t, s, anna, c, asksFor(1))
	wantErr(t, err, ErrMoved)
}

// While a change is being sent, the very same proposal is not captured beside it: the first may
// come back. Control: with the guard out of the way it stands there, and the first cannot
// come back, so that its attempt cannot be closed.
func TestNothingIsCapturedWhileAnAttemptMayLand(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	a, err := spendOf(t, s, anna, c, asksFor(1))
	if err != nil {
		t.Fatal(err)
	}
	m := get(t, s, "w1")
	twin := proposal(m)
	for _, applying := range []bool{true, false} {
		r := apply(m, boris)
		r.Apply, r.Changes = applying, true
		_, err = s.Admit(t.Context(), r, capturing(twin))
		var busy *BusyError
		if !errors.As(err, &busy) || busy.Holder != a.ID {
			t.Errorf("got %v, want busy by %s", err, a.ID)
		}
	}
	closing := func() error {
		return s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateRejected, Reason: "no"})
	}
	err = pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := capture(t.Context(), tx, twin, &m, Stamp{Epoch: c.Epoch, Now: time.Now()}, boris, newID(t))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := closing(); err == nil {
		t.Error("control: the bad end state did not come, so the guard proves nothing")
	}
	w.exec(t, "update control.change_states set state = 'cancelled' where change_id = $1", uuid.UUID(twin.ID))
	if err := closing(); err != nil {
		t.Errorf("without the twin: %v", err)
	}
	wantState(t, s, c.ID, ChangeApproved)
}
