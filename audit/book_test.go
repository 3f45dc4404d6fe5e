package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func mustStatement(t testing.TB, e Entry) statement {
	t.Helper()
	s, err := entryStatement(e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func detail(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Detail
	}
	return ""
}

// gate is a guard that tells when a transaction is in it and waits to be let through.
type gate struct {
	entered chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) guard(ctx context.Context, tx pgx.Tx) (int64, error) {
	g.entered <- struct{}{}
	select {
	case <-g.open:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return guard(ctx, tx)
}

// eventually waits until ok, for at most the test's own deadline.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for i := 0; !ok(); i++ {
		if i > 20_000 {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// held makes a Book whose first transaction is held in its guard, with rows given to write behind it; they form one batch.
func held(t *testing.T, db database, change func(*BookConfig), writes ...func(*Book) error) (errs []error, b *Book) {
	t.Helper()
	g := newGate()
	b = newBook(t, db, func(c *BookConfig) {
		c.Committers, c.Guard = 1, g.guard
		if change != nil {
			change(c)
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.Write(t.Context(), readEntry()); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	errs = make([]error, len(writes))
	for i, w := range writes {
		wg.Go(func() { errs[i] = w(b) })
		eventually(t, "the row waits", func() bool { return b.Stats().Queued == i+1 })
	}
	close(g.open)
	wg.Wait()
	return errs, b
}

func write(t *testing.T, change func(*Entry)) func(*Book) error {
	e := readEntry()
	change(&e)
	return func(b *Book) error {
		_, err := b.Write(t.Context(), e)
		return err
	}
}

func TestRowsThatArriveTogetherShareACommit(t *testing.T) {
	db := newDatabase(t)
	var writes []func(*Book) error
	for range 20 {
		writes = append(writes, write(t, func(*Entry) {}))
	}
	writes = append(writes, func(b *Book) error {
		return b.WriteOutcome(t.Context(), Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered})
	})
	errs, b := held(t, db, nil, writes...)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if s := b.Stats(); s.Batches != 2 || s.Rows != 22 || s.LargestBatch != 21 {
		t.Errorf("%+v, want the first row's batch and one of 21", s)
	}
	if n := count(t, db.owner, "select count(distinct xmin::text) from audit.entries"); n != 2 {
		t.Errorf("%d transactions, want 2", n)
	}
	if n := count(t, db.owner, "select count(*) from audit.unsequenced"); n != 22 {
		t.Errorf("%d rows wait for the sequencer, want 22", n)
	}
}

func TestBadRowIsRefusedAlone(t *testing.T) {
	db := newDatabase(t)
	bad := write(t, func(e *Entry) { e.Kind = "nonsense" })
	good := write(t, func(*Entry) {})
	errs, b := held(t, db, nil, good, bad, good)
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("the neighbours: %v, %v", errs[0], errs[2])
	}
	if !errors.Is(errs[1], ErrUnavailable) {
		t.Errorf("the bad row: %v, want ErrUnavailable", errs[1])
	}
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != 3 || b.Stats().RowsRefused != 1 {
		t.Errorf("%d rows, %+v", n, b.Stats())
	}

	// Control: in one transaction without going row by row, the bad one takes its neighbours along.
	var batch pgx.Batch
	e := readEntry()
	e.Kind = "nonsense"
	queueRows(&batch, []statement{mustStatement(t, readEntry()), mustStatement(t, e)}, insertEntries)
	if err := db.gateway.SendBatch(t.Context(), &batch).Close(); err == nil {
		t.Error("control: written")
	}
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != 3 {
		t.Errorf("control: %d rows", n)
	}
}

func TestEntryJudgedAtAnotherVersionIsStale(t *testing.T) {
	db := newDatabase(t)
	at := func(version int64, kind Kind, verdict Verdict) func(*Book) error {
		return write(t, func(e *Entry) { e.AuthorityVersion, e.Kind, e.Verdict = version, kind, verdict })
	}
	cases := []struct {
		name  string
		write func(*Book) error
		stale bool
	}{
		{"allowed at an older version", at(authority-1, KindRPC, Allowed), true},
		{"allowed now", at(authority, KindRPC, Allowed), false},
		{"denied at an older version", at(authority-1, KindRPC, Denied), true},
		{"allowed at a version to come", at(authority+1, KindHTTP, Allowed), true},
		{"allowed at no version", at(0, KindRPC, Allowed), true},
		{"refused, so judged at none", at(0, KindRPC, Refused), false},
		{"the gateway itself", at(0, KindSystem, Allowed), false},
	}
	var writes []func(*Book) error
	want := 1
	for _, c := range cases {
		writes = append(writes, c.write)
		if !c.stale {
			want++
		}
	}
	errs, _ := held(t, db, nil, writes...)
	for i, c := range cases {
		var stale *StaleError
		switch is := errors.As(errs[i], &stale); {
		case is != c.stale, !is && errs[i] != nil:
			t.Errorf("%s: %v", c.name, errs[i])
		case is && (stale.Current != authority || errors.Is(errs[i], ErrUnavailable)):
			t.Errorf("%s: %v, want version %d and no outage", c.name, errs[i], authority)
		}
	}
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}

// A revocation holds the lock exclusively: entries wait for it, and one judged before it is stale after it.
func TestEntriesWaitForWhoTakesAuthorityAway(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	tx, err := db.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "select pg_advisory_xact_lock($1)", authorityLock); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error)
	go func() {
		_, err := b.Write(t.Context(), readEntry())
		answer <- err
	}()
	eventually(t, "the entry waits for the lock", func() bool {
		return count(t, db.owner, "select count(*) from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())") == 1
	})
	if _, err := tx.Exec(t.Context(), "update public.authority set version = version + 1"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var stale *StaleError
	if err := <-answer; !errors.As(err, &stale) || stale.Current != authority+1 {
		t.Errorf("%v, want stale at %d", err, authority+1)
	}
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestWithoutGuardOutcomesAreWrittenAndEntriesNot(t *testing.T) {
	db := newDatabase(t)
	broken := errors.New("no authority row")
	first := true
	change := func(c *BookConfig) {
		through := c.Guard
		c.Guard = func(ctx context.Context, tx pgx.Tx) (int64, error) {
			if first {
				first = false
				return through(ctx, tx)
			}
			return 0, broken
		}
	}
	errs, _ := held(t, db, change, write(t, func(*Entry) {}), func(b *Book) error {
		return b.WriteOutcome(t.Context(), Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered})
	}, write(t, func(e *Entry) { e.Verdict = Refused }))
	if !errors.Is(errs[0], ErrUnavailable) || !errors.Is(errs[0], broken) || errs[1] != nil || !errors.Is(errs[2], ErrUnavailable) {
		t.Errorf("%v", errs)
	}
	if e, o := count(t, db.owner, "select count(*) from audit.entries"), count(t, db.owner, "select count(*) from audit.outcomes"); e != 1 || o != 1 {
		t.Errorf("%d entries and %d outcomes, want the first entry and the outcome", e, o)
	}
}

func TestFullQueueMakesCallersWaitAndDropsNothing(t *testing.T) {
	db := newDatabase(t)
	g := newGate()
	b := newBook(t, db, func(c *BookConfig) { c.Queue, c.MaxBatch, c.Committers, c.Guard = 2, 1, 1, g.guard })
	const callers = 9
	errs := make(chan error, callers)
	for range callers {
		go func() {
			_, err := b.Write(t.Context(), readEntry())
			errs <- err
		}()
	}
	<-g.entered
	eventually(t, "the queue is full", func() bool { return b.Stats().Queued == 2 })

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	e := readEntry()
	e.Detail = "left"
	if _, err := b.Write(gone, e); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who leaves: %v", err)
	}
	if err := b.EnqueueOutcome(gone, Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an outcome without a place: %v", err)
	}
	close(g.open)
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != callers {
		t.Errorf("%d rows, want %d", n, callers)
	}
}

func TestRowOfACallerWhoLeftInTheQueueIsNotWritten(t *testing.T) {
	db := newDatabase(t)
	g := newGate()
	b := newBook(t, db, func(c *BookConfig) { c.Committers, c.Guard = 1, g.guard })
	first := make(chan error)
	go func() {
		_, err := b.Write(t.Context(), readEntry())
		first <- err
	}()
	<-g.entered
	ctx, leave := context.WithCancelCause(t.Context())
	second := make(chan error)
	go func() {
		_, err := b.Write(ctx, readEntry())
		second <- err
	}()
	eventually(t, "the second row waits", func() bool { return b.Stats().Queued == 1 })
	why := errors.New("stream gone")
	leave(why)
	if err := <-second; !errors.Is(err, why) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	close(g.open)
	if err := <-first; err != nil {
		t.Error(err)
	}
	b.Close()
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != 1 {
		t.Errorf("%d rows, want the first one's", n)
	}
}

func TestMonthWithoutPartitionIsMade(t *testing.T) {
	db := newDatabase(t)
	for _, parent := range []string{"entries", "outcomes"} {
		for _, part := range texts(t, db.owner, fmt.Sprintf("select inhrelid::regclass::text from pg_inherits where inhparent = 'audit.%s'::regclass", parent)) {
			if _, err := db.owner.Exec(t.Context(), "drop table "+part); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := newBook(t, db, nil)
	if _, err := b.Write(t.Context(), readEntry()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestClosedBookWritesWhatWaitsAndNoMore(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	for range 50 {
		if err := b.EnqueueOutcome(t.Context(), Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered}); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	b.Close()
	if n := count(t, db.owner, "select count(*) from audit.outcomes"); n != 50 {
		t.Errorf("%d outcomes, want 50", n)
	}
	_, err := b.Write(t.Context(), readEntry())
	_, errRefuse := b.Refuse(t.Context(), "10.0.0.1", "expired", Entry{Kind: KindRPC})
	for _, err := range []error{err, errRefuse, b.EnqueueOutcome(t.Context(), Outcome{EntryID: uuid.New()}), b.WriteOutcome(t.Context(), Outcome{EntryID: uuid.New()})} {
		if !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}

func TestBookSaysEverythingThatIsWrongWithItsConfig(t *testing.T) {
	_, err := NewBook(BookConfig{Queue: -1, MaxBatch: -1})
	for _, want := range []string{"Pool", "Guard", "Queue", "MaxBatch"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to name %s", err, want)
		}
	}
}
