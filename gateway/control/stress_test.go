package control

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
	"bronzeward/policy"
)

// crowd is one of many clients that do everything at once to a few machines.
type crowd struct {
	t    *testing.T
	s    *Store
	dice *rand.Rand
	me   policy.Person
	n    int
}

// changes are a few of the newest, in any order.
func (c *crowd) changes() []Change {
	list, err := c.s.ListChanges(c.t.Context(), ChangeFilter{Limit: 6})
	if err != nil {
		c.t.Error(err)
	}
	c.dice.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), 3)]
}

func (c *crowd) machine() Machine {
	m, err := c.s.GetMachine(c.t.Context(), fmt.Sprintf("w%d", 1+c.dice.IntN(3)))
	if err != nil {
		c.t.Error(err)
	}
	return m
}

// act does one thing; which one is the dice's.
func (c *crowd) act() error {
	ctx, key := c.t.Context(), once(fmt.Sprintf("key-%d", c.dice.IntN(40)), "x")
	list, m := c.changes(), c.machine()
	if len(list) == 0 {
		_, err := c.s.Admit(ctx, apply(m, c.me), capturing(proposal(m)))
		return err
	}
	one := list[0]
	var err error
	switch c.dice.IntN(12) {
	case 0, 1:
		n := proposal(m)
		n.Digest = fmt.Sprintf("hmac-sha256:k1:%d", c.dice.IntN(5))
		_, err = c.s.Admit(ctx, apply(m, c.me), capturing(n))
	case 2, 3:
		var set []ApproveOne
		for _, each := range list {
			set = append(set, ApproveOne{ID: each.ID, Digest: each.Digest})
		}
		_, err = c.s.Approve(ctx, approver(c.me), set, keyed(c.me, key))
	case 4:
		_, err = c.s.Reject(ctx, one.ID, "no", keyed(c.me, key))
	case 5:
		if len(one.Approvals) > 0 {
			_, err = c.s.RevokeApproval(ctx, one.Approvals[0].ID, "looked again", keyed(c.me, key))
		}
	case 6:
		c.n++
		_, err = c.s.RevokeIdentity(ctx, c.me, "left", by(admin, "identities.revoke"))
		c.me.Subject = fmt.Sprintf("%s%d", c.me.Subject[:2], c.n)
	case 7:
		_, err = c.s.RecordObservation(ctx, m.Name, seen(m, []string{digestB, digestC}[c.dice.IntN(2)], digestB), by(admin, "machines.observe"))
	case 8:
		_, err = c.s.ExpireChanges(ctx)
	case 9:
		_, err = c.s.Admit(ctx, apply(m, c.me), func(l Locked) Judgement {
			j := allowOnly(l)
			j.Entry.Verdict, j.Quorum = audit.Denied, asksFor(c.dice.IntN(3))
			if len(l.Changes) > 0 {
				j.Known = l.Changes[0].ID
			}
			return j
		})
	default:
		err = c.apply(m, one)
	}
	return err
}

// apply spends a change and closes its attempt.
func (c *crowd) apply(m Machine, one Change) error {
	adm, err := c.s.Admit(c.t.Context(), apply(m, c.me), func(l Locked) Judgement {
		if len(l.Changes) > 0 {
			one = l.Changes[0]
		}
		j := spending(one.ID, asksFor(c.dice.IntN(2)))(l)
		j.Attempt.Digest, j.Attempt.Base, j.Attempt.Persistent = one.Digest, one.Base, one.Persistent
		return j
	})
	if err != nil {
		return err
	}
	to := []State{StateCompleted, StateRejected, StateNotSent}[c.dice.IntN(3)]
	end := Closing{AttemptID: adm.Attempt.ID, Owner: adm.Attempt.Owner, To: to, ReadActive: adm.Attempt.Digest, ReadPersistent: adm.Attempt.Digest}
	return c.s.CloseAttempt(c.t.Context(), end)
}

// refusal is true for what the house says no to; nothing else may come of an act.
func refusal(err error) bool {
	var (
		change   *ChangeError
		guard    *GuardError
		replayed *ReplayedError
	)
	return errors.As(err, &change) || errors.As(err, &guard) || errors.As(err, &replayed) || errors.Is(err, ErrMoved) ||
		errors.Is(err, ErrBusy) || errors.Is(err, ErrInFlight) || errors.Is(err, ErrConflict)
}

