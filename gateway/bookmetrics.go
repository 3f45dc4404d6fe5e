package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/audit"
)

// BookMetrics registers the numbers of the group commit and gives what the book tells of
// each of its commits.
func BookMetrics(reg prometheus.Registerer) func(rows int, took time.Duration) {
	rowsIn := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "bronzeward_book_commit_rows", Help: "Rows of one group commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "bronzeward_book_commit_seconds", Help: "Time of one group commit, from its first statement to the answer.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 14),
	})
	reg.MustRegister(rowsIn, seconds)
	return func(rows int, took time.Duration) {
		rowsIn.Observe(float64(rows))
		seconds.Observe(took.Seconds())
	}
}

// BookState registers what the book says of itself whenever it is asked, and how many months
// ahead it has partitions for. Both are called at each scrape and do no I/O.
func BookState(reg prometheus.Registerer, stats func() audit.Stats, monthsAhead func() int) {
	reg.MustRegister(bookState{
		stats: stats, months: monthsAhead,
		waiting: prometheus.NewDesc("bronzeward_book_waiting_rows",
			"Rows that wait for a group commit.", nil, nil),
		blocked: prometheus.NewDesc("bronzeward_book_blocked_callers",
			"Callers that wait for a place in the queue of the group commit, because it is full.", nil, nil),
		parked: prometheus.NewDesc("bronzeward_book_parked_outcomes",
			"Outcomes of answered calls that are not durable yet.", nil, nil),
		rows: prometheus.NewDesc("bronzeward_book_rows_total",
			"Rows by what became of them.", []string{"result"}, nil),
		unknown: prometheus.NewDesc("bronzeward_book_unknown_commits_total",
			"Group commits whose COMMIT had no answer.", nil, nil),
		refusals: prometheus.NewDesc("bronzeward_book_refusals_total",
			"Refusals of callers nobody proved, which share entries.", nil, nil),
		ahead: prometheus.NewDesc("bronzeward_book_partitions_ahead",
			"Whole months after this one that the book has partitions for; -1 when not even this one has.", nil, nil),
	})
}

type bookState struct {
	stats                                                    func() audit.Stats
	months                                                   func() int
	waiting, blocked, parked, rows, unknown, refusals, ahead *prometheus.Desc
}

func (b bookState) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{b.waiting, b.blocked, b.parked, b.rows, b.unknown, b.refusals, b.ahead} {
		out <- d
	}
}

func (b bookState) Collect(out chan<- prometheus.Metric) {
	s := b.stats()
	gauge := func(d *prometheus.Desc, n int) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(b.waiting, s.Queued)
	gauge(b.blocked, s.Blocked)
	gauge(b.parked, s.Parked)
	gauge(b.ahead, b.months())
	counter(b.rows, s.Rows+s.UnknownLasted, "written")
	counter(b.rows, s.Stale, "stale")
	counter(b.rows, s.RowsRefused, "refused")
	counter(b.rows, s.Unavailable, "unavailable")
	counter(b.rows, s.Abandoned, "abandoned")
	counter(b.unknown, s.Unknown)
	counter(b.refusals, s.Refusals)
}
