package audit

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkWrite is an allowed read made durable, as callers see it, with everything but the call itself. Its numbers
// stand in docs/benchmarks.md.
func BenchmarkWrite(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			db := newDatabase(b)
			book := newBook(b, db, nil)
			var next atomic.Int64
			took := make([][]time.Duration, callers)
			var wg sync.WaitGroup
			before := count(b, db.owner, "select coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint from pg_inherits where inhparent = 'audit.entries'::regclass")
			b.ResetTimer()
			for c := range callers {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						begun := time.Now()
						if _, err := book.Write(b.Context(), readEntry()); err != nil {
							b.Error(err)
							return
						}
						took[c] = append(took[c], time.Since(begun))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			all := slices.Concat(took...)
			slices.Sort(all)
			b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(book.Stats().Rows)/float64(book.Stats().Batches), "rows/batch")
			after := count(b, db.owner, "select sum(pg_total_relation_size(inhrelid))::bigint from pg_inherits where inhparent = 'audit.entries'::regclass")
			b.ReportMetric(float64(after-before)/float64(b.N), "B/entry")
		})
	}
}

// BenchmarkRecord is the canonical record alone.
func BenchmarkRecord(b *testing.B) {
	e := deniedApply()
	b.ReportMetric(float64(len(e.Record())), "B/record")
	for b.Loop() {
		e.Record()
	}
}

// BenchmarkBareInsert is the floor beside BenchmarkWrite with one caller: the same row inserted and committed on one
// connection, in one message, without guard and group commit.
func BenchmarkBareInsert(b *testing.B) {
	db := newDatabase(b)
	conn, err := db.gateway.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		sql, args := mustStatement(b, readEntry()).sql()
		if _, err := scanReceipt(conn.QueryRow(b.Context(), sql, args...)); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}