// Every act at once on a few changes of a few machines, by many on three replicas: the order of
// locks is one, so that nobody is ever told of a deadlock, and what is left is whole.
func TestEverythingAtOnceWithoutADeadlock(t *testing.T) {
	const clients, acts = 12, 40
	w := newWorld(t)
	// A session that waits looks for a deadlock almost at once, so that none passes unseen.
	w.exec(t, "alter database "+w.name+" set deadlock_timeout = '20ms'")
	first := w.house(t, 3)
	ok(t)(first.SetRolloutLimit(t.Context(), "lab", 2, by(admin, "clusters.limit")))
	stores := []*Store{first, w.store(t, "gw-2", nil), w.store(t, "gw-3", nil)}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		done int
	)
	for i := range clients {
		c := &crowd{t: t, s: stores[i%3], dice: rand.New(rand.NewPCG(3, uint64(i))), me: policy.Person{Issuer: "https://id.test", Subject: fmt.Sprintf("%c-0", 'a'+i)}}
		wg.Go(func() {
			for range acts {
				err := c.act()
				mu.Lock()
				if err == nil {
					done++
				} else if !refusal(err) {
					t.Errorf("an act came to %v", err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		s.pool.Reset() // a session says what it has counted when it ends
	}
	deadlocks := "select deadlocks from pg_stat_database where datname = current_database()"
	eventually(t, "the sessions to end", func() bool {
		return w.count(t, "select count(*) from pg_stat_activity where datname = current_database() and usename = 'test_gateway' and state <> 'idle'") == 0
	})
	if n := w.count(t, deadlocks); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	t.Logf("%d of %d acts were carried out", done, clients*acts)
	for what, sql := range map[string]string{
		"changes spent by more than one attempt that stands": `select count(*) from (select change_id from control.attempts
			where change_id is not null and state not in ('rejected', 'not_sent') group by change_id having count(*) > 1) x`,
		"spent changes whose attempt is of another": `select count(*) from control.change_states s left join control.attempts a on a.id = s.attempt_id
			where s.state = 'spent' and a.change_id is distinct from s.change_id`,
		"live changes of the revoked": `select count(*) from control.change_rows where state in ('waiting', 'approved') and requester_revoked`,
		"approved changes that too few approve": `select count(*) from control.change_rows r where r.state = 'approved'
			and r.required > control.approvals_that_count(r.id, r.groups, r.self_approval, '', '')`,
		"steps that no table has": `select count(*) from (select state, lag(state) over (partition by change_id order by position) before from control.change_steps) x
			where before is not null and not control.change_may_become(before, state)`,
		"changes that are not where their last step says": `select count(*) from control.change_states s where s.state <>
			(select t.state from control.change_steps t where t.change_id = s.change_id order by position desc limit 1)`,
		"keys without an answer": "select count(*) from control.idempotency_keys where status = 0",
	} {
		if n := w.count(t, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	w.deadlock(t)
	eventually(t, "control: a deadlock to be counted", func() bool { return w.count(t, deadlocks) == 1 })
}

// deadlock lets two sessions take two locks crosswise.
func (w *world) deadlock(t *testing.T) {
	t.Helper()
	const lock = "select from control.machines where name = $1 for update"
	var wg sync.WaitGroup
	var txs []pgx.Tx
	lost := make(chan bool, 2)
	for _, name := range []string{"w1", "w2"} {
		tx, err := connect(t, w.url(t, "postgres")).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), lock, name); err != nil {
			t.Fatal(err)
		}
		txs = append(txs, tx)
	}
	for i, name := range []string{"w2", "w1"} {
		wg.Go(func() {
			_, err := txs[i].Exec(t.Context(), lock, name)
			var pg *pgconn.PgError
			lost <- errors.As(err, &pg) && pg.Code == codeDeadlock
			_ = txs[i].Rollback(t.Context())
			_ = txs[i].Conn().Close(t.Context())
		})
	}
	wg.Wait()
	if a, b := <-lost, <-lost; a == b {
		t.Errorf("control: lost by both or neither: %t", a)
	}
}

// An approval of a set that loses to a deadlock is run again, whole: one approval each, and
// nothing of the first run.
func TestADeadlockedApprovalIsRunAgain(t *testing.T) {
	w := newWorld(t)
	w.exec(t, "alter role test_gateway in database "+w.name+" set deadlock_timeout = '2s'")
	s := w.house(t, 2)
	var set []ApproveOne
	for _, name := range []string{"w1", "w2"} {
		set = append(set, ApproveOne{ID: propose(t, s, anna, proposal(get(t, s, name))).ID, Digest: digestA})
	}
	entries := w.count(t, "select count(*) from audit.entries")
	root, err := w.root.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Rollback(t.Context())
	// The other side takes the machines the wrong way round, and is not the one to give up.
	mustExec(t, root, "set local deadlock_timeout = '10min'")
	mustExec(t, root, "select from control.machines where name = 'w2' for update")
	key, done := once("key", "a"), make(chan error, 1)
	go func() {
		_, err := s.Approve(t.Context(), approver(bea), set, keyed(bea, key))
		done <- err
	}()
	w.waiting(t, 1)
	mustExec(t, root, "select from control.machines where name = 'w1' for update")
	if err := root.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("after a deadlock: %v", err)
	}
	if n := w.count(t, "select count(*) from control.approvals"); n != 2 {
		t.Errorf("%d approvals, want one each", n)
	}
	if n := w.count(t, "select count(*) from audit.entries") - entries; n != 2 {
		t.Errorf("%d entries, want one each", n)
	}
	if n := w.count(t, "select count(*) from control.idempotency_keys where status = 201"); n != 1 {
		t.Errorf("%d answers kept", n)
	}
	eventually(t, "the deadlock to be counted: without one the test proves nothing", func() bool {
		return w.count(t, "select deadlocks from pg_stat_database where datname = current_database()") > 0
	})
}
