package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// sized is a proposal of so many bytes under a cap.
func sized(m Machine, size int64, most int, mostBytes int64) *NewChange {
	n := proposal(m)
	n.Size, n.MostWaiting, n.MostBytes = size, most, mostBytes
	return n
}

// A caller has so many changes waiting and so many bytes in them, to the last one of each;
// another caller has their own, and what does not wait any more does not count.
func TestTheCapOnWaitingChanges(t *testing.T) {
	const most = 3
	mostBytes := int64(100)
	w := newWorld(t)
	s := w.house(t, 8)
	try := func(n int, size int64) (Change, error) {
		m := get(t, s, fmt.Sprintf("w%d", n))
		adm, err := s.Admit(t.Context(), apply(m, anna), capturing(sized(m, size, most, mostBytes)))
		if err != nil {
			return Change{}, err
		}
		return *adm.Change, nil
	}
	fits := func(n int, size int64) Change {
		t.Helper()
		c, err := try(n, size)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := fits(1, 60)
	entries := w.count(t, "select count(*) from audit.entries")
	_, err := try(2, 41)
	if wantCode(t, err, "BW-CHANGE-004"); !strings.Contains(err.Error(), "60 bytes, and 41 more") {
		t.Errorf("it says %v", err)
	}
	fits(2, 39)
	last := fits(3, 1)
	_, err = try(4, 1)
	if wantCode(t, err, "BW-CHANGE-004"); !strings.Contains(err.Error(), "3 changes waiting") {
		t.Errorf("it says %v", err)
	}
	if n := w.count(t, "select count(*) from control.changes"); n != most {
		t.Errorf("%d changes, want %d", n, most)
	}
	if n := w.count(t, "select count(*) from audit.entries") - entries; n != 2 {
		t.Errorf("%d entries of refused captures are left beside the two", n-2)
	}
	propose(t, s, boris, sized(get(t, s, "w5"), 100, 1, 100))

	// Approved, cancelled, over: each leaves room for one. Their bytes count while they are kept.
	mostBytes = 1000
	approve(t, s, bea, first)
	again := fits(4, 60)
	if _, err := s.Cancel(t.Context(), last.ID, "not needed", by(anna, "changes.cancel")); err != nil {
		t.Fatal(err)
	}
	fits(6, 1)
	w.exec(t, "update control.changes set created_at = created_at - interval '2 days', approve_by = approve_by - interval '2 days' where id = $1", uuid.UUID(again.ID))
	fits(7, 60)
	_, err = try(8, 1)
	wantCode(t, err, "BW-CHANGE-004")
}

// Who captures and cancels again and again fills nothing: bytes count for as long as they are kept.
func TestBytesOfEndedChangesCountWhileTheyAreKept(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	try := func(size int64) (*Change, error) {
		adm, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), capturing(sized(get(t, s, "w1"), size, 10, 100)))
		return adm.Change, err
	}
	c, err := try(60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), c.ID, "not needed", by(anna, "changes.cancel")); err != nil {
		t.Fatal(err)
	}
	_, err = try(41)
	wantCode(t, err, "BW-CHANGE-004")
	if n, err := s.DropSealed(t.Context(), 0); n != 1 || err != nil {
		t.Fatalf("%d dropped: %v", n, err)
	}
	if _, err := try(41); err != nil {
		t.Error(err)
	}
}

