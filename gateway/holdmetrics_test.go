package gateway

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/fixtures/talosd"
)

// The gauges count what is held, in the whole installation, and forget it when it is over.
func TestWhatIsHeldIsCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	h := newHouse(t, func(s *setup) {
		s.workers = 3
		hurried(s)
		short := s.gateway
		s.gateway = func(c *Config) {
			short(c)
			c.Registry = registry
		}
	})
	counted := func(frozen, unresolved, staged float64) {
		t.Helper()
		ok(t, h.gw.keepOnce(t.Context(), false))
		for name, want := range map[string]float64{
			"bronzeward_machines_frozen": frozen, "bronzeward_attempts_unresolved": unresolved, "bronzeward_machines_staged": staged,
		} {
			if got := gauge(t, registry, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}
	counted(0, 0, 0)
	h.freeze(t, "otto", "w1", "stop")
	counted(1, 0, 0)
	ok(t, h.nodes["w2"].Fault(talosd.Fault{Kind: talosd.ResetRequest}))
	_ = h.as(t, "olga").apply(t, "w2", noReboot(t, labelled("one")))
	counted(1, 1, 0)
	observe := func() {
		t.Helper()
		_ = must(h.acts().Observe(t.Context(), h.actor(t, "olga"), "w3", nil))(t)
	}
	observe()
	counted(1, 1, 0)
	ok(t, h.nodes["w3"].Stage(labelled("staged")))
	observe()
	counted(1, 1, 1)
	for _, name := range []string{"w1", "w2", "w3"} {
		_ = must(h.acts().RetireMachine(t.Context(), h.actor(t, "rhea"), name, "gone", nil))(t)
	}
	counted(0, 0, 0)
}
