package control

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// atClock makes the database's clock stand where a column of the only change says, so far off.
func atClock(t testing.TB, column string, off time.Duration) {
	t.Helper()
	real := sqlClock
	t.Cleanup(func() { sqlClock = real })
	sqlClock = fmt.Sprintf(`select %s + interval '%d microseconds' from control.changes c join control.change_states s on s.change_id = c.id`,
		column, off.Microseconds())
}

// The two clocks are the database's, and end at the very microsecond: what is good until then
// is not good then. The host's clock, hours wrong, has no say.
func TestTheTwoClocksEndExactly(t *testing.T) {
	acts := []struct {
		name, column string
		state        ChangeState
		do           func(*testing.T, *Store, Change) error
	}{
		{"approving", "c.approve_by", ChangeWaiting, func(t *testing.T, s *Store, c Change) error {
			_, err := approveAs(t, s, bea, c)
			return err
		}},
		{"spending what waits and needs nobody", "c.approve_by", ChangeWaiting, func(t *testing.T, s *Store, c Change) error {
			_, err := spendOf(t, s, anna, c, asksFor(0))
			return err
		}},
		{"rejecting", "c.approve_by", ChangeWaiting, func(t *testing.T, s *Store, c Change) error {
			_, err := s.Reject(t.Context(), c.ID, "no", by(bea, "changes.reject"))
			return err
		}},
		{"spending what is approved", "s.use_by", ChangeApproved, func(t *testing.T, s *Store, c Change) error {
			_, err := spendOf(t, s, anna, c, asksFor(1))
			return err
		}},
		{"approving once more", "s.use_by", ChangeApproved, func(t *testing.T, s *Store, c Change) error {
			_, err := approveAs(t, s, cleo, c)
			return err
		}},
		{"cancelling", "s.use_by", ChangeApproved, func(t *testing.T, s *Store, c Change) error {
			_, err := s.Cancel(t.Context(), c.ID, "no", by(anna, "changes.cancel"))
			return err
		}},
		{"taking an approval back", "s.use_by", ChangeApproved, func(t *testing.T, s *Store, c Change) error {
			_, err := s.RevokeApproval(t.Context(), c.Approvals[0].ID, "no", by(bea, "approvals.revoke"))
			return err
		}},
	}
	for _, host := range []time.Duration{-7 * time.Hour, 0, 7 * time.Hour} {
		w := newWorld(t)
		w.house(t, 1)
		s := w.store(t, "gw-clock", func(c *Config) { c.Clock = func() time.Time { return time.Now().Round(0).Add(host) } })
		for _, act := range acts {
			for off, good := range map[time.Duration]bool{-time.Microsecond: true, 0: false, time.Microsecond: false} {
				t.Run(fmt.Sprintf("%s, %s from the end, host %s off", act.name, off, host), func(t *testing.T) {
					c := propose(t, s, anna, proposal(get(t, s, "w1")))
					if act.state == ChangeApproved {
						approve(t, s, bea, c)
						c = change(t, s, c.ID)
					}
					t.Cleanup(func() {
						w.exec(t, "update control.attempts set state = 'not_sent', closed_at = clock_timestamp(), change_id = null, approvals_required = 0")
						w.exec(t, "delete from control.change_states")
						w.exec(t, "delete from control.changes")
					})
					atClock(t, act.column, off)
					err := act.do(t, s, c)
					if good && err != nil {
						t.Fatalf("in time: %v", err)
					}
					var late *ChangeError
					if !good && !errors.Is(err, ErrMoved) && (!errors.As(err, &late) || late.Code != "BW-CHANGE-002" || !strings.Contains(late.Message, "in time")) {
						t.Fatalf("too late: %v", err)
					}
					if !good {
						wantState(t, s, c.ID, act.state)
					}
				})
			}
		}
	}
}

// The attempt's row looks at both clocks too; control: without its trigger it stands.
func TestTheRowKnowsBothClocks(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	waiting := propose(t, s, anna, proposal(get(t, s, "w1")))
	rows := []struct {
		name    string
		machine string
		c       Change
		ends    time.Time
	}{
		{"not approved in time", "w1", waiting, waiting.ApproveBy},
		{"not spent in time", "w2", approved(t, s, "w2"), time.Time{}},
	}
	rows[1].ends = *rows[1].c.UseBy
	insert := func(name string, c Change, at time.Time) error {
		a := attemptOn(t, s, get(t, s, name), c)
		a.OpenedAt, a.SendBy, a.LeaseUntil, a.TransportDeadline = at, at.Add(SendWithin), at.Add(time.Minute), at.Add(time.Minute)
		if c.State == ChangeWaiting {
			a.quorum = asksFor(0)
		}
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		return openAttempt(t.Context(), tx, a, MinSettleFloor)
	}
	for _, row := range rows {
		if err := insert(row.machine, row.c, row.ends.Add(-time.Microsecond)); err != nil {
			t.Errorf("%s: in time: %v", row.name, err)
		}
		wantGuard(t, insert(row.machine, row.c, row.ends), "attempts_change_live")
	}
	w.exec(t, "drop trigger attempts_approved on control.attempts")
	for _, row := range rows {
		if err := insert(row.machine, row.c, row.ends); err != nil {
			t.Errorf("control: %s: %v", row.name, err)
		}
	}
}

