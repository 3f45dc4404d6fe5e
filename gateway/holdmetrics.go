package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/gateway/control"
)

// holdGauges say how many machines are held, in the whole installation: every replica the same.
type holdGauges struct{ frozen, unresolved, staged prometheus.Gauge }

func newHoldGauges(reg prometheus.Registerer) holdGauges {
	g := holdGauges{
		frozen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bronzeward_machines_frozen", Help: "Machines that somebody froze, in the whole installation.",
		}),
		unresolved: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bronzeward_attempts_unresolved", Help: "Attempts that hold their machine because nobody knows what they did, in the whole installation.",
		}),
		staged: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bronzeward_machines_staged", Help: "Machines whose next reboot would bring another configuration, as last read, in the whole installation.",
		}),
	}
	reg.MustRegister(g.frozen, g.unresolved, g.staged)
	return g
}

func (g holdGauges) set(n control.HoldCounts) {
	g.frozen.Set(float64(n.Frozen))
	g.unresolved.Set(float64(n.Unresolved))
	g.staged.Set(float64(n.Staged))
}
