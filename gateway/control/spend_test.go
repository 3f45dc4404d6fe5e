package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// rounds admits as the gateway does: on what has moved it looks again.
func rounds(ctx context.Context, s *Store, machine string, p policy.Person, judge func(Locked) Judgement) (adm Admission, err error) {
	for range 3 {
		var m Machine
		if m, err = s.GetMachine(ctx, machine); err != nil {
			return adm, err
		}
		if adm, err = s.Admit(ctx, apply(m, p), judge); !errors.Is(err, ErrMoved) {
			return adm, err
		}
	}
	return adm, err
}

// Two replicas race to spend one change: one does, and the other is told who.
func TestAChangeIsSpentOnce(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	other := w.store(t, "gw-2", nil)
	c := approved(t, s, "w1")
	first := paused(t, s, apply(get(t, s, "w1"), anna), spending(c.ID, asksFor(1)))
	second := make(chan error, 1)
	go func() {
		_, err := rounds(t.Context(), other, "w1", boris, spending(c.ID, asksFor(1)))
		second <- err
	}()
	w.waiting(t, 1)
	adm, err := first()
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if err := <-second; !errors.As(err, &busy) || busy.Holder != adm.Attempt.ID || busy.Person != anna || busy.Scope != "machine" {
		t.Fatalf("the loser got %v, want busy by %s of anna", err, adm.Attempt.ID)
	}
	if got := wantState(t, s, c.ID, ChangeSpent); got.AttemptID != adm.Attempt.ID {
		t.Errorf("spent by %s", got.AttemptID)
	}
	if n := w.count(t, "select count(*) from control.attempts where change_id = $1", uuid.UUID(c.ID)); n != 1 {
		t.Errorf("%d attempts stand on the change", n)
	}
	if n := w.count(t, "select count(*) from audit.entries where attempt_id is not null"); n != 1 {
		t.Errorf("%d entries name an attempt", n)
	}
}

// rejected and not_sent leave the change unspent, and so does being busy; whatever else became
// of the attempt counts as used.
func TestWhatLeavesAChangeUnspent(t *testing.T) {
	rows := []struct {
		to    State
		again bool
	}{
		{StateOpen, false},
		{StateCompleted, false},
		{StateRejected, true},
		{StateNotSent, true},
		{StateUnresolved, false},
	}
	w := newWorld(t)
	s := w.house(t, len(rows))
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
	for i, row := range rows {
		t.Run(string(row.to), func(t *testing.T) {
			name := fmt.Sprintf("w%d", i+1)
			c := approved(t, s, name)
			blocking, err := s.Admit(t.Context(), apply(get(t, s, name), boris), allow)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rounds(t.Context(), s, name, anna, spending(c.ID, asksFor(1)))
			wantErr(t, err, ErrBusy)
			wantState(t, s, c.ID, ChangeApproved)
			if err := s.CloseAttempt(t.Context(), Closing{AttemptID: blocking.Attempt.ID, Owner: blocking.Attempt.Owner, To: StateNotSent}); err != nil {
				t.Fatal(err)
			}

			a, err := spendOf(t, s, anna, c, asksFor(1))
			if err != nil {
				t.Fatal(err)
			}
			if row.to != StateOpen {
				end := Closing{AttemptID: a.ID, Owner: a.Owner, To: row.to, ReadActive: digestA, ReadPersistent: digestA}
				if err := s.CloseAttempt(t.Context(), end); err != nil {
					t.Fatal(err)
				}
			}
			_, err = rounds(t.Context(), s, name, boris, spending(c.ID, asksFor(1)))
			if (err == nil) != row.again {
				t.Fatalf("spending again: %v", err)
			}
			if wantState(t, s, c.ID, ChangeSpent); row.again {
				if n := w.count(t, "select count(*) from control.attempts where change_id = $1", uuid.UUID(c.ID)); n != 2 {
					t.Errorf("%d attempts", n)
				}
			}
		})
	}
}

// With the state wrongly reset behind everybody's back, the unique index is the last word;
// control: without it the change is spent twice.
func TestSpentOnceByIndex(t *testing.T) {
	reset := `update control.change_states set state = 'approved', attempt_id = null`
	standing := "select count(*) from control.attempts where change_id = $1 and state not in ('rejected', 'not_sent')"
	t.Run("its attempt is over", func(t *testing.T) {
		w := newWorld(t)
		s := w.house(t, 1)
		c := approved(t, s, "w1")
		a, err := spendOf(t, s, anna, c, asksFor(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateCompleted, ReadActive: digestA, ReadPersistent: digestA}); err != nil {
			t.Fatal(err)
		}
		w.exec(t, reset)
		w.exec(t, "update control.machines set applied_active = '', applied_persistent = ''") // nor does it drift from anything
		_, err = spendOf(t, s, boris, c, asksFor(1))
		if wantErr(t, err, ErrConflict); !strings.Contains(err.Error(), "opening the attempt") {
			t.Errorf("refused elsewhere: %v", err)
		}
		w.exec(t, "drop index control.attempts_spend_once")
		if _, err := spendOf(t, s, boris, c, asksFor(1)); err != nil {
			t.Fatalf("control: %v", err)
		}
		if n := w.count(t, standing, uuid.UUID(c.ID)); n != 2 {
			t.Errorf("control: %d attempts stand on the change: the index proves nothing", n)
		}
	})
	t.Run("its attempt is open", func(t *testing.T) {
		w := newWorld(t)
		s := w.house(t, 1)
		c := approved(t, s, "w1")
		if _, err := spendOf(t, s, anna, c, asksFor(1)); err != nil {
			t.Fatal(err)
		}
		w.exec(t, reset)
		insert := func() error {
			return pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
				return openAttempt(t.Context(), tx, attemptOn(t, s, get(t, s, "w1"), c), MinSettleFloor)
			})
		}
		if err := insert(); err == nil {
			t.Error("two indexes let a second attempt through")
		}
		w.exec(t, "drop index control.attempts_one_held_per_machine")
		wantErr(t, insert(), ErrConflict)
		w.exec(t, "drop index control.attempts_spend_once")
		if err := insert(); err != nil {
			t.Fatalf("control: %v", err)
		}
		if n := w.count(t, standing+" and state = 'open'", uuid.UUID(c.ID)); n != 2 {
			t.Errorf("control: %d open attempts stand on the change: the indexes prove nothing", n)
		}
	})
}