// Both clocks begin by the database's, whatever the host thinks: approve_by at the capture,
// use_by at the last approval that was needed, and again when one was taken back in between.
func TestTheClocksBeginByTheDatabase(t *testing.T) {
	for _, host := range []time.Duration{-7 * time.Hour, 7 * time.Hour} {
		w := newWorld(t)
		w.house(t, 1)
		s := w.store(t, "gw-clock", func(c *Config) { c.Clock = func() time.Time { return time.Now().Round(0).Add(host) } })
		n := proposal(get(t, s, "w1"))
		n.Asked = asksFor(2)
		c := propose(t, s, anna, n)
		off := w.count(t, "select abs(extract(epoch from approve_by - clock_timestamp() - interval '24 hours'))::int from control.changes")
		if off > 60 || !c.ApproveBy.Equal(c.CreatedAt.Add(24*time.Hour)) {
			t.Errorf("approve_by is %d s off, created %s, ends %s", off, c.CreatedAt, c.ApproveBy)
		}
		if approve(t, s, bea, c); wantState(t, s, c.ID, ChangeWaiting).UseBy != nil {
			t.Error("use_by runs before the last approval")
		}
		last := approve(t, s, cleo, c)
		got := wantState(t, s, c.ID, ChangeApproved)
		if !got.UseBy.Equal(last.At.Add(time.Hour)) {
			t.Errorf("approved at %s and good until %s", last.At, got.UseBy)
		}
		if approve(t, s, dan, c); !wantState(t, s, c.ID, ChangeApproved).UseBy.Equal(*got.UseBy) {
			t.Error("an approval nobody needed moves use_by")
		}
		for _, a := range change(t, s, c.ID).Approvals[1:] {
			if _, err := s.RevokeApproval(t.Context(), a.ID, "no", by(admin, "approvals.revoke")); err != nil {
				t.Fatal(err)
			}
		}
		if wantState(t, s, c.ID, ChangeWaiting).UseBy != nil {
			t.Error("a change that waits again has a use_by")
		}
		again := approve(t, s, cleo, c)
		if got := wantState(t, s, c.ID, ChangeApproved); !got.UseBy.Equal(again.At.Add(time.Hour)) {
			t.Errorf("approved again at %s and good until %s", again.At, got.UseBy)
		}
	}
}

// Marking what is over says which clock it was, is what any decision about the machine does
// too, and ends nothing else.
func TestExpiredChangesAreMarked(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 4)
	c := []Change{propose(t, s, anna, proposal(get(t, s, "w1"))), approved(t, s, "w2"), approved(t, s, "w3"), propose(t, s, anna, proposal(get(t, s, "w4")))}
	w.exec(t, "update control.changes set created_at = created_at - interval '2 days', approve_by = approve_by - interval '2 days' where id = any($1)",
		[]uuid.UUID{uuid.UUID(c[0].ID), uuid.UUID(c[2].ID), uuid.UUID(c[3].ID)})
	w.exec(t, "update control.change_states set use_by = use_by - interval '2 hours' where change_id = $1", uuid.UUID(c[1].ID))

	refusing := func(l Locked) Judgement {
		if len(l.Changes) != 0 {
			t.Errorf("a judge is shown %d changes that are over", len(l.Changes))
		}
		j := allowOnly(l)
		j.Entry.Verdict = audit.Denied
		return j
	}
	if _, err := s.Admit(t.Context(), apply(get(t, s, "w4"), boris), refusing); err != nil {
		t.Fatal(err)
	}
	wantState(t, s, c[3].ID, ChangeExpired)
	if n, err := s.ExpireChanges(t.Context()); err != nil || n != 2 {
		t.Errorf("%d changes marked, %v; want 2", n, err)
	}
	for i, want := range []string{"not approved in time", "approved and not applied in time"} {
		if got := wantState(t, s, c[i].ID, ChangeExpired); !strings.Contains(got.Reason, want) {
			t.Errorf("the reason is %q, want %q", got.Reason, want)
		}
	}
	// Its approve_by is long gone, and it was approved before.
	wantState(t, s, c[2].ID, ChangeApproved)
	if _, err := spendOf(t, s, anna, c[2], asksFor(1)); err != nil {
		t.Errorf("what was approved in time is spent in time: %v", err)
	}
	if n, err := s.ExpireChanges(t.Context()); err != nil || n != 0 {
		t.Errorf("marked again: %d, %v", n, err)
	}
}

// A change whose attempt came to nothing goes on with the use_by it had.
func TestAChangeGivenBackKeepsItsClock(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	a, err := spendOf(t, s, anna, c, asksFor(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent}); err != nil {
		t.Fatal(err)
	}
	if got := wantState(t, s, c.ID, ChangeApproved); !got.UseBy.Equal(*c.UseBy) {
		t.Errorf("good until %s, was %s", got.UseBy, c.UseBy)
	}
	err = pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		return openAttempt(t.Context(), tx, attemptOn(t, s, get(t, s, "w1"), c), MinSettleFloor)
	})
	if err != nil {
		t.Errorf("it cannot be spent again: %v", err)
	}
}
