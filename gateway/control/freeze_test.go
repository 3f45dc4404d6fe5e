package control

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/policy"
)

func freeze(t testing.TB, s *Store, name, reason string) Freeze {
	t.Helper()
	f, _, err := s.FreezeMachine(t.Context(), name, reason, by(anna, "machines.freeze"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func unfreeze(t testing.TB, s *Store, name, reason string) Freeze {
	t.Helper()
	f, _, err := s.UnfreezeMachine(t.Context(), name, reason, by(boris, "machines.unfreeze"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// locked is what a decision about the machine sees under its locks; it opens nothing.
func locked(t testing.TB, s *Store, name string) (seen Locked) {
	t.Helper()
	if _, err := s.Admit(t.Context(), apply(get(t, s, name), anna), func(l Locked) Judgement {
		seen = l
		j := allowOnly(l)
		j.Entry.Verdict = "deny"
		return j
	}); err != nil {
		t.Fatal(err)
	}
	return seen
}

func heldBy(holds []policy.Hold) string {
	var out []string
	for _, h := range holds {
		out = append(out, h.Kind+"/"+h.Scope)
	}
	return strings.Join(out, " ")
}

// A frozen machine is held for every decision, and the hold says who, since when and why.
func TestAFreezeHoldsUntilItIsLifted(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	before := authorityVersion(t, s)
	f := freeze(t, s, "w1", "the disk is being looked at")
	if after := authorityVersion(t, s); after != before+1 {
		t.Errorf("the authority version went from %d to %d", before, after)
	}
	want := policy.Hold{Kind: "freeze", ID: f.ID.String(), Holder: anna, Since: f.Since, Scope: "machine", Reason: "the disk is being looked at"}
	if got := locked(t, s, "w1").Holds; len(got) != 1 || got[0] != want {
		t.Errorf("held by %+v, want %+v", got, want)
	}
	if got := locked(t, s, "w2").Holds; len(got) != 0 {
		t.Errorf("the other machine is held by %+v", got)
	}
	_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), boris), allow)
	wantGuard(t, err, "attempts_machine_not_frozen")
	for _, part := range []string{"frozen by anna since ", "the disk is being looked at"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal does not say %q: %v", part, err)
		}
	}
	_, _, err = s.FreezeMachine(t.Context(), "w1", "again", by(boris, "machines.freeze"))
	wantErr(t, err, ErrFrozen)

	unfreeze(t, s, "w1", "it is fine")
	open(t, s, "w1", boris)
	_, _, err = s.UnfreezeMachine(t.Context(), "w1", "again", by(boris, "machines.unfreeze"))
	wantErr(t, err, ErrNotFrozen)

	freeze(t, s, "w1", "once more")
	history, err := s.Freezes(t.Context(), f.MachineID)
	if err != nil || len(history) != 2 {
		t.Fatalf("%d freezes, %v", len(history), err)
	}
	if last := history[0]; last.Reason != "once more" || last.Lifted != nil {
		t.Errorf("the newest is %+v", last)
	}
	if first := history[1]; first.Lifted == nil || first.Lifted.By != boris || first.Lifted.Reason != "it is fine" || first.By != anna {
		t.Errorf("the oldest is %+v", first)
	}
	// It is not known to have stopped what was under way.
	if got := heldBy(locked(t, s, "w1").Holds); got != "freeze/machine open-attempt/machine" {
		t.Errorf("held by %q", got)
	}
}

// A freeze that has returned is seen by a decision that was waiting for it, and one that is being
// decided is waited for: the two take turns at the authority lock.
func TestAFreezeAndADecisionTakeTurns(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	resume := paused(t, s, apply(get(t, s, "w1"), anna), allow)
	done := make(chan error, 1)
	go func() {
		_, _, err := s.FreezeMachine(t.Context(), "w1", "stop", by(boris, "machines.freeze"))
		done <- err
	}()
	w.waiting(t, 1)
	select {
	case err := <-done:
		t.Fatalf("the freeze did not wait for the decision: %v", err)
	default:
	}
	if _, err := resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := heldBy(locked(t, s, "w1").Holds); got != "freeze/machine open-attempt/machine" {
		t.Errorf("held by %q", got)
	}
}

// The row itself refuses an attempt on a frozen machine, and a freeze changes once. Controls:
// without each guard, the bad end state is reached.
func TestTheRowsThemselvesKeepAFreeze(t *testing.T) {
	bad := map[string]struct {
		sql, guard, drop string
		end              string // counts the bad end state
	}{
		"an attempt on a frozen machine": {
			`insert into control.attempts select (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'entry_id', gen_random_uuid(),
				'machine_id', m.id, 'state', 'open', 'node_id', m.node_id, 'closed_at', null, 'change_id', null))).*
				from control.attempts a, control.machines m where m.name = 'w1'`,
			"attempts_machine_not_frozen", "drop trigger attempts_machine_open_to_changes on control.attempts",
			`select count(*) from control.attempts a join control.freezes f using (machine_id) where a.state = 'open' and f.lifted_at is null`,
		},
		"a second freeze that stands": {
			`insert into control.freezes select gen_random_uuid(), machine_id, issuer, subject, reason, frozen_at, entry_id from control.freezes`,
			"freezes_one_standing", "drop index control.freezes_one_standing",
			"select count(*) - 1 from control.freezes where lifted_at is null",
		},
		"another reason": {
			"update control.freezes set reason = 'another'", "freezes_immutable", "drop trigger freezes_lift on control.freezes",
			"select count(*) from control.freezes where reason = 'another'",
		},
		"none any more": {
			"delete from control.freezes", "", "drop trigger freezes_kept on control.freezes",
			"select 1 - count(*) from control.freezes",
		},
	}
	for name, row := range bad {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 2)
			a := open(t, s, "w2", anna)
			if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent}); err != nil {
				t.Fatal(err)
			}
			freeze(t, s, "w1", "stop")
			_, err := w.root.Exec(t.Context(), row.sql)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || row.guard != "" && pg.ConstraintName != row.guard || row.guard == "" && pg.Code != "BW004" {
				t.Fatalf("%v, want a refusal by %s", err, row.guard)
			}
			if n := w.count(t, row.end); n != 0 {
				t.Fatalf("%d bad rows although refused", n)
			}
			// Control: without its guard the row is taken.
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
	t.Run("a lifted freeze changes no more", func(t *testing.T) {
		w := newWorld(t)
		s := w.house(t, 1)
		freeze(t, s, "w1", "stop")
		unfreeze(t, s, "w1", "go")
		_, err := w.root.Exec(t.Context(), "update control.freezes set lifted_at = clock_timestamp()")
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.ConstraintName != "freezes_lifted_once" {
			t.Errorf("got %v", err)
		}
	})
}
