package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/audit"
	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// house is one test's world: a database of its own, fake nodes, and a gateway in this
// process. What is asserted is asked of the nodes' logs and of the database.
type house struct {
	*setup
	db    *faults.Database
	proxy *faults.Proxy // nil unless asked for
	nodes map[string]*talosd.Node

	store    *control.Store
	book     *audit.Book
	upstream *upstream.Pool
	gw       *Gateway
	endpoint string
	logs     *lockedBuffer
	stopped  chan struct{}
	receipts receipts
}

// setup is what a test may ask for.
type setup struct {
	workers   int
	server    *pgtest.Shared // shared17 unless set
	law       func() (law, error)
	ownEngine bool
	proxied   bool
	following bool
	empty     bool // no law is live
	gateway   func(*Config)
	control   func(*control.Config)
	identity  func(*identity.Config)
	book      func(*audit.BookConfig)
	upstream  func(*upstream.Config)
	node      func(name string, c *talosd.Config)
}

// newHouse makes a world of one worker, w1, and starts its gateway.
func newHouse(t testing.TB, change func(*setup)) *house {
	t.Helper()
	s := &setup{workers: 1, law: shippedLaw, server: &shared17}
	if change != nil {
		change(s)
	}
	h := &house{setup: s, nodes: map[string]*talosd.Node{}}
	name := s.server.NewDatabaseName(t, migrated)
	server := s.server.Server(t)
	h.db = must(faults.OpenDatabase(context.Background(), server.DSN(name, "postgres")))(t)
	t.Cleanup(h.db.Close)
	t.Cleanup(func() { h.holdsThem(t) })
	t.Cleanup(func() { h.comesOutTheSame(t) })
	dsn := server.DSN(name, asGateway)
	if s.proxied {
		h.proxy = must(faults.NewProxy(server.Socket(), server.Port()))(t)
		t.Cleanup(func() { ok(t, h.proxy.Close()) })
		dsn = "host=" + h.proxy.Dir() + " port=" + itoa(server.Port()) + " user=" + asGateway + " dbname=" + name
	}
	h.open(t, dsn)
	for i := range s.workers {
		h.addWorker(t, i+1)
	}
	h.makeLive(t)
	h.start(t)
	return h
}

// open opens the rooms below the gateway.
func (h *house) open(t testing.TB, dsn string) {
	t.Helper()
	h.logs = &lockedBuffer{}
	log := slog.New(slog.NewTextHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := control.Config{URL: dsn, Instance: "gw-1", Logger: log, PollEvery: 200 * time.Millisecond}
	if h.control != nil {
		h.control(&cfg)
	}
	h.store = must(control.Open(context.Background(), cfg))(t)
	t.Cleanup(h.store.Close)
	bookCfg := audit.BookConfig{Pool: h.store.Pool(), Guard: h.store.Guard, Logger: log, RefusalWindow: 50 * time.Millisecond}
	if h.setup.book != nil {
		h.setup.book(&bookCfg)
	}
	h.book = must(audit.NewBook(bookCfg))(t)
	t.Cleanup(h.book.Close)
	upstreamCfg := upstream.Config{Credential: sharedPKI(t).upstream(t), Logger: log}
	if h.setup.upstream != nil {
		h.setup.upstream(&upstreamCfg)
	}
	h.upstream = must(upstream.NewPool(upstreamCfg))(t)
	t.Cleanup(func() { ok(t, h.upstream.Close()) })
}

// addWorker starts worker n and makes it known and pinned.
func (h *house) addWorker(t testing.TB, n int) {
	t.Helper()
	name := "w" + itoa(n)
	cfg := talosd.Config{
		Name: name, CA: sharedPKI(t).talos, MachineConfig: oracle.Base(),
		Listen:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 1, byte(n)}), 0).String(),
		Identity: talosd.Identity{UUID: "4c4c4544-0000-4000-8000-00000000000" + itoa(n)},
	}
	if h.setup.node != nil {
		h.setup.node(name, &cfg)
	}
	node := must(talosd.Start(cfg))(t)
	t.Cleanup(func() { ok(t, node.Close()) })
	h.nodes[name] = node
	at := netip.MustParseAddrPort(node.Addr())
	ctx := context.Background()
	_, _, err := h.store.AddMachine(ctx, control.NewMachine{
		Name: name, Cluster: cluster, Role: "worker", Addresses: []netip.Addr{at.Addr()}, Port: at.Port(),
	}, admin("machines.add"))
	ok(t, err)
	id := node.Identity()
	_, err = h.store.PinMachine(ctx, name, control.Identity{NodeID: id.NodeID, ClusterID: id.ClusterID, SMBIOS: id.UUID}, false, admin("machines.pin"))
	ok(t, err)
	_, err = h.store.Refresh(ctx, 0)
	ok(t, err)
}

