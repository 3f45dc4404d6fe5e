package control

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// paused runs Admit with a judge that stops inside the transaction, under all locks, until
// the returned function is called; that one gives Admit's result.
func paused(t *testing.T, s *Store, r Request, judge func(Locked) Judgement) (resume func() (Admission, error)) {
	t.Helper()
	inside, release := make(chan struct{}), make(chan struct{})
	var (
		once sync.Once
		adm  Admission
		err  error
	)
	done := make(chan struct{})
	go func() {
		defer close(done)
		adm, err = s.Admit(t.Context(), r, func(l Locked) Judgement {
			once.Do(func() { close(inside); <-release })
			return judge(l)
		})
	}()
	select {
	case <-inside:
	case <-done:
		t.Fatalf("Admit ended before it judged: %v", err)
	}
	return func() (Admission, error) {
		close(release)
		<-done
		return adm, err
	}
}

// revoking revokes in the background; the channel gives the result.
func revoking(t *testing.T, s *Store) <-chan error {
	out := make(chan error, 1)
	go func() {
		_, err := s.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke"))
		out <- err
	}()
	return out
}

// A revocation waits for decisions that are under way, and every later one sees it.
func TestARevocationThatReturnedIsSeenByEveryLaterDecision(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	other := w.store(t, "gw-2", nil)
	r := apply(get(t, s, "w1"), anna)
	resume := paused(t, s, r, allow)
	revoked := revoking(t, other)
	w.waiting(t, 1)
	select {
	case err := <-revoked:
		t.Fatalf("the revocation returned (%v) while a decision was under way", err)
	default:
	}
	if _, err := resume(); err != nil {
		t.Fatalf("the decision that was first: %v", err)
	}
	if err := <-revoked; err != nil {
		t.Fatal(err)
	}
	_, err := s.Admit(t.Context(), apply(get(t, s, "w2"), anna), allow)
	wantGuard(t, err, "caller_not_revoked")
	early := w.count(t, `select count(*) from audit.entries e, control.identity_revocations r
		where e.method like '/machine%' and e.verdict = 'allow' and e.authority_version >= r.authority_version`)
	if early != 0 {
		t.Errorf("%d allows name a version at which anna was revoked", early)
	}
}

// Control: without the lock, a revocation returns while a decision is under way, and the
// decision allows what was revoked.
func TestControlWithoutTheAuthorityLock(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	w.exec(t, `create or replace function control.lock_authority_shared() returns void language sql as $$ select null::void $$`)
	r := apply(get(t, s, "w1"), anna)
	resume := paused(t, s, r, allowOnly)
	if err := <-revoking(t, s); err != nil {
		t.Fatal(err)
	}
	adm, err := resume()
	if err != nil {
		t.Fatalf("without the lock the decision should have been let through: %v", err)
	}
	bad := w.count(t, `select count(*) from audit.entries e, control.identity_revocations r
		where e.id = $1 and e.verdict = 'allow' and e.recorded_at > r.revoked_at`, adm.Receipt.ID)
	if bad != 1 {
		t.Error("the bad end state did not come: the test above proves nothing")
	}
}

// An act that takes authority away waits for the shared side, and holds off later takers.
func TestExclusiveWaitsForShared(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	version, err := s.Guard(t.Context(), tx)
	if err != nil {
		t.Fatal(err)
	}
	revoked := revoking(t, s)
	w.waiting(t, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-revoked; err != nil {
		t.Fatal(err)
	}
	if got := authorityVersion(t, s); got != version+1 {
		t.Errorf("version is %d after the revocation, want %d", got, version+1)
	}
}

// The version is read by the statement after the lock: a Guard that had to wait for an
// exclusive act gives the version that act made.
func TestGuardReadsTheVersionAfterTheLock(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	before := authorityVersion(t, s)
	act, err := w.root.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer act.Rollback(t.Context())
	for _, sql := range []string{"select control.lock_authority()", "update control.authority set version = version + 1"} {
		if _, err := act.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan int64, 1)
	go func() {
		_ = pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			v, err := s.Guard(t.Context(), tx)
			got <- v
			return err
		})
	}()
	w.waiting(t, 1)
	if err := act.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != before+1 {
		t.Errorf("guard read version %d, want %d", v, before+1)
	}
}

// Many replicas race for one cluster: the locked slot lets through as many as the limit says.
func TestTheRolloutLimitHoldsInARace(t *testing.T) {
	const machines, limit = 8, 3
	w := newWorld(t)
	s := w.house(t, machines)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", limit, by(admin, "clusters.limit")))
	stores := []*Store{s, w.store(t, "gw-2", nil)}
	list, err := s.ListMachines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, machines)
	for i, m := range list {
		wg.Go(func() { _, errs[i] = stores[i%2].Admit(t.Context(), apply(m, anna), allow) })
	}
	wg.Wait()
	opened := 0
	for _, err := range errs {
		var busy *BusyError
		switch {
		case err == nil:
			opened++
		case !errors.As(err, &busy) || busy.Scope != "cluster":
			t.Errorf("got %v, want busy by the cluster", err)
		}
	}
	if held := w.count(t, "select count(*) from control.attempts where state = 'open'"); opened != limit || held != limit {
		t.Errorf("%d admitted, %d rows open, want %d", opened, held, limit)
	}
}

