package audit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sequence gives what waits its places, as the sequencer does: what it sees, in one transaction.
func sequence(ctx context.Context, pool *pgxpool.Pool, tree int) error {
	_, err := pool.Exec(ctx, `with taken as (delete from audit.unsequenced returning *), placed as (
		select *, row_number() over (order by recorded_at, id) - 1 + (select coalesce(max(index) + 1, 0) from audit.leaves where tree = $1) as place from taken)
		insert into audit.leaves (recorded_at, index, id, tree, source, leaf) select recorded_at, place, id, $1, source, leaf from placed`, tree)
	return err
}

func TestInOrderGivesEveryRowOnceWhateverCommitsLate(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	r := NewReader(readPool(t, db.name))
	if head, err := r.Head(t.Context()); err != nil || head != (Place{}) {
		t.Fatalf("an empty book's head: %+v, %v", head, err)
	}
	const writers, each = 4, 60
	late, err := db.gateway.Begin(t.Context()) // recorded first, committed last
	if err != nil {
		t.Fatal(err)
	}
	first, err := Append(t.Context(), late, readEntry())
	if err != nil {
		t.Fatal(err)
	}
	want := []uuid.UUID{first.ID}
	var mu sync.Mutex
	var writing, reading sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range each {
				got, err := b.Write(t.Context(), readEntry())
				if err == nil {
					o := Outcome{ID: newID(t), EntryID: got.ID, Kind: OutcomeAnswered}
					err = b.WriteOutcome(t.Context(), o)
					mu.Lock()
					want = append(want, got.ID, o.ID)
					mu.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	written, sequenced := make(chan struct{}), make(chan struct{})
	reading.Go(func() { // the sequencer
		defer close(sequenced)
		for {
			done := false
			select {
			case <-written:
				done = true
			default:
			}
			if err := sequence(t.Context(), db.owner, 1); err != nil {
				t.Error(err)
				return
			}
			if done {
				return
			}
		}
	})
	var got []uuid.UUID
	reading.Go(func() { // who follows
		at := Place{}
		for {
			over := false
			select {
			case <-sequenced:
				over = true
			default:
			}
			rows, next, err := r.InOrder(t.Context(), Filter{}, OrderPage{After: at, Limit: 7, Records: true, Outcomes: true})
			if err != nil {
				t.Error(err)
				return
			}
			for _, row := range rows {
				switch {
				case row.Entry != nil && Leaf(row.Entry.Record, row.RecordedAt) == row.Leaf, row.Outcome != nil && Leaf(row.Outcome.Record, row.RecordedAt) == row.Leaf:
				default:
					t.Errorf("%s at %+v is not the row of its leaf", row.ID, row.Place)
				}
				got = append(got, row.ID)
			}
			if over && next == at {
				return
			}
			at = next
		}
	})
	writing.Wait()
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(written)
	reading.Wait()
	byID := func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(want, byID)
	if sorted := slices.SortedFunc(slices.Values(got), byID); !cmp.Equal(want, sorted) {
		t.Errorf("%d rows in order, %d different, want %d", len(got), len(slices.Compact(sorted)), len(want))
	}
	if place, err := r.PlaceOf(t.Context(), got[9]); err != nil || place != (Place{Tree: 1, Index: 9}) {
		t.Errorf("%+v, %v", place, err)
	}
}

func TestInOrderKeepsToItsFilterAndTellsWhatIsMissing(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	r := NewReader(db.gateway)
	denied := changing(t, "machine.type")
	for _, e := range []Entry{readEntry(), denied, readEntry()} {
		if _, err := b.Write(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.PlaceOf(t.Context(), denied.ID); !errors.Is(err, ErrNotSequenced) {
		t.Errorf("%v, want ErrNotSequenced", err)
	}
	if _, err := r.PlaceOf(t.Context(), uuid.New()); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	if err := sequence(t.Context(), db.owner, 1); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Filter{{Verdict: Denied}, {Path: "machine"}, {Code: "BW-CONFIG-004"}, {Digests: []string{"x", denied.Digest}}} {
		rows, next, err := r.InOrder(t.Context(), f, OrderPage{})
		if err != nil || len(rows) != 1 || rows[0].ID != denied.ID || rows[0].Entry.Record != nil || next != (Place{Tree: 1, Index: 2}) {
			t.Errorf("%+v: %+v, next %+v, %v", f, rows, next, err)
		}
	}
	// A row that somebody takes out is told of by its leaf.
	for _, sql := range []string{"alter table audit.entries disable trigger all", "delete from audit.entries where verdict = 'deny'"} {
		if _, err := db.owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	rows, _, err := r.InOrder(t.Context(), Filter{}, OrderPage{})
	if err != nil || len(rows) != 3 || rows[1].ID != denied.ID || rows[1].Entry != nil || rows[2].Entry == nil {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, _, err := r.InOrder(t.Context(), Filter{}, OrderPage{Limit: MaxOrder + 1}); err == nil {
		t.Error("too many were given")
	}
	list, err := r.CheckpointsBefore(t.Context(), 0, 0, 5)
	if err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// Whoever has the gateway's role can give a leaf any time. Those who follow the book get past it.
func TestALeafOutsideOfAllTimeHoldsUpNobody(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	r := NewReader(readPool(t, db.name))
	times := []string{"infinity", "-infinity", "290000-01-01", "4000-01-01 BC"}
	for i, at := range times {
		if _, err := db.gateway.Exec(t.Context(), "insert into audit.leaves (recorded_at, index, id, tree, source, leaf) values ($1::text::timestamptz, $2, gen_random_uuid(), 1, 'entry', sha256('x'))", at, i); err != nil {
			t.Fatal(err)
		}
	}
	behind, err := b.Write(t.Context(), readEntry())
	if err != nil {
		t.Fatal(err)
	}
	if err := sequence(t.Context(), db.owner, 1); err != nil {
		t.Fatal(err)
	}
	rows, next, err := r.InOrder(t.Context(), Filter{}, OrderPage{})
	if err != nil || len(rows) != len(times)+1 || rows[len(times)].ID != behind.ID || rows[len(times)].Entry == nil || next != (Place{Tree: 1, Index: int64(len(times))}) {
		t.Fatalf("%+v, next %+v, %v", rows, next, err)
	}
	for _, row := range rows[:len(times)] {
		if row.Entry != nil || !row.RecordedAt.IsZero() {
			t.Errorf("%+v, want a leaf without a row at the zero time", row)
		}
	}
}

// Pages of the newest rows neither repeat nor skip what was there when the first was read, while others write.
func TestPagesHoldWhileOthersWrite(t *testing.T) {
	db := newDatabase(t)
	manyEntries(t, db, 400)
	r := NewReader(readPool(t, db.name))
	f := Filter{Machine: "worker-1", Verdict: Denied}
	want := walk(t, r, f, Page{Limit: 400})
	b := newBook(t, db, nil)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for range 3 {
		writing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				e := deniedApply()
				e.ID = newID(t)
				if _, err := b.Write(t.Context(), e); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	first, _, err := r.List(t.Context(), Filter{}, Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	f.Until = want[0].RecordedAt.Add(time.Microsecond)
	got := walk(t, r, f, Page{Limit: 3})
	close(stop)
	writing.Wait()
	if diff := cmp.Diff(ids(want), ids(got)); diff != "" || first[0].RecordedAt.Before(want[0].RecordedAt) {
		t.Error(diff)
	}
}

func ids(rows []Row) []uuid.UUID {
	out := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		out[i] = r.ID
	}
	return out
}