// Two captures of one caller at once, on machines of two clusters: the requester's row makes
// them take turns, so that the cap is met exactly. Control: when its lock is not taken, both
// count before either is there, and the cap is overrun.
func TestTheCapHoldsInARace(t *testing.T) {
	rows := []struct {
		name   string
		locked bool
		most   int
		bytes  int64
	}{
		{"by number", true, 1, 100},
		{"by bytes", true, 10, 6},
		{"control: by number", false, 1, 100},
		{"control: by bytes", false, 10, 6},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			if _, _, err := s.AddMachine(t.Context(), NewMachine{Name: "far", Cluster: "other", Addresses: addrs("10.9.0.9")}, by(admin, "machines.add")); err != nil {
				t.Fatal(err)
			}
			ok(t)(s.PinMachine(t.Context(), "far", worker(9), false, by(admin, "machines.pin")))
			w.exec(t, "insert into control.requesters values ($1, $2)", anna.Issuer, anna.Subject)
			if !row.locked {
				lock := sqlRequesterLock
				t.Cleanup(func() { sqlRequesterLock = lock })
				sqlRequesterLock = "insert into control.requesters (issuer, subject) values ($1, $2) on conflict on constraint requesters_pkey do nothing"
			}
			// Both stand still after counting: nobody gets at the table that is written next.
			still, err := w.root.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer still.Rollback(context.WithoutCancel(t.Context()))
			if _, err := still.Exec(t.Context(), "lock table control.changes in share row exclusive mode"); err != nil {
				t.Fatal(err)
			}
			stores := []*Store{s, w.store(t, "gw-2", nil)}
			errs := make(chan error, len(stores))
			for i, name := range []string{"w1", "far"} {
				m := get(t, s, name)
				go func() {
					_, err := stores[i].Admit(t.Context(), apply(m, anna), capturing(sized(m, 4, row.most, row.bytes)))
					errs <- err
				}()
			}
			w.waiting(t, 2)
			if err := still.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			var refused []error
			for range stores {
				if err := <-errs; err != nil {
					refused = append(refused, err)
				}
			}
			captured := w.count(t, "select count(*) from control.changes where (issuer, subject) = ($1, $2)", anna.Issuer, anna.Subject)
			if want := map[bool]int{true: 1, false: 2}[row.locked]; captured != want || len(refused) != 2-want {
				t.Fatalf("%d captured, want %d; refused: %v", captured, want, refused)
			}
			var full *ChangeError
			for _, err := range refused {
				if !errors.As(err, &full) || full.Code != "BW-CHANGE-004" {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// Many at once, from two replicas: as many get in as the cap says.
func TestTheCapIsExactForMany(t *testing.T) {
	const machines, most = 10, 4
	w := newWorld(t)
	s := w.house(t, machines)
	w.exec(t, "update control.clusters set rollout_limit = 100")
	stores := []*Store{s, w.store(t, "gw-2", nil)}
	errs := make(chan error, machines)
	for i := range machines {
		m := get(t, s, fmt.Sprintf("w%d", i+1))
		go func() {
			_, err := stores[i%2].Admit(t.Context(), apply(m, anna), capturing(sized(m, 1, most, 1<<20)))
			errs <- err
		}()
	}
	in := 0
	for range machines {
		if err := <-errs; err == nil {
			in++
		} else {
			wantCode(t, err, "BW-CHANGE-004")
		}
	}
	if n := w.count(t, "select count(*) from control.change_states where state = 'waiting'"); in != most || n != most {
		t.Errorf("%d got in, %d wait, want %d", in, n, most)
	}
}

// What is captured is bounded, whole, and of a machine whose serial was noted.
func TestCaptureRefusesWhatIsNotAChange(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	rows := []struct {
		name   string
		change func(*NewChange)
		want   error
		guard  string
	}{
		{"a clock that is too short", func(n *NewChange) { n.ApproveWithin = time.Second }, ErrInvalid, ""},
		{"a clock that is too long", func(n *NewChange) { n.UseWithin = 31 * 24 * time.Hour }, ErrInvalid, ""},
		{"a set with a NUL", func(n *NewChange) { n.Set = "a\x00b" }, ErrInvalid, ""},
		{"no sealed bytes", func(n *NewChange) { n.Sealed = nil }, nil, ""},
		{"another mode", func(n *NewChange) { n.Mode = "reboot" }, nil, "changes_mode"},
		{"no digest", func(n *NewChange) { n.Digest = "" }, nil, "changes_digests"},
		{"no bytes", func(n *NewChange) { n.Size = 0 }, nil, "changes_size"},
		{"another identity", func(n *NewChange) { n.Identity.NodeID = "stranger" }, nil, "changes_expected_identity"},
		{"an unknown kind", func(n *NewChange) { n.Kind = "delete" }, nil, "changes_drift_named"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := get(t, s, "w1")
			n := proposal(m)
			row.change(n)
			_, err := s.Admit(t.Context(), apply(m, anna), capturing(n))
			switch {
			case err == nil:
				t.Fatal("captured")
			case row.guard != "":
				wantGuard(t, err, row.guard)
			case row.want != nil:
				wantErr(t, err, row.want)
			}
		})
	}
	r := apply(get(t, s, "w1"), anna)
	r.Apply, r.Changes, r.Serial = false, true, 0
	_, err := s.Admit(t.Context(), r, capturing(proposal(get(t, s, "w1"))))
	wantGuard(t, err, "capture_serial")
	for _, table := range []string{"changes", "change_states", "change_reviews", "sealed_bytes", "notices"} {
		if n := w.count(t, "select count(*) from control."+table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
}
