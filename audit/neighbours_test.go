package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What a row holds never refuses it, and what refuses a row never refuses its neighbours.
func TestRowsOfABatchStandForThemselves(t *testing.T) {
	known := newID(t)
	for _, c := range []struct {
		name    string
		change  func(*Entry)
		refused bool
	}{
		{"NUL", func(e *Entry) { e.Detail, e.Method = "a\x00b", "\x00" }, false},
		{"bad UTF-8", func(e *Entry) { e.Detail, e.Method, e.Caller.Subject = "\xff\xfe", "\xc3\x28", "\xed\xa0\x80" }, false},
		{"a megabyte in a column", func(e *Entry) { e.Method = strings.Repeat("x", 1<<20) }, false},
		{"sixteen megabytes in the record", func(e *Entry) { e.Detail = strings.Repeat("y", 16<<20) }, false},
		{"a separator in a code", func(e *Entry) { e.Codes = []string{"a\x1fb"} }, false},
		{"an id that is there", func(e *Entry) { e.ID = known }, false},
		{"a kind that is none", func(e *Entry) { e.Kind = "nonsense" }, true},
		{"a verdict that is none", func(e *Entry) { e.Verdict = "nonsense" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			b := newBook(t, db, nil)
			if _, err := b.Write(t.Context(), Entry{ID: known, Kind: KindSystem, Verdict: Allowed}); err != nil {
				t.Fatal(err)
			}
			var writes []func(*Book) error
			const neighbours = 40
			for i := range neighbours {
				if i == neighbours/2 {
					writes = append(writes, write(t, c.change))
				}
				writes = append(writes, write(t, func(*Entry) {}))
			}
			errs, b := held(t, db, nil, writes...)
			for i, err := range errs {
				if bad := i == neighbours/2 && c.refused; bad != errors.Is(err, ErrUnavailable) || !bad && err != nil {
					t.Errorf("row %d: %v", i, err)
				}
			}
			want := neighbours + 3
			if c.refused {
				want--
			}
			if n := count(t, db.owner, "select count(*) from audit.entries"); n != want || count(t, db.owner, "select count(*) from audit.unsequenced") != want {
				t.Errorf("%d entries, want %d, and each waits for the sequencer", n, want)
			}
			// One bad row of 41 costs its neighbours the halves it was found by, not a transaction each.
			if s := b.Stats(); c.refused && (s.Batches > 8 || s.RowsRefused != 1) {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestDiskFullIsNoRowsFault(t *testing.T) {
	for state, want := range map[string]bool{
		"53100": false, "53200": true, "53300": false, "57P01": false, "40001": false, "08006": false, "58030": false, "23514": true, "22021": true, "54000": true,
	} {
		if got := rowsFault(fmt.Errorf("inserting: %w", &RowError{SQLState: state})); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	if rowsFault(errors.New("broken pipe")) {
		t.Error("a broken connection is a row's fault")
	}
}

// The reads' queue is full, and their committers do not move: an apply's rows are durable all the same.
func TestAppliesDoNotWaitBehindReads(t *testing.T) {
	db := newDatabase(t)
	g := newGate()
	b := newBook(t, db, func(c *BookConfig) { c.Queue, c.MaxBatch, c.Guard = 4, 2, g.guard })
	const reads = 20
	var wg sync.WaitGroup
	for range reads {
		wg.Go(func() {
			if _, err := b.Write(t.Context(), readEntry()); err != nil {
				t.Error(err)
			}
		})
	}
	for range DefaultCommitters {
		<-g.entered
	}
	// Each committer holds at most MaxBatch of them.
	eventually(t, "callers wait for a place", func() bool {
		s := b.Stats()
		return s.Queued == 4 && s.Blocked >= reads-4-2*DefaultCommitters
	})
	apply := func() error {
		return pgx.BeginFunc(t.Context(), db.gateway, func(tx pgx.Tx) error {
			if _, err := guard(t.Context(), tx); err != nil {
				return err
			}
			e := deniedApply()
			e.ID = newID(t)
			r, err := Append(t.Context(), tx, e)
			if err != nil {
				return err
			}
			_, err = AppendOutcome(t.Context(), tx, Outcome{EntryID: r.ID, Kind: OutcomeState, State: "not_sent"})
			return err
		})
	}
	if err := apply(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db.owner, "select count(*) from audit.entries"); n != 1 || b.Stats().Rows != 0 {
		t.Errorf("%d entries, %+v: want the apply's alone", n, b.Stats())
	}
	// Control: by the way of the reads it would wait with them.
	done := make(chan error, 1)
	go func() {
		_, err := b.Write(t.Context(), readEntry())
		done <- err
	}()
	eventually(t, "one more waits", func() bool { return b.Stats().Blocked >= reads-4-2*DefaultCommitters+1 })
	select {
	case err := <-done:
		t.Errorf("control: written through a full queue (%v)", err)
	default:
	}
	close(g.open)
	wg.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := b.Stats(); s.Blocked != 0 || s.Queued != 0 {
		t.Errorf("afterwards: %+v", s)
	}
}

// Two replicas write as fast as they can: each gets its share of the commits, whoever began first, and nobody's rows
// are overtaken for ever.
func TestReplicasShareTheDatabase(t *testing.T) {
	db := newDatabase(t)
	const callers, rows = 16, 2000
	var left atomic.Int64
	left.Store(rows)
	counts := [2]atomic.Int64{}
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range counts {
		b := newBook(t, database{name: db.name, owner: db.owner, gateway: connect(t, db.name, asGateway)}, nil)
		for range callers {
			wg.Go(func() {
				<-begin
				for left.Add(-1) >= 0 {
					if _, err := b.Write(t.Context(), readEntry()); err != nil {
						t.Error(err)
						return
					}
					counts[i].Add(1)
				}
			})
		}
	}
	close(begin)
	wg.Wait()
	a, b := counts[0].Load(), counts[1].Load()
	if a+b != rows || min(a, b) < rows/5 {
		t.Errorf("one wrote %d, the other %d of %d rows", a, b, rows)
	}
}

// Within a Book rows go in the order of their arrival, so that a stream of later ones starves none.
func TestRowsGoInTheOrderOfTheirArrival(t *testing.T) {
	db := newDatabase(t)
	var writes []func(*Book) error
	ids := make([]uuid.UUID, 30)
	for i := range ids {
		ids[i] = newID(t)
		writes = append(writes, write(t, func(e *Entry) { e.ID = ids[i] }))
	}
	errs, _ := held(t, db, func(c *BookConfig) { c.MaxBatch = 7 }, writes...)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	rows, err := db.owner.Query(context.WithoutCancel(t.Context()), "select id from audit.entries where id = any ($1) order by xmin::text::bigint, recorded_at", ids)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	for i := range ids {
		if len(got) != len(ids) || got[i] != ids[i] {
			t.Fatalf("row %d of %d is %v, want %v", i, len(got), got[i], ids[i])
		}
	}
}