// Two decisions about two machines of one cluster take turns at its slot.
func TestTheClusterSlotIsLocked(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	resume := paused(t, s, apply(get(t, s, "w1"), anna), allow)
	second := make(chan error, 1)
	r := apply(get(t, s, "w2"), boris)
	go func() {
		_, err := s.Admit(t.Context(), r, allow)
		second <- err
	}()
	w.waiting(t, 1)
	if _, err := resume(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, <-second, ErrBusy)
}

// Control: with the slot not locked, both judge at once and both commit, over the limit.
func TestControlWithoutTheClusterSlot(t *testing.T) {
	locked := sqlClusterSlot
	t.Cleanup(func() { sqlClusterSlot = locked })
	sqlClusterSlot = "select c.rollout_limit from control.clusters c where c.name = (select m.cluster from control.machines m where m.id = $1)"
	w := newWorld(t)
	s := w.house(t, 2)
	one := paused(t, s, apply(get(t, s, "w1"), anna), allow)
	two := paused(t, s, apply(get(t, s, "w2"), boris), allow)
	_, err1 := one()
	_, err2 := two()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "select count(*) from control.attempts where state = 'open'"); n != 2 {
		t.Errorf("%d open attempts: the bad end state did not come, so the tests above prove nothing", n)
	}
}

// The unique index is the last word on one held attempt per machine; control: without it
// two sessions both commit one.
func TestOneHeldAttemptPerMachineByIndex(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		t.Run(map[bool]string{true: "index", false: "control: index dropped"}[guarded], func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			if !guarded {
				w.exec(t, "drop index control.attempts_one_held_per_machine")
			}
			first := open(t, s, "w1", anna)
			second := *first
			second.ID, second.EntryID = newID(t), newID(t)
			second.liveType, second.stage, second.minor = "worker", "running", "1.13"
			err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
				return openAttempt(t.Context(), tx, &second, MinSettleFloor)
			})
			var held *heldError
			if errors.As(err, &held) != guarded {
				t.Fatalf("the second attempt: %v", err)
			}
			want := map[bool]int{true: 1, false: 2}[guarded]
			if n := w.count(t, "select count(*) from control.attempts where state = 'open'"); n != want {
				t.Errorf("%d open attempts, want %d", n, want)
			}
		})
	}
}

// A deadlock is the loser's to run again, whole: nothing of the first run is left.
func TestADeadlockIsRunAgain(t *testing.T) {
	w := newWorld(t)
	// Its session looks for a deadlock once, so long after it began to wait: late enough that
	// the other side has begun to wait too.
	w.exec(t, "alter role test_gateway in database "+w.name+" set deadlock_timeout = '2s'")
	s := w.house(t, 1)
	m := get(t, s, "w1")
	root, err := w.root.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Rollback(t.Context())
	// The other side takes the locks the wrong way round, and is not the one to give up.
	for _, sql := range []string{"set local deadlock_timeout = '10min'", "select from control.clusters where name = 'lab' for update"} {
		if _, err := root.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	admitted := make(chan error, 1)
	go func() {
		_, err := s.Admit(t.Context(), apply(m, anna), allow)
		admitted <- err
	}()
	w.waiting(t, 1)
	if _, err := root.Exec(t.Context(), "select from control.machines where id = $1 for update", m.ID); err != nil {
		t.Fatal(err)
	}
	if err := root.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-admitted; err != nil {
		t.Fatalf("after a deadlock: %v", err)
	}
	if n := w.count(t, "select count(*) from audit.entries where attempt_id is not null"); n != 1 {
		t.Errorf("%d entries, want one", n)
	}
	if n := w.count(t, "select deadlocks from pg_stat_database where datname = current_database()"); n == 0 {
		t.Error("there was no deadlock: the test proves nothing")
	}
}

func TestALostRaceIsRunThreeTimesThenUnavailable(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	for _, code := range []string{codeSerialization, codeDeadlock} {
		runs := 0
		err := s.inTx(t.Context(), func(pgx.Tx) (written, error) {
			runs++
			return written{}, &pgconn.PgError{Code: code}
		})
		if !errors.Is(err, ErrUnavailable) || runs != 3 {
			t.Errorf("%s: %d runs, then %v", code, runs, err)
		}
	}
	runs := 0
	err := s.inTx(t.Context(), func(pgx.Tx) (written, error) {
		runs++
		return written{entry: uuid.Nil}, ErrMoved
	})
	if !errors.Is(err, ErrMoved) || runs != 1 {
		t.Errorf("another error: %d runs, then %v", runs, err)
	}
}
