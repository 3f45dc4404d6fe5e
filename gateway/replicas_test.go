package gateway

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
	"bronzeward/policy"
	"bronzeward/policytest/lawsign"
)

// beside is a second gateway on the same database, which serves no calls.
func (h *house) beside(t testing.TB, instance string, change func(*Config)) *Gateway {
	t.Helper()
	store := must(control.Open(context.Background(), control.Config{
		URL: h.store.Pool().Config().ConnString(), Instance: instance, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	t.Cleanup(store.Close)
	cfg := Config{
		Certificate: ownCertificate{&sharedPKI(t).own}, Identity: h.gw.identity, Judge: policy.New(policy.EngineConfig{}), Store: store, Book: h.book,
		Upstream: h.upstream, Digester: must(digests())(t), Sealer: sealer(t), Instance: instance, Version: "1.2.3",
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	return must(New(cfg))(t)
}

// at is a house of which only the callers of another gateway see something.
func (h *house) at(t testing.TB, g *Gateway) *house {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := g.Serve(listener); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	t.Cleanup(func() { g.Stop(time.Second); serving.Wait() })
	return &house{setup: h.setup, db: h.db, endpoint: listener.Addr().String()}
}

// follows keeps a gateway on the live law and lets it tell which it has, until the returned function is called.
func follows(t testing.TB, g *Gateway) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { g.Follow(ctx) })
	running.Go(func() { g.PrepareLaws(ctx) })
	running.Go(func() { g.Report(ctx) })
	end = func() { cancel(); running.Wait() }
	t.Cleanup(end)
	return end
}

func (h *house) replicas(t testing.TB) control.Replicas {
	t.Helper()
	return must(h.store.Replicas(context.Background()))(t)
}

// Two gateways on one database both tell that they have the law that one of them made live; one that pins
// another key tells why it has not, denies its calls, and the other says so without being unready.
func TestReplicasTellWhichLawTheyHave(t *testing.T) {
	t.Parallel()
	key, other := must(lawsign.New())(t), must(lawsign.New())(t)
	registry := prometheus.NewRegistry()
	h := newHouse(t, func(s *setup) {
		s.ownEngine = true
		s.gateway = func(c *Config) { c.Registry = registry }
	})
	follows(t, h.gw)
	pinned := h.beside(t, "gw-2", func(c *Config) { c.LawKeys = policy.Keys{"2026": pinnedKey(key)} })
	end := follows(t, pinned)
	acts, sven := h.acts(), h.actor(t, "sven")
	acts.Keys = policy.Keys{"2026": pinnedKey(key)}
	law := signedLaw(t, key, 7, "BW-TEST-001")
	must(acts.Activate(context.Background(), sven, tried(law), nil))(t)
	eventually(t, "both replicas to have the law", func() bool {
		all := h.replicas(t)
		return len(all.List) == 2 && all.Agree() == control.AgreeYes
	})
	for _, r := range h.replicas(t).List {
		if r.Loaded != law.Revision() || r.Wanted != law.Revision() || r.FailedWhy != "" || r.Counter != h.store.Snapshot().BundleCounter || r.LoadedAt == nil {
			t.Errorf("%+v", r)
		}
	}
	live := must(h.store.LiveLaw(context.Background()))(t)
	if live.Activation == nil || live.Activation.Subject != sven.Caller.Subject || live.Activation.Signed != 7 || live.Proof == nil || live.Proof.KeyID != "2026" {
		t.Errorf("the live law: %+v", live)
	}
	end()
	if all := h.replicas(t); len(all.List) != 1 || all.List[0].Instance != "gw-1" {
		t.Errorf("after one stopped: %+v", all.List)
	}

	foreign := h.beside(t, "gw-3", func(c *Config) { c.LawKeys = policy.Keys{"2025": pinnedKey(other)} })
	follows(t, foreign)
	eventually(t, "the third to tell why it has no law", func() bool {
		return slices.ContainsFunc(h.replicas(t).List, func(r control.Replica) bool {
			return r.Instance == "gw-3" && r.Version == "1.2.3" && r.Loaded == "" && strings.Contains(r.FailedWhy, "the key 2026 is missing")
		})
	})
	if got := h.replicas(t).Agree(); got != control.AgreeNo {
		t.Errorf("they agree: %q", got)
	}
	if a := h.at(t, foreign).as(t, "olga").version(t, "w1"); a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "DENIED BW-POLICY-001") || !strings.Contains(a.text(), "the key 2026 is missing") {
		t.Errorf("it answers %v", a.err)
	}
	ok(t, h.as(t, "olga").version(t, "w1").err)
	state, problems := h.gw.Ready(t.Context())
	if says := strings.Join(state["warnings"].([]string), "\n"); len(problems) != 0 || !strings.Contains(says, "the replica gw-3 has not loaded the live policy") || !strings.Contains(says, "the key 2026 is missing") {
		t.Errorf("problems %q, warnings %q", problems, says)
	}
	ok(t, h.gw.reportOnce(t.Context(), h.gw.report(h.store.Snapshot(), control.ReplicaReport{})))
	if lagging, loaded := gauge(t, registry, "bronzeward_policy_replicas_lagging"), gauge(t, registry, "bronzeward_policy_loaded"); lagging != 1 || loaded != 1 {
		t.Errorf("%v lag, loaded is %v", lagging, loaded)
	}
}

// A database that does not take reports delays neither the law nor a decision.
func TestAReportThatFailsDelaysNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	// Whoever holds the table locked holds up reports, and nothing else.
	release := must(h.db.Hold(context.Background(), "lock table control.replicas in access exclusive mode"))(t)
	t.Cleanup(func() { _ = release() }) // again, where the test went on to its end
	follows(t, h.gw)
	law := must(policy.OverlayFiles(must(shippedLaw())(t).bundle, policy.File{Path: "bronzeward/data.yaml", Body: []byte("ladder: {BW-TEST-001: warn}\n")}))(t)
	h.activate(t, law)
	eventually(t, "the law to be loaded", func() bool { return h.gw.judge.Revision() == law.Revision() })
	if a := h.as(t, "olga").version(t, "w1"); a.code() != codes.OK {
		t.Errorf("got %v", a.err)
	}
	eventually(t, "the report to wait", func() bool {
		return h.count(t, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'insert into control.replicas%'") == 1
	})
	ok(t, release())
	eventually(t, "the report to come", func() bool { return h.replicas(t).Agree() == control.AgreeYes })
}
