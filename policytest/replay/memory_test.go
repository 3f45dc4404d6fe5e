package replay

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
)

// grown replays so many entries, and gives by how much the heap was larger behind the last than behind a
// third of them, each time with nothing under way. keep holds on to each page.
func grown(t *testing.T, entries int64, keep func([]Row)) int64 {
	t.Helper()
	old, draft := law(t, noQuorum, ""), law(t, "role_bindings: {operators: []}\nquorum: {required: 0}\n", "")
	e := decided(t, old, read()) // each is denied now: the report is as full as it gets
	e.Detail = strings.Repeat("x", 8<<10)
	record := e.Record()
	c := by(draft)
	told := make(chan int64, entries)
	c.Tell = func(done int64) { told <- done }
	var given int64
	var heap []uint64
	c.Pages = func(context.Context) ([]Row, error) {
		if given == entries/3 || given == entries {
			for done := int64(0); done < given; {
				done = <-told
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			heap = append(heap, m.HeapAlloc)
		}
		rows := make([]Row, min(entries-given, 500))
		for i := range rows {
			rows[i] = Row{RecordedAt: now, Record: bytes.Clone(record)}
		}
		given += int64(len(rows))
		keep(rows)
		return rows, nil
	}
	r, err := Run(context.Background(), c)
	if err != nil || r.NowDenied != entries || len(heap) != 2 {
		t.Fatalf("%s, %d looks, %v", r.String(), len(heap), err)
	}
	return int64(heap[1]) - int64(heap[0])
}

// What is held does not grow with the book. The control holds on to what was read, and is seen to grow.
func TestMemoryDoesNotGrowWithTheBook(t *testing.T) {
	const entries, most = 6_000, 8 << 20 // held pages are 32 MiB
	if n := grown(t, entries, func([]Row) {}); n > most {
		t.Errorf("the heap grew by %d bytes over %d entries", n, entries*2/3)
	}
	var held [][]Row
	if n := grown(t, entries, func(rows []Row) { held = append(held, rows) }); n <= most {
		t.Errorf("control: with %d pages held the heap grew by %d bytes alone", len(held), n)
	}
	runtime.KeepAlive(held)
}