// The law asks and Go counts: without enough approvals, or without a change at all, nothing
// goes out; the row counts once more.
func TestGoAndTheRowCountApprovals(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	self := policy.Quorum{Required: 1, Groups: []string{"approvers"}, SelfApproval: true}
	rows := []struct {
		name    string
		spender policy.Person
		spend   ChangeID
		q       policy.Quorum
		guard   string
		// row is the guard of the attempt's row; empty when it lets it through.
		row string
	}{
		{"no change where one is needed", anna, ChangeID{}, asksFor(1), "attempts_change_required", "attempts_change_required"},
		{"too few", anna, c.ID, asksFor(2), "attempts_approvals", "attempts_approvals"},
		{"of another group", anna, c.ID, policy.Quorum{Required: 1, Groups: []string{"others"}}, "attempts_approvals", "attempts_approvals"},
		{"of no group", anna, c.ID, policy.Quorum{Required: 1}, "attempts_approvals", "attempts_approvals"},
		{"the spender's own", bea, c.ID, asksFor(1), "attempts_approvals", "attempts_approvals"},
		{"the spender's own, by data", bea, c.ID, self, "", ""},
		{"enough", anna, c.ID, asksFor(1), "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if n := len(c.Counting(row.q, row.spender, c.Epoch)); row.spend == c.ID && (n >= row.q.Required) != (row.guard == "") {
				t.Errorf("Go counts %d", n)
			}
			if row.guard != "" {
				_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), row.spender), spending(row.spend, row.q))
				wantGuard(t, err, row.guard)
			}
			tx, err := s.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			a := attemptOn(t, s, get(t, s, "w1"), c)
			a.ChangeID, a.Caller, a.quorum = row.spend, row.spender, row.q
			if err := openAttempt(t.Context(), tx, a, MinSettleFloor); row.row != "" {
				wantGuard(t, err, row.row)
			} else if err != nil {
				t.Errorf("the row refuses: %v", err)
			}
		})
	}
	t.Run("control: the row does not count", func(t *testing.T) {
		w.exec(t, "drop trigger attempts_approved on control.attempts")
		a := attemptOn(t, s, get(t, s, "w1"), c)
		a.quorum = asksFor(2)
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return openAttempt(t.Context(), tx, a, MinSettleFloor) })
		if err != nil {
			t.Fatal(err)
		}
		n := w.count(t, `select count(*) from control.attempts a where a.state = 'open'
			and a.approvals_required > control.approvals_that_count(a.change_id, a.approval_groups, a.self_approval, a.issuer, a.subject)`)
		if n != 1 {
			t.Error("the bad end state did not come: the guards prove nothing")
		}
	})
}

// One person approves once, however often: twice is refused, and would not count twice.
func TestOnePersonCountsOnce(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	_, err := approveAs(t, s, bea, c)
	wantCode(t, err, "BW-CHANGE-007")
	w.exec(t, `insert into control.approvals select gen_random_uuid(), change_id, digest, epoch, issuer, subject, kind, groups, self, comment, entry_id, at from control.approvals`)
	if got := change(t, s, c.ID); len(got.Approvals) != 2 || len(got.Counting(asksFor(1), anna, got.Epoch)) != 1 {
		t.Errorf("bea counts %d times", len(got.Counting(asksFor(1), anna, got.Epoch)))
	}
	if n := w.count(t, "select control.approvals_that_count($1, '{approvers}', false, 'i', 's')", uuid.UUID(c.ID)); n != 1 {
		t.Errorf("in the row bea counts %d times", n)
	}
}

// An approval of another epoch authorizes nothing, and neither does a change of one.
func TestAnotherEpochAuthorizesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	w.exec(t, "alter table control.installation disable trigger installation_epoch; update control.installation set epoch = gen_random_uuid()")
	_, err := approveAs(t, s, cleo, c)
	if wantCode(t, err, "BW-CHANGE-002"); !strings.Contains(err.Error(), "another epoch") {
		t.Errorf("it says %v", err)
	}
	_, err = spendOf(t, s, anna, c, asksFor(0))
	wantGuard(t, err, "attempts_change_binding")
	_, err = spendOf(t, s, anna, c, asksFor(1))
	wantGuard(t, err, "attempts_change_binding")
	// The change brought into the new epoch behind everybody's back is still not approved in it.
	w.exec(t, "update control.changes set epoch = (select epoch from control.installation)")
	now := change(t, s, c.ID)
	if n := len(now.Counting(asksFor(1), anna, now.Epoch)); n != 0 {
		t.Errorf("%d approvals of another epoch count", n)
	}
	if n := w.count(t, "select control.approvals_that_count($1, '{approvers}', false, 'i', 's')", uuid.UUID(c.ID)); n != 0 {
		t.Errorf("%d approvals of another epoch count in the row", n)
	}
	_, err = spendOf(t, s, anna, c, asksFor(1))
	wantGuard(t, err, "attempts_approvals")
}
