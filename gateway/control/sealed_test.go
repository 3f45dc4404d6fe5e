package control

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The sealed bytes are as they were given, in no list and no entry, and nobody changes them.
func TestSealedBytesAreKeptAsGiven(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	n := proposal(get(t, s, "w1"))
	n.Sealed = bytes.Repeat([]byte{0, 1, 0xff, '\n'}, 1<<18)
	c := propose(t, s, anna, n)
	if got, err := s.Sealed(t.Context(), c.ID); err != nil || !bytes.Equal(got, n.Sealed) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if !change(t, s, c.ID).Sealed {
		t.Error("the change does not say that they are kept")
	}
	for _, sql := range []string{"update control.sealed_bytes set sealed = 'x'", "truncate control.sealed_bytes"} {
		if _, err := w.root.Exec(t.Context(), sql); err == nil {
			t.Errorf("taken: %s", sql)
		}
	}
	_, err := s.Sealed(t.Context(), ChangeID(newID(t)))
	wantErr(t, err, ErrNotFound)
}

// The bytes stay while the change is live or what it became may still land, and go some time
// after the end.
func TestSealedBytesAreDroppedAfterTheEnd(t *testing.T) {
	spends := func(to State) func(*testing.T, *world, *Store, Change) {
		return func(t *testing.T, w *world, s *Store, c Change) {
			a, err := spendOf(t, s, anna, c, asksFor(1))
			if err != nil {
				t.Fatal(err)
			}
			if to == StateOpen {
				return
			}
			if to == StateAccounted {
				defer func() {
					w.age(t, a.ID, time.Hour)
					ok(t)(s.RecordObservation(t.Context(), c.MachineName, seen(get(t, s, c.MachineName), digestC, digestC), by(admin, "machines.observe")))
					ok(t)(s.Account(t.Context(), Accounting{AttemptID: a.ID, Reason: "seen"}, by(admin, "attempts.account")))
				}()
				to = StateUnresolved
			}
			end := Closing{AttemptID: a.ID, Owner: a.Owner, To: to, ReadActive: digestA, ReadPersistent: digestA, Reason: "because"}
			if err := s.CloseAttempt(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
	}
	ends := func(sql string) func(*testing.T, *world, *Store, Change) {
		return func(t *testing.T, w *world, _ *Store, c Change) {
			if _, err := w.root.Exec(t.Context(), sql+" where change_id = $1", uuid.UUID(c.ID)); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := []struct {
		name string
		then func(*testing.T, *world, *Store, Change)
		goes bool
	}{
		{"approved", func(*testing.T, *world, *Store, Change) {}, false},
		{"waiting", ends("update control.change_states set state = 'waiting', use_by = null"), false},
		{"superseded", ends("update control.change_states set state = 'superseded'"), true},
		{"cancelled", ends("update control.change_states set state = 'cancelled', reason = 'x'"), true},
		{"rejected", ends("update control.change_states set state = 'rejected', reason = 'x'"), true},
		{"expired", ends("update control.change_states set state = 'expired'"), true},
		{"revoked", ends("update control.change_states set state = 'revoked'"), true},
		{"spent, being sent", spends(StateOpen), false},
		{"spent, unresolved", spends(StateUnresolved), false},
		{"spent, and came back", spends(StateRejected), false},
		{"spent, and never sent", spends(StateNotSent), false},
		{"spent, completed", spends(StateCompleted), true},
		{"spent, accounted for", spends(StateAccounted), true},
	}
	w := newWorld(t)
	s := w.house(t, len(rows))
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
	list, err := s.ListMachines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changes := make([]Change, len(rows))
	for i, row := range rows {
		changes[i] = approved(t, s, list[i].Name)
		row.then(t, w, s, changes[i])
	}
	if n, err := s.DropSealed(t.Context(), time.Hour); err != nil || n != 0 {
		t.Errorf("%d were dropped at once, %v", n, err)
	}
	w.exec(t, "update control.change_states set since = since - interval '2 hours'")
	want := 0
	for _, row := range rows {
		if row.goes {
			want++
		}
	}
	if n, err := s.DropSealed(t.Context(), time.Hour); err != nil || int(n) != want {
		t.Errorf("%d were dropped, want %d; %v", n, want, err)
	}
	for i, row := range rows {
		got := change(t, s, changes[i].ID)
		if got.Sealed == row.goes {
			t.Errorf("%s: kept: %t", row.name, got.Sealed)
		}
		_, err := s.Sealed(t.Context(), got.ID)
		if row.goes {
			wantErr(t, err, ErrNotFound)
		} else if err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if got.Diffs != 0 || got.Digest != digestA {
			t.Errorf("%s: more than the bytes is gone: %+v", row.name, got)
		}
	}

	// The row itself keeps what may be applied yet, whoever deletes; control: without its
	// trigger an approved change has no bytes any more.
	left := len(rows) - want
	for _, row := range []struct {
		sql  string
		then int
	}{
		{"delete from control.sealed_bytes", left},
		{"drop trigger sealed_bytes_end on control.sealed_bytes; delete from control.sealed_bytes", 0},
	} {
		_, err := w.root.Exec(t.Context(), row.sql)
		if refused := err != nil && strings.Contains(err.Error(), "may still be applied"); refused != (row.then > 0) {
			t.Errorf("%s: %v", row.sql, err)
		}
		if n := w.count(t, "select count(*) from control.sealed_bytes"); n != row.then {
			t.Errorf("%d are left after %s, want %d", n, row.sql, row.then)
		}
	}
	if n := w.count(t, "select count(*) from control.change_rows where state = 'approved' and not sealed"); n == 0 {
		t.Error("control: the bad end state did not come")
	}
}