// makeLive makes the setup's law the live one; the template has the shipped law.
func (h *house) makeLive(t testing.TB) {
	t.Helper()
	if h.empty {
		ok(t, h.db.Exec(context.Background(), "update control.live_bundle set revision = null, counter = counter + 1"))
		ok(t, h.db.Exec(context.Background(), "update control.authority set version = version + 1"))
		must(h.store.Refresh(context.Background(), 0))(t)
		return
	}
	l := must(h.law())(t)
	if l.bundle.Revision() != h.store.Snapshot().LiveRevision {
		h.activate(t, l.bundle)
	}
}

func (h *house) activate(t testing.TB, b *policy.Bundle) {
	t.Helper()
	ctx := context.Background()
	_, err := h.store.SaveBundle(ctx, b.Revision(), b.Bytes(), nil, admin("policy.save"))
	ok(t, err)
	_, err = h.store.ActivateBundle(ctx, control.NewLive{Revision: b.Revision(), Way: control.WayActivate}, admin("policy.activate"))
	ok(t, err)
	must(h.store.Refresh(ctx, 0))(t)
}

// start starts the gateway on a port of its own.
func (h *house) start(t testing.TB) {
	t.Helper()
	p := sharedPKI(t)
	who := identity.Config{
		PeopleCAs: []*x509.Certificate{p.people.Cert()}, ForbiddenCAs: []*x509.Certificate{must(p.talos.Leaf())(t)},
		Now: func() time.Time { return h.store.Snapshot().Now() },
	}
	if h.setup.identity != nil {
		h.setup.identity(&who)
	}
	authenticator := must(identity.New(context.Background(), who))(t)
	t.Cleanup(func() { ok(t, authenticator.Close()) })
	l := must(h.law())(t)
	engine := l.engine
	if h.ownEngine {
		engine = policy.New(policy.EngineConfig{Budget: 20 * time.Second})
	}
	cfg := Config{
		Certificate: ownCertificate{&p.own}, Identity: authenticator, Judge: engine, Store: h.store, Book: h.book,
		Upstream: h.upstream, Digester: must(digests())(t), Sealer: sealer(t), Instance: "gw-1",
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(h.logs, nil)),
		TransportDeadline: 20 * time.Second, VerifyDeadline: 5 * time.Second,
	}
	if h.gateway != nil {
		h.gateway(&cfg)
	}
	h.gw = must(New(cfg))(t)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	h.endpoint = listener.Addr().String()
	h.stopped = make(chan struct{})
	var background sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	background.Go(func() {
		defer close(h.stopped)
		if err := h.gw.Serve(listener); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	if h.following {
		background.Go(func() { h.gw.Follow(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		for _, n := range h.nodes {
			n.ClearFaults()
			n.Resume()
		}
		h.gw.Stop(time.Second)
		background.Wait()
	})
}

// ownCertificate is a fixed server certificate.
type ownCertificate struct{ pair *tls.Certificate }

func (o ownCertificate) ServerCertificate() (*tls.Certificate, error) { return o.pair, nil }

// lockedBuffer is the log, safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count is how many rows a query of one number says.
func (h *house) count(t testing.TB, query string, args ...any) int {
	t.Helper()
	return must(h.db.Count(context.Background(), query, args...))(t)
}

// texts are the first column of a query's rows.
func (h *house) texts(t testing.TB, query string, args ...any) []string {
	t.Helper()
	return must(h.db.Texts(context.Background(), query, args...))(t)
}

// attempts are the states of all attempts, oldest first.
func (h *house) attempts(t testing.TB) []string {
	t.Helper()
	return h.texts(t, "select state from control.attempts order by opened_at, id")
}

// applies are the real applies the node was sent.
func (h *house) applies(node string) []talosd.Call { return h.nodes[node].Log().Applies() }

// untouched fails when the node was sent any call.
func (h *house) untouched(t testing.TB, node string) {
	t.Helper()
	for _, c := range h.nodes[node].Log().Calls() {
		t.Errorf("the node was sent %s", c.Method)
	}
}

func (h *house) machine(t testing.TB, name string) control.Machine {
	t.Helper()
	return must(h.store.GetMachine(context.Background(), name))(t)
}
