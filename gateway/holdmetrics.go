package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/gateway/control"
)

// holdGauges say how many machines are held, in the whole installation: every replica the same.
type holdGauges struct{ frozen, unresolved, staged prometheus.Gauge }

func newHoldGauges(reg prometheus.Registerer) holdGauges {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	g := holdGauges{
		frozen:     gauge("bronzeward_machines_frozen", "Machines that somebody froze, in the whole installation."),
		unresolved: gauge("bronzeward_attempts_unresolved", "Attempts that hold their machine because nobody knows what they did, in the whole installation."),
		staged:     gauge("bronzeward_machines_staged", "Machines whose next reboot would bring another configuration, as last observed, in the whole installation."),
	}
	reg.MustRegister(g.frozen, g.unresolved, g.staged)
	return g
}

func (g holdGauges) set(n control.HoldCounts) {
	g.frozen.Set(float64(n.Frozen))
	g.unresolved.Set(float64(n.Unresolved))
	g.staged.Set(float64(n.Staged))
}
