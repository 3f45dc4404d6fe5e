package notify

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The results of a try.
const (
	resultSent   = "sent"
	resultFailed = "failed" // tried again later
	resultDead   = "dead"
	// resultOvertaken is a dead notice with nothing broken: its change stopped waiting first.
	resultOvertaken = "overtaken"
)

type metrics struct {
	total *prometheus.CounterVec
}

// newMetrics registers the counter of tries and the number of notices by state. The latter is
// the database's and the same on every replica; it is asked at each scrape, for at most so
// long, and absent when there is no answer.
func newMetrics(reg prometheus.Registerer, counter Counter, within time.Duration) (*metrics, error) {
	m := &metrics{total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bronzeward_notices_total", Help: "Tries to tell approvers of a waiting change, by result.",
	}, []string{"result"})}
	for _, result := range []string{resultSent, resultFailed, resultDead, resultOvertaken} {
		m.total.WithLabelValues(result)
	}
	if err := reg.Register(m.total); err != nil {
		return nil, err
	}
	return m, reg.Register(&states{counter: counter, within: within, desc: prometheus.NewDesc("bronzeward_notices",
		"Notices to approvers that wait to be sent or are dead, by state; the same on every replica.", []string{"state"}, nil)})
}

// states collects the number of notices by state.
type states struct {
	counter Counter
	within  time.Duration
	desc    *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s *states) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector.
func (s *states) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), s.within)
	defer cancel()
	counts, err := s.counter.NoticeCounts(ctx)
	if err != nil {
		return // the scrape's other numbers are good
	}
	for state, n := range counts {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), state)
	}
}
