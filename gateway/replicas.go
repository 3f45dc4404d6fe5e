package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/gateway/control"
)

const (
	// reportEvery is how often a replica tells which law it has loaded when nothing changes.
	reportEvery = 10 * time.Second
	// reportWithin bounds one report, which nobody waits for.
	reportWithin = 5 * time.Second
	// farewellWithin bounds the last one, which the end of the process waits for.
	farewellWithin = 2 * time.Second
	// laggardsWithin bounds looking for others that lag, of which readiness only warns.
	laggardsWithin = time.Second
)

// lawUnloaded is all that is told of a law that cannot be loaded for other reasons than its signature.
const lawUnloaded = "the live policy cannot be loaded: this replica's log says why"

// Report tells the other replicas which law this one has loaded, and which it has prepared, whenever that changes and every ten
// seconds, and counts those that lag, until ctx ends; then it tells that it stops. Nothing waits for it.
func (g *Gateway) Report(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var told control.ReplicaReport
	failing := false
	for due := true; ; {
		snap := g.store.Snapshot()
		if now := g.report(snap, told); due || !reflect.DeepEqual(now, told) {
			bounded, cancel := context.WithTimeout(ctx, reportWithin)
			err := g.reportOnce(bounded, now)
			cancel()
			if err == nil {
				told = now
			}
			if err != nil && !failing && ctx.Err() == nil {
				g.log.WarnContext(ctx, "the other replicas cannot be told which law is loaded here", slog.Any("cause", err))
			}
			failing = err != nil
		}
		select {
		case <-ctx.Done():
			g.farewell(told)
			return
		case <-snap.Superseded():
			due = false
		case <-g.laws.changed:
			due = false
		case <-tick.C:
			due = true
		}
	}
}

// report is what is to be told now, after that.
func (g *Gateway) report(snap *control.Snapshot, told control.ReplicaReport) control.ReplicaReport {
	r := control.ReplicaReport{Process: g.process, Loaded: g.judge.Revision(), Wanted: snap.LiveRevision, Version: g.version, Ahead: g.laws.ahead.told(g.judge)}
	switch r.Loaded {
	case snap.LiveRevision:
		r.Counter = snap.BundleCounter
	case told.Loaded:
		r.Counter = told.Counter
	}
	if r.Loaded == snap.LiveRevision {
		return r
	}
	if f := g.laws.failure.Load(); f != nil && f.revision == snap.LiveRevision {
		r.FailedWhy = lawUnloaded
		if why := g.laws.why(snap.LiveRevision); why != nil {
			r.FailedWhy = why.Error()
		}
	}
	return r
}

// reportOnce tells it, and counts who lags.
func (g *Gateway) reportOnce(ctx context.Context, r control.ReplicaReport) error {
	if err := g.store.ReportReplica(ctx, r); err != nil {
		return err
	}
	all, err := g.store.Replicas(ctx)
	if err != nil {
		return err
	}
	g.metrics.lagging.Set(float64(len(all.Lagging())))
	return nil
}

// farewell tells that this process stops, so that nobody waits for it.
func (g *Gateway) farewell(told control.ReplicaReport) {
	ctx, cancel := context.WithTimeout(context.Background(), farewellWithin)
	defer cancel()
	last := g.report(g.store.Snapshot(), told)
	last.Stopped = true
	if err := g.store.ReportReplica(ctx, last); err != nil {
		g.log.DebugContext(ctx, "the other replicas could not be told that this one stops", slog.Any("cause", err))
	}
}

// laggards says which other replicas have not loaded the live law.
func (g *Gateway) laggards(ctx context.Context) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, laggardsWithin)
	defer cancel()
	all, err := g.store.Replicas(ctx)
	if err != nil {
		return []string{"which law the other replicas have loaded cannot be read"}
	}
	for _, r := range all.Lagging() {
		if r.Process == g.process {
			continue
		}
		sentence := fmt.Sprintf("the replica %s has not loaded the live policy %.12s", r.Instance, all.Live)
		if r.FailedWhy != "" {
			sentence += ": " + r.FailedWhy
		}
		out = append(out, sentence)
	}
	return out
}

// loadedMetric says whether this replica has the live law. It does no I/O.
func loadedMetric(g *Gateway) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bronzeward_policy_loaded", Help: "1 while this replica has loaded the live law, as far as it knows.",
	}, func() float64 {
		if live := g.store.Snapshot().LiveRevision; live != "" && g.judge.Revision() == live {
			return 1
		}
		return 0
	})
}

// newLaggingGauge counts replicas in the whole installation: every replica the same.
func newLaggingGauge(reg prometheus.Registerer) prometheus.Gauge {
	lagging := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bronzeward_policy_replicas_lagging", Help: "Replicas that are heard of and have not loaded the live law, in the whole installation.",
	})
	reg.MustRegister(lagging)
	return lagging
}

// newLoads counts how laws came into this replica's engine.
func newLoads(reg prometheus.Registerer) *prometheus.CounterVec {
	loads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bronzeward_policy_loads_total", Help: "Live laws this replica loaded, by how: prepared before they were live, or compiled while calls waited.",
	}, []string{"how"})
	for _, how := range []string{loadPrepared, loadCompiled} {
		loads.WithLabelValues(how)
	}
	reg.MustRegister(loads)
	return loads
}
