package audit

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// counted is a tracer that counts what is sent: messages of many statements, and of one.
type counted struct{ batches, queries atomic.Int64 }

func (c *counted) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}
func (*counted) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*counted) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (*counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestGroupCommitTakesTwoRoundTrips(t *testing.T) {
	db := newDatabase(t)
	cfg, err := pgxpool.ParseConfig(shared.Server(t).DSN(db.name, asGateway))
	if err != nil {
		t.Fatal(err)
	}
	var sent counted
	cfg.ConnConfig.Tracer, cfg.MaxConns = &sent, 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := newBook(t, db, func(c *BookConfig) { c.Pool, c.Committers = pool, 1 })
	entry := func(change func(*Entry)) func() error {
		e := readEntry()
		change(&e)
		return func() error { _, err := b.Write(t.Context(), e); return err }
	}
	for _, c := range []struct {
		name             string
		write            func() error
		batches, queries int64
		fails            bool
	}{
		{"an entry: the guard, the rows", entry(func(*Entry) {}), 2, 0, false},
		{"an outcome: its row", func() error {
			return b.WriteOutcome(t.Context(), Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered})
		}, 1, 0, false},
		{"a stale entry: the guard, and back", entry(func(e *Entry) { e.AuthorityVersion = 1 }), 1, 1, true},
		{"a bad entry: the guard, the row, and back", entry(func(e *Entry) { e.Kind = "nonsense" }), 2, 1, true},
		{"an entry after them: as before", entry(func(*Entry) {}), 2, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			batches, queries := sent.batches.Load(), sent.queries.Load()
			if err := c.write(); (err != nil) != c.fails {
				t.Fatal(err)
			}
			for pool.Stat().AcquiredConns() > 0 { // a failure is told before what it began is rolled back
				runtime.Gosched()
			}
			if got := sent.batches.Load() - batches; got != c.batches {
				t.Errorf("%d messages of many statements, want %d", got, c.batches)
			}
			if got := sent.queries.Load() - queries; got != c.queries {
				t.Errorf("%d of one, want %d", got, c.queries)
			}
		})
	}
	if n := count(t, db.owner, "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"); n != 0 {
		t.Errorf("%d transactions are left open", n)
	}
}

// A guard may send its statements one by one; all are in the transaction of the rows, and nothing a guard does ends it.
func TestGuardOfAnyShapeIsInTheRowsTransaction(t *testing.T) {
	var inside uint32
	for _, c := range []struct {
		name  string
		guard func(context.Context, pgx.Tx) (int64, error)
		fails bool
	}{
		{"one by one", func(ctx context.Context, tx pgx.Tx) (version int64, err error) {
			if _, err = tx.Exec(ctx, "select pg_advisory_xact_lock_shared($1)", authorityLock); err == nil {
				err = tx.QueryRow(ctx, "select version from public.authority").Scan(&version)
			}
			inside = tx.Conn().PgConn().PID()
			return version, err
		}, false},
		{"with rows", func(ctx context.Context, tx pgx.Tx) (int64, error) {
			rows, err := tx.Query(ctx, "select version from public.authority")
			if err != nil {
				return 0, err
			}
			return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
		}, false},
		{"it commits", func(ctx context.Context, tx pgx.Tx) (int64, error) { return authority, tx.Commit(ctx) }, true},
		{"its statement fails", func(ctx context.Context, tx pgx.Tx) (int64, error) {
			_, err := tx.Exec(ctx, "select 1 / 0")
			return authority, err
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			b := newBook(t, db, func(cfg *BookConfig) { cfg.Guard = c.guard })
			_, err := b.Write(t.Context(), readEntry())
			if c.fails != errors.Is(err, ErrUnavailable) || !c.fails && err != nil {
				t.Errorf("%v", err)
			}
			want := 1
			if c.fails {
				want = 0
			}
			if n := count(t, db.owner, "select count(*) from audit.entries"); n != want {
				t.Errorf("%d entries, want %d", n, want)
			}
			if n := count(t, db.owner, "select count(*) from pg_locks where locktype = 'advisory'"); n != 0 {
				t.Errorf("%d locks are left", n)
			}
		})
	}
	if inside == 0 {
		t.Error("no guard saw its connection")
	}
}
