package tree

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

// clocked gives the database a clock that the test moves: what recorded_at is by default comes from it.
func clocked(t *testing.T) (db database, move func(interval string), write func() uuid.UUID, book *audit.Book) {
	t.Helper()
	db = newDatabase(t)
	change(t, db, `create table public.clock (off interval not null);
		insert into public.clock values ('0');
		create function public.clock_now() returns timestamptz language sql volatile security definer as 'select clock_timestamp() + off from public.clock';
		alter table audit.entries alter column recorded_at set default public.clock_now();
		alter table audit.outcomes alter column recorded_at set default public.clock_now()`)
	book, err := audit.NewBook(audit.BookConfig{
		Pool: db.gateway, Logger: slog.New(slog.DiscardHandler), Guard: func(context.Context, pgx.Tx) (int64, error) { return 7, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	move = func(interval string) { t.Helper(); change(t, db, "update public.clock set off = '"+interval+"'") }
	write = func() uuid.UUID {
		t.Helper()
		r, err := book.Write(t.Context(), audit.Entry{Kind: audit.KindSystem, Verdict: audit.Allowed})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	return db, move, write, book
}

// month is a moment whose neighbourhood of an hour is in one month that has partitions: tests that move the clock must
// not do so over a month's turn.
func inMonth(t *testing.T, db database) {
	t.Helper()
	change(t, db, `do $$ declare part text; begin
		for part in select 'audit.' || relname from pg_class where relnamespace = 'audit'::regnamespace and relispartition and relkind = 'r' loop execute 'drop table ' || part; end loop;
		for part in select unnest(array['entries', 'outcomes']) loop
			execute format('create table audit.%1$s_test partition of audit.%1$s for values from (%2$L) to (%3$L)', part, now() - interval '2 days', now() + interval '2 days');
		end loop; end $$`)
}

// The clock goes back between two rows. Their places in the tree are those of their sequencing, each row has one, and its
// leaf is of the time it was given.
func TestClockGoingBackLosesNothingAndTheTreeKeepsTheOrder(t *testing.T) {
	db, move, write, _ := clocked(t)
	inMonth(t, db)
	s := held(t, config(t, db, newSigner(1)))
	var order []uuid.UUID
	for _, offset := range []string{"0", "-1 hour", "-2 hours", "+1 hour", "-1 second"} {
		move(offset)
		for range 3 {
			order = append(order, write())
		}
		drain(t, s)
		sign(t, s)
	}
	rows, err := db.auditor.Query(t.Context(), "select id from audit.leaves order by tree, index")
	if err != nil {
		t.Fatal(err)
	}
	placed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || !slices.Equal(placed, order) {
		t.Errorf("the tree has %v, written were %v (%v)", placed, order, err)
	}
	if n := count(t, db, "select count(*) from audit.leaves l join audit.entries e using (id, recorded_at) where l.leaf = e.leaf and l.leaf = audit.leaf(e.record, e.recorded_at)"); n != len(order) {
		t.Errorf("%d leaves are those of their rows, want %d", n, len(order))
	}
	if n := count(t, db, "select count(*) from audit.unsequenced"); n != 0 {
		t.Errorf("%d rows wait", n)
	}
	if n := count(t, db, "select count(*) from (select recorded_at < lag(recorded_at) over (order by index) as back from audit.leaves) q where back"); n != 3 {
		t.Errorf("the clock went back %d times as the leaves have it, want 3", n)
	}
	if n := count(t, db, "select count(*) from audit.checkpoints"); n != 5 {
		t.Errorf("%d checkpoints, want 5", n)
	}
}

// Pages hold what was there when the first was read, each row once; what the clock put behind the reader is not seen by
// one who goes forward, and is by the next who begins, and by who follows the tree.
func TestClockGoingBackNeitherRepeatsNorSkipsWhatIsListed(t *testing.T) {
	for name, order := range map[string]audit.Order{"newest first": audit.NewestFirst, "oldest first": audit.OldestFirst} {
		t.Run(name, func(t *testing.T) {
			db, move, write, _ := clocked(t)
			inMonth(t, db)
			reader := audit.NewReader(db.auditor)
			seen := map[uuid.UUID]int{}
			page := audit.Page{Limit: 4, Order: order}
			next := func() bool {
				t.Helper()
				rows, after, err := reader.List(t.Context(), audit.Filter{}, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range rows {
					seen[r.ID]++
				}
				page.After = after
				return after != audit.Cursor{}
			}
			var before, late []uuid.UUID
			for range 10 {
				before = append(before, write())
			}
			next()
			move("-1 hour")
			for range 5 {
				late = append(late, write())
			}
			for next() {
			}
			for _, id := range before {
				if seen[id] != 1 {
					t.Errorf("a row that was there is listed %d times", seen[id])
				}
			}
			for _, id := range late {
				if want := map[audit.Order]int{audit.NewestFirst: 1, audit.OldestFirst: 0}[order]; seen[id] != want {
					t.Errorf("a row that the clock put earlier is listed %d times, want %d", seen[id], want)
				}
			}
			clear(seen)
			page.After = audit.Cursor{}
			for next() {
			}
			if len(seen) != 15 {
				t.Errorf("who begins anew reads %d rows, want 15", len(seen))
			}
			s := held(t, config(t, db, nil))
			drain(t, s)
			if n := count(t, db, "select count(*) from audit.leaves where index between 0 and 14"); n != 15 {
				t.Errorf("who follows the tree reads %d rows, want 15", n)
			}
		})
	}
}

// An outcome that the clock put before its entry is still that entry's.
func TestOutcomeBeforeItsEntryIsShown(t *testing.T) {
	db, move, write, book := clocked(t)
	inMonth(t, db)
	id := write()
	move("-5 minutes")
	if err := book.WriteOutcome(t.Context(), audit.Outcome{EntryID: id, Kind: audit.OutcomeAnswered, Code: "OK"}); err != nil {
		t.Fatal(err)
	}
	reader := audit.NewReader(db.auditor)
	rows, _, err := reader.List(t.Context(), audit.Filter{}, audit.Page{})
	if err != nil || len(rows) != 1 || rows[0].Last == nil || rows[0].Last.Code != "OK" {
		t.Errorf("listed: %+v (%v)", rows, err)
	}
	row, err := reader.Get(t.Context(), id)
	if err != nil || len(row.Outcomes) != 1 {
		t.Errorf("shown: %+v (%v)", row.Outcomes, err)
	}
}

// A clock that goes back to a month without a partition refuses: nothing is recorded under a time that has no place.
func TestClockGoingBackToNoMonthRefuses(t *testing.T) {
	db, move, write, book := clocked(t)
	inMonth(t, db)
	write()
	move("-2 years")
	if _, err := book.Write(t.Context(), audit.Entry{Kind: audit.KindSystem, Verdict: audit.Allowed}); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if n := count(t, db, "select (select count(*) from audit.entries) * 10 + (select count(*) from audit.unsequenced)"); n != 11 {
		t.Errorf("%d: want one entry, and it waits", n)
	}
	move("0")
	write()
}
