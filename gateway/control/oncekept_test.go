package control

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// Control: with the key's row not unique, a repetition while the first is under way does it
// once more.
func TestControlAKeyThatIsNotLocked(t *testing.T) {
	for _, locked := range []bool{true, false} {
		w := newWorld(t)
		s := w.house(t, 1)
		if !locked {
			take := sqlOnceTake
			t.Cleanup(func() { sqlOnceTake = take })
			sqlOnceTake = "insert into control.idempotency_keys (issuer, subject, key, route, body) values ($1, $2, $3, $4, $5)"
			w.exec(t, "alter table control.idempotency_keys drop constraint idempotency_keys_pkey")
		}
		observe := func(o *Once) error {
			_, err := s.RecordObservation(t.Context(), "w1", Observation{Began: time.Now(), Active: digestB, Persistent: digestB}, keyed(admin, o))
			return err
		}
		slow := once("key", "a")
		again := make(chan error, 1)
		slow.Answer = func() (int, []byte, error) {
			go func() { again <- observe(once("key", "a")) }()
			w.waiting(t, 1) // at the key, or, past it, at the machine
			return 201, []byte("answer to a"), nil
		}
		if err := observe(slow); err != nil {
			t.Fatal(err)
		}
		err := <-again
		if locked {
			wantReplay(t, err, "answer to a")
		} else if err != nil {
			t.Fatal(err)
		}
		if n := w.count(t, "select count(*) from control.observations"); n != map[bool]int{true: 1, false: 2}[locked] {
			t.Errorf("locked %t: %d observations", locked, n)
		}
	}
}

// An answer is kept in the transaction of its effect: whatever cuts the two apart leaves both
// or neither.
func TestAnAnswerIsKeptWithItsEffect(t *testing.T) {
	rows := []struct {
		name string
		cut  int32
		kill bool
		want int
	}{
		{"the session is killed before the commit", passOn, true, 0},
		{"the commit is lost on its way", cutRequest, false, 0},
		{"the commit's answer is lost", cutReply, false, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			c := propose(t, w.house(t, 1), anna, proposal(get(t, w.store(t, "gw-0", nil), "w1")))
			p, dsn := newProxy(t)
			s := w.store(t, "gw-cut", func(c *Config) { c.URL = dsn + " dbname=" + w.name })
			o := once("key", "a")
			answer := o.Answer
			o.Answer = func() (int, []byte, error) {
				p.next.Store(row.cut)
				if row.kill {
					w.count(t, `select count(pg_terminate_backend(pid)) from pg_stat_activity
						where datname = current_database() and state = 'idle in transaction'`)
				}
				return answer()
			}
			_, err := s.Approve(t.Context(), approver(bea), []ApproveOne{{ID: c.ID, Digest: c.Digest}}, keyed(bea, o))
			if (err == nil) != (row.want == 1) {
				t.Errorf("got %v", err)
			}
			if n := w.count(t, "select count(*) from control.approvals"); n != row.want {
				t.Errorf("%d approvals, want %d", n, row.want)
			}
			if n := w.count(t, "select count(*) from control.idempotency_keys where status = 201"); n != row.want {
				t.Errorf("%d answers kept, want %d", n, row.want)
			}
			if n := w.count(t, "select count(*) from control.idempotency_keys"); n != row.want {
				t.Errorf("%d keys, want %d", n, row.want)
			}
		})
	}
}

// A repeated import is answered as the first was, although its machines are there by now.
func TestARepeatedImportIsReplayed(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	list := []NewMachine{{Name: "m1", Cluster: "lab", Addresses: []netip.Addr{netip.MustParseAddr("10.8.0.1")}}}
	if _, err := s.ImportMachines(t.Context(), list, keyed(admin, once("key", "a"))); err != nil {
		t.Fatal(err)
	}
	_, err := s.ImportMachines(t.Context(), list, keyed(admin, once("key", "a")))
	wantReplay(t, err, "answer to a")
	_, err = s.ImportMachines(t.Context(), list, keyed(admin, once("other", "a")))
	wantErr(t, err, ErrInvalid)
}

// Keys are forgotten after a while, and not before.
func TestOldKeysAreForgotten(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := propose(t, s, anna, proposal(get(t, s, "w1")))
	if _, err := s.Cancel(t.Context(), c.ID, "not wanted", keyed(anna, once("key", "a"))); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	if n, err := s.DropKeys(ctx, maxClock); err != nil || n != 0 {
		t.Errorf("%d keys forgotten, %v", n, err)
	}
	w.exec(t, "update control.idempotency_keys set created_at = created_at - interval '31 days'")
	if n, err := s.DropKeys(ctx, maxClock); err != nil || n != 1 {
		t.Errorf("%d keys forgotten, %v; want one", n, err)
	}
	if w.count(t, "select count(*) from control.change_states where state = 'cancelled'") != 1 {
		t.Error("forgetting a key undid something")
	}
}
