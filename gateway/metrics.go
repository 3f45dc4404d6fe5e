package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the gateway's own numbers. None carries a person's name, a machine's
// configuration or a digest as a label.
type Metrics struct {
	calls     *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	decisions *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	limited   *prometheus.CounterVec
	headers   *prometheus.CounterVec
	rounds    prometheus.Histogram
	waiting   prometheus.Gauge
	drifts    prometheus.Gauge
	watches   *prometheus.GaugeVec
	holds     holdGauges
	lagging   prometheus.Gauge
	loads     *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them; registering twice panics, which is
// a programming error.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bronzeward_calls_total", Help: "Calls that ended, by class of method and gRPC code.",
		}, []string{"class", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bronzeward_call_step_seconds", Help: "Time of one step of a call.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 14),
		}, []string{"step"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bronzeward_decisions_total", Help: "Decisions that were written, by verdict and first code.",
		}, []string{"verdict", "code"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bronzeward_attempts_total", Help: "Attempts that reached a state, by state.",
		}, []string{"state"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bronzeward_limited_calls_total", Help: "Calls turned away by a limit, by limit.",
		}, []string{"limit"}),
		headers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bronzeward_proxy_headers_total", Help: "Connections of listed load balancers, by what became of their PROXY protocol header.",
		}, []string{"result"}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "bronzeward_apply_rounds", Help: "How often one apply was judged because something moved meanwhile.",
			Buckets: []float64{1, 2, 3},
		}),
	}
	m.waiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bronzeward_changes_waiting", Help: "Changes that wait for an approval, in the whole installation.",
	})
	m.drifts = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bronzeward_drift_open", Help: "Machines whose configuration is not the last one known as applied, in the whole installation.",
	})
	m.watches = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "bronzeward_watch_machines", Help: "Machines whose configuration this gateway watches, by what became of the watch.",
	}, []string{"state"})
	for _, state := range []string{watchStands, watchAway, watchUnread} {
		m.watches.WithLabelValues(state)
	}
	reg.MustRegister(m.drifts, m.watches)
	reg.MustRegister(m.calls, m.seconds, m.decisions, m.attempts, m.limited, m.headers, m.rounds, m.waiting)
	m.holds = newHoldGauges(reg)
	m.lagging = newLaggingGauge(reg)
	m.loads = newLoads(reg)
	return m
}
