package tree

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// BenchmarkSequence is how many waiting rows get their places per second, the database on the same machine. Its numbers
// stand in docs/benchmarks.md.
func BenchmarkSequence(b *testing.B) {
	for _, batch := range []int{256, 1024, DefaultBatch, 16384} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			db := newDatabase(b)
			cfg := config(b, db, newSigner(1))
			cfg.Batch = batch
			s := held(b, cfg)
			rows := 100_000
			placed := 0
			for b.Loop() {
				b.StopTimer()
				fill(b, db, rows)
				b.StartTimer()
				drain(b, s)
				placed += rows
			}
			b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(count(b, db, "select pg_total_relation_size('audit.leaves')"))/float64(placed), "B/leaf")
			b.ReportMetric(float64(count(b, db, "select pg_total_relation_size('audit.tiles')"))/float64(placed), "tile-B/leaf")
		})
	}
}

// BenchmarkIdle is one look of an idle sequencer, after a queue that was long.
func BenchmarkIdle(b *testing.B) {
	for _, old := range []bool{false, true} {
		b.Run(fmt.Sprintf("transactionOpen=%v", old), func(b *testing.B) {
			db := newDatabase(b)
			s := held(b, config(b, db, newSigner(1)))
			tx, err := db.owner.Begin(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if old { // nothing that was deleted since can be cleaned up
				if _, err := tx.Exec(b.Context(), "set transaction isolation level repeatable read; select count(*) from audit.trees"); err != nil {
					b.Fatal(err)
				}
			}
			for range 5 {
				fill(b, db, 40_000)
				drain(b, s)
			}
			for b.Loop() {
				if more, err := s.sequence(b.Context()); more || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkProve makes the proof of one entry with one outcome in a tree of a million leaves.
func BenchmarkProve(b *testing.B) {
	db := newDatabase(b)
	s := held(b, config(b, db, newSigner(1)))
	var ids []uuid.UUID
	for range 10 {
		ids = append(ids, write(b, db, 1).ID)
		fill(b, db, 100_000)
		drain(b, s)
	}
	sign(b, s)
	change(b, db, "analyze audit.leaves, audit.entries, audit.tiles")
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		if _, err := Prove(b.Context(), db.auditor, ids[i%len(ids)]); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	if testing.Verbose() {
		rows, err := db.auditor.Query(b.Context(), "explain analyze "+hashesSQL, s.tree.Tree, []int32{0, 0, 1}, []int64{512, 513, 4}, []int64{513, 515, 8})
		if err != nil {
			b.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			b.Fatal(err)
		}
		for _, line := range plan {
			b.Log(line)
		}
	}
}
