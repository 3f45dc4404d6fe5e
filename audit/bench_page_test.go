package audit

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkPage is a page of a hundred rows by each filter, at places all over the book. Its numbers at ten million entries
// stand in docs/benchmarks.md.
func BenchmarkPage(b *testing.B) {
	db := newDatabase(b)
	manyEntries(b, db, 40000)
	if _, err := db.owner.Exec(b.Context(), "vacuum analyze audit.entries, audit.outcomes, audit.terms"); err != nil {
		b.Fatal(err)
	}
	r := NewReader(readPool(b, db.name))
	for _, row := range leads {
		b.Run(row.name, func(b *testing.B) {
			var took []time.Duration
			var p Page
			rows := 0
			for b.Loop() {
				begun := time.Now()
				list, next, err := r.List(b.Context(), row.filter, p)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
				rows += len(list)
				p.After = next // the end begins again
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(rows)/float64(len(took)), "rows/page")
		})
	}
}
