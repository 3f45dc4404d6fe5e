package replay

import (
	"bytes"
	"context"
	"runtime"
	"testing"
)

// grown replays so many entries, and gives by how much the heap was larger behind the last than behind a
// third of them. keep holds on to each page.
func grown(t *testing.T, entries int64, keep func([]Row)) int64 {
	t.Helper()
	old, draft := law(t, noQuorum, ""), law(t, "role_bindings: {operators: []}\nquorum: {required: 0}\n", "")
	record := decided(t, old, read()).Record() // each is denied now: the report is as full as it gets
	left := entries
	c := by(draft)
	c.Workers = 2
	c.Pages = func(context.Context) ([]Row, error) {
		rows := make([]Row, min(left, 500))
		for i := range rows {
			rows[i] = Row{RecordedAt: now, Record: bytes.Clone(record)}
		}
		left -= int64(len(rows))
		keep(rows)
		return rows, nil
	}
	var before, after runtime.MemStats
	measure := func(into *runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(into)
	}
	third := entries / 3
	c.Tell = func(done int64) {
		switch {
		case before.HeapAlloc == 0 && done >= third:
			measure(&before)
		case done == entries:
			measure(&after)
		}
	}
	r, err := Run(context.Background(), c)
	if err != nil || r.NowDenied != entries {
		t.Fatalf("%s, %v", r.String(), err)
	}
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// What is held does not grow with the book. The control holds on to what was read, and is seen to grow.
func TestMemoryDoesNotGrowWithTheBook(t *testing.T) {
	const entries, most = 30_000, 8 << 20
	if n := grown(t, entries, func([]Row) {}); n > most {
		t.Errorf("the heap grew by %d bytes over %d entries", n, entries*2/3)
	}
	var held [][]Row
	if n := grown(t, entries, func(rows []Row) { held = append(held, rows) }); n <= most {
		t.Errorf("control: with %d pages held the heap grew by %d bytes alone", len(held), n)
	}
	runtime.KeepAlive(held)
}
