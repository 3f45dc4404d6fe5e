package main

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
	"bronzeward/fixtures/postgres/pgtest"
)

// blocks are the labelled SQL blocks of a page.
func blocks(t *testing.T, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```sql\n-- (\\w+)\n(.*?)```").FindAllStringSubmatch(page(t, name), -1) {
		out[m[1]] = m[2]
	}
	return out
}

// keeping is a book with January 2024 in it: two entries and an outcome, sequenced.
type keeping struct {
	blocks               map[string]string
	owner, gate, auditor *pgxpool.Pool
	asOwner              *pgx.Conn
	book                 *audit.Book
}

func newKeeping(t *testing.T) *keeping {
	t.Helper()
	var postgres pgtest.Shared
	t.Cleanup(func() {
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	name := postgres.NewDatabaseName(t, auditedBook)
	as := func(role string) *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), postgres.Server(t).DSN(name, role))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	k := &keeping{blocks: blocks(t, "keeping.md"), owner: as("postgres"), gate: as("gateway"), auditor: as("auditor")}
	conn, err := pgx.Connect(t.Context(), postgres.Server(t).DSN(name, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	k.asOwner = conn
	k.do(t, "set role bronzeward_owner")
	for _, parent := range []string{"entries", "outcomes"} {
		k.do(t, fmt.Sprintf("create table audit.%[1]s_2024_01 partition of audit.%[1]s for values from ('2024-01-01 00:00+00') to ('2024-02-01 00:00+00')", parent))
	}
	if _, err := audit.EnsurePartitions(t.Context(), k.gate, audit.PartitionsAhead); err != nil {
		t.Fatal(err)
	}
	k.do(t, `
		insert into audit.entries (recorded_at, id, kind, verdict, machine_name, authority_version, count, record)
			select timestamptz '2024-01-10 00:00+00' + make_interval(days => n), gen_random_uuid(), 'rpc', 'deny', 'worker-1', 1, 1, '{"v":1}' from generate_series(1, 2) n;
		insert into audit.outcomes (recorded_at, id, entry_id, kind, duration_us, bytes_out, record)
			select recorded_at, gen_random_uuid(), id, 'answered', 1, 1, '{"v":1}' from audit.entries limit 1;
		insert into audit.trees (tree, epoch, origin) values (1, gen_random_uuid(), 'bronzeward/a/b');
		insert into audit.leaves (recorded_at, index, id, tree, source, leaf)
			select recorded_at, row_number() over () - 1, id, 1, source, leaf from (select recorded_at, id, 'entry' as source, leaf from audit.entries
				union all select recorded_at, id, 'outcome', leaf from audit.outcomes) r;
		insert into audit.tiles (tree, level, index, root) values (1, 0, 0, sha256('a'));
		insert into audit.checkpoints (tree, size, root, note) values (1, 3, sha256('a'), 'a note')`)
	k.book, err = audit.NewBook(audit.BookConfig{Pool: k.gate, Logger: slog.New(slog.DiscardHandler), Guard: func(context.Context, pgx.Tx) (int64, error) { return 1, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.book.Close)
	return k
}

// do runs statements one by one, each in a transaction of its own, as the owner.
func (k *keeping) do(t *testing.T, sql string) {
	t.Helper()
	if err := k.try(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func (k *keeping) try(ctx context.Context, sql string) error {
	for _, one := range strings.Split(sql, ";") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		if _, err := k.asOwner.Exec(ctx, one); err != nil {
			return fmt.Errorf("%w\n%s", err, one)
		}
	}
	return nil
}

// write records a call of now.
func (k *keeping) write(ctx context.Context) error {
	_, err := k.book.Write(ctx, audit.Entry{Kind: audit.KindRPC, Verdict: audit.Denied, AuthorityVersion: 1})
	return err
}

func (k *keeping) rows(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "select count(*) from ("+strings.TrimRight(strings.TrimSpace(sql), ";")+") q").Scan(&n); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return n
}

func (k *keeping) number(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := k.owner.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return n
}

// A month is taken out and brought back by the page's own statements.
func TestAMonthIsTakenOutAndBroughtBack(t *testing.T) {
	k := newKeeping(t)
	same(t, "blocks", []string{"months", "ensure", "sizes", "keep", "detach", "grant", "compare", "missing", "attach"}, found(`(?m)^-- (\w+)$`, page(t, "keeping.md")))
	if n := k.rows(t, k.auditor, k.blocks["months"]); n != 2*(2+audit.PartitionsAhead) {
		t.Errorf("%d months are listed", n)
	}
	k.do(t, k.blocks["ensure"])
	if n := k.rows(t, k.auditor, k.blocks["sizes"]); n < 10 {
		t.Errorf("%d sizes", n)
	}
	const tree = "select (select count(*) from audit.leaves) * 100 + (select count(*) from audit.tiles) * 10 + (select count(*) from audit.checkpoints)"
	before := k.number(t, tree)
	k.do(t, k.blocks["keep"])
	k.do(t, k.blocks["detach"])
	if n := k.rows(t, k.auditor, "select from audit.decisions"); n != 0 {
		t.Errorf("%d decisions are still read", n)
	}
	if after := k.number(t, tree); after != before || before != 311 {
		t.Errorf("the tree had %d and has %d", before, after)
	}
	for _, sql := range []string{
		"update audit.entries_2024_01 set record = 'forged'", "delete from audit.entries_2024_01", "truncate audit.entries_2024_01",
		"update audit.outcomes_2024_01 set record = 'forged'", "delete from audit.outcomes_2024_01", "truncate audit.outcomes_2024_01",
	} {
		// This month was attached by CREATE TABLE … PARTITION OF, and got its own trigger from ensure_partitions.
		if err := k.try(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "BW001") {
			t.Errorf("%s: %v, want it refused", sql, err)
		}
	}
	k.do(t, k.blocks["grant"])
	if n := k.rows(t, k.auditor, "select from audit.entries_2024_01"); n != 2 {
		t.Errorf("an auditor reads %d rows of the month", n)
	}
	if n, m := k.rows(t, k.auditor, k.blocks["compare"]), k.number(t, k.blocks["missing"]); n != 0 || m != 0 {
		t.Errorf("%d rows differ, %d are missing", n, m)
	}
	if err := k.write(t.Context()); err != nil {
		t.Errorf("writing goes on: %v", err)
	}
	if err := audit.CheckGuards(t.Context(), k.gate); err != nil {
		t.Errorf("a gateway would not start: %v", err)
	}
	k.do(t, k.blocks["attach"])
	if n := k.rows(t, k.auditor, "select from audit.decisions where outcome = 'x' or recorded_at < '2024-02-01+00'"); n != 2 {
		t.Errorf("%d decisions of the month are read again, want 2", n)
	}
	for _, sql := range []string{"update audit.entries set record = 'forged'", "delete from audit.outcomes_2024_01", "truncate audit.entries_2024_01"} {
		if err := k.try(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "BW001") {
			t.Errorf("%s: %v, want it refused", sql, err)
		}
	}
	if n := k.number(t, `select count(*) from pg_index p where p.indrelid = 'audit.entries'::regclass and not exists (
		select from pg_inherits i join pg_index c on c.indexrelid = i.inhrelid where i.inhparent = p.indexrelid and c.indrelid = 'audit.entries_2024_01'::regclass)`); n != 0 {
		t.Errorf("%d indexes of its parent have no part in it", n)
	}

	// And a second time round: what the first left does not stand in its way.
	k.do(t, "drop trigger kept_no_change on audit.entries_2024_01; drop trigger kept_no_change on audit.outcomes_2024_01")
	k.do(t, k.blocks["detach"])
	// Control: without triggers of its own the month can be rewritten, and the comparison tells.
	k.do(t, "alter table audit.entries_2024_01 alter column leaf drop expression; update audit.entries_2024_01 set record = 'forged' where id = (select id from audit.entries_2024_01 limit 1)")
	k.do(t, "delete from audit.outcomes_2024_01")
	if n, m := k.rows(t, k.owner, k.blocks["compare"]), k.number(t, k.blocks["missing"]); n != 1 || m != 1 {
		t.Errorf("control: %d rows differ, %d are missing, want one each", n, m)
	}
}

// Somebody reads the book for long: detaching waits for them, and nobody waits for it. Control: without `concurrently`
// calls do.
func TestNobodyWaitsWhileAMonthIsTakenOut(t *testing.T) {
	for _, concurrently := range []bool{true, false} {
		t.Run(fmt.Sprint("concurrently ", concurrently), func(t *testing.T) {
			k := newKeeping(t)
			reader, err := k.auditor.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := reader.Exec(t.Context(), "select count(*) from audit.entries"); err != nil {
				t.Fatal(err)
			}
			sql := k.blocks["detach"]
			if !concurrently {
				sql = strings.ReplaceAll(sql, " concurrently", "")
			}
			detached := make(chan error, 1)
			go func() { detached <- k.try(t.Context(), sql) }()
			waits := func(what, condition string) {
				t.Helper()
				for range 10_000 {
					if k.number(t, "select count(*) from pg_stat_activity a where a.datname = current_database() and "+condition) > 0 {
						return
					}
					time.Sleep(time.Millisecond)
				}
				t.Fatalf("never: %s", what)
			}
			waits("detaching waits for the reader", "query like '%detach partition%' and wait_event_type = 'Lock' and pid <> pg_backend_pid()")
			written := make(chan error, 1)
			go func() { written <- k.write(t.Context()) }()
			if concurrently {
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				if n := k.rows(t, k.auditor, "select from audit.entries where recorded_at >= now() - interval '1 hour'"); n != 1 {
					t.Errorf("%d rows are read meanwhile, want the one just written", n)
				}
			} else {
				waits("control: the call waits for the detaching", "usename = 'gateway' and wait_event_type = 'Lock'")
			}
			select {
			case err := <-detached:
				t.Errorf("detached while the reader still reads (%v)", err)
			default:
			}
			if err := reader.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-detached; err != nil {
				t.Error(err)
			}
			if !concurrently {
				if err := <-written; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
