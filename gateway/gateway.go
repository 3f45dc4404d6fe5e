package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// Identifier proves callers; gateway/identity's Authenticator is the one there is.
type Identifier interface {
	Identify(ctx context.Context, r identity.Request) (identity.Caller, error)
}

// Judge decides; policy's Engine is the one there is.
type Judge interface {
	Decide(ctx context.Context, f *policy.Facts) policy.Decision
	Use(ctx context.Context, b *policy.Bundle) error
	// Prepare compiles a law ahead, UsePrepared makes it the law without compiling, and Prepared are the
	// revisions that are compiled.
	Prepare(ctx context.Context, b *policy.Bundle) error
	UsePrepared(revision string) bool
	Prepared() []string
	Revision() string
	DecideAct(ctx context.Context, a *policy.Act) policy.Decision
	Quorum(ctx context.Context) policy.Quorum
}

// Changes are the settings of captured changes; every zero field takes its default.
type Changes struct {
	// ApproveWithin is how long after its capture the last needed approval may come; 24 h.
	ApproveWithin time.Duration
	// UseWithin is how long after that approval it may be applied; 1 h.
	UseWithin time.Duration
	// WaitingPerCaller and WaitingBytesPerCaller cap what one person may have waiting; 50 changes, 64 MiB.
	WaitingPerCaller      int
	WaitingBytesPerCaller int64
	// KeepSealed is how long the sealed bytes of a change that has ended are kept; 24 h.
	KeepSealed time.Duration
	// Notify puts each captured change into the outbox for the approvers.
	Notify bool
}

func (c Changes) withDefaults() Changes {
	c.ApproveWithin, c.UseWithin = orDefault(c.ApproveWithin, 24*time.Hour), orDefault(c.UseWithin, time.Hour)
	c.KeepSealed = orDefault(c.KeepSealed, 24*time.Hour)
	if c.WaitingPerCaller == 0 {
		c.WaitingPerCaller = 50
	}
	if c.WaitingBytesPerCaller == 0 {
		c.WaitingBytesPerCaller = 64 << 20
	}
	return c
}

// Config is all a Gateway needs. Every field without a default is required.
type Config struct {
	Certificate CertificateSource
	// MinTLS is tls.VersionTLS13 unless set.
	MinTLS   uint16
	Identity Identifier
	Judge    Judge
	Store    *control.Store
	Book     *audit.Book
	Upstream *upstream.Pool
	// LawKeys are the pinned keys of whoever signs laws; with none, a law needs no signature.
	LawKeys  policy.Keys
	Digester facts.Digester
	// Sealer keeps the exact bytes of changes.
	Sealer  Sealer
	Changes Changes
	// Drift is how machines are watched.
	Drift  Drift
	Limits Limits
	// ProxySources are the load balancers whose PROXY protocol header is required and believed;
	// default none. Whoever connects from there can say to be any address.
	ProxySources []netip.Prefix
	// Instance names this process in entries, attempts and metrics.
	Instance string
	// Version is the program's, for people who look at several replicas; may be empty.
	Version string
	// TransportDeadline is how long a sent apply may go without an answer; default 30 s.
	TransportDeadline time.Duration
	// VerifyDeadline is how long the read-back is polled after the answer; default 10 s.
	VerifyDeadline time.Duration
	// ReceiveWithin is how long a caller may take to send its one message; default 90 s.
	ReceiveWithin time.Duration
	// Tree is what this replica knows of the tree over the book, for Ready; null where it is not sequenced.
	Tree *BookTree
	// Warnings are further sentences for /readyz that make no replica unready; default none. It
	// does no I/O.
	Warnings func() []string
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Validate names everything that is missing.
func (c Config) Validate() error {
	var problems []error
	for _, need := range []struct {
		missing bool
		what    string
	}{
		{c.Certificate == nil, "Certificate"},
		{c.Identity == nil, "Identity"},
		{c.Judge == nil, "Judge"},
		{c.Store == nil, "Store"},
		{c.Book == nil, "Book"},
		{c.Upstream == nil, "Upstream"},
		{c.Digester == nil, "Digester"},
		{c.Sealer == nil, "Sealer"},
		{c.Instance == "", "Instance"},
		{c.Registry == nil, "Registry"},
		{c.Logger == nil, "Logger"},
	} {
		if need.missing {
			problems = append(problems, errors.New("gateway: "+need.what+" is required"))
		}
	}
	return errors.Join(problems...)
}

// readerCache is how many parsed active configurations are kept: one per machine that is
// being worked on.
const readerCache = 64

// errStopping ends streams when the process stops.
var errStopping = errors.New("the gateway is stopping; call again")

// Gateway serves calls. Safe for concurrent use; Serve is called once.
type Gateway struct {
	identity Identifier
	judge    Judge
	store    *control.Store
	book     *audit.Book
	upstream *upstream.Pool
	digester facts.Digester
	sealer   Sealer
	changes  Changes
	drift    Drift
	instance string

	transportDeadline time.Duration
	verifyDeadline    time.Duration
	receiveWithin     time.Duration

	server       *grpc.Server
	sessions     *sessions
	perAddress   *buckets
	connsLimit   int
	proxySources []netip.Prefix
	perCaller    *buckets
	metrics      *Metrics
	tree         *BookTree // null in some tests
	warnings     func() []string
	log          *slog.Logger

	process uuid.UUID // of this process, among those of its instance
	version string

	reader *facts.Reader
	laws   laws
	memo   memo
	seen   people
	// background is what nobody waits for; Stop does.
	background sync.WaitGroup
}

// New builds a Gateway; it reads the server certificate and does no other I/O.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	limits := cfg.Limits.withDefaults()
	g := &Gateway{
		identity: cfg.Identity, judge: cfg.Judge, laws: newLaws(cfg.LawKeys), store: cfg.Store, book: cfg.Book,
		upstream: cfg.Upstream, digester: cfg.Digester, instance: cfg.Instance, tree: cfg.Tree,
		sealer: cfg.Sealer, changes: cfg.Changes.withDefaults(), drift: cfg.Drift.withDefaults(),
		transportDeadline: orDefault(cfg.TransportDeadline, 30*time.Second),
		verifyDeadline:    orDefault(cfg.VerifyDeadline, 10*time.Second),
		receiveWithin:     orDefault(cfg.ReceiveWithin, defaultReceiveWithin),
		sessions:          newSessions(limits.StreamsPerCaller),
		perAddress:        newBuckets(limits.CallsPerSecondPerAddress, time.Now),
		connsLimit:        limits.ConnectionsPerAddress,
		proxySources:      cfg.ProxySources,
		perCaller:         newBuckets(limits.CallsPerSecond, time.Now),
		metrics:           NewMetrics(cfg.Registry),
		warnings:          cfg.Warnings,
		log:               cfg.Logger,
		process:           uuid.New(), version: cfg.Version,
	}
	var err error
	if g.reader, err = facts.NewReader(facts.ReaderConfig{Digester: cfg.Digester, Cache: readerCache}); err != nil {
		return nil, err
	}
	if g.memo, err = newMemo(); err != nil {
		return nil, err
	}
	conf, err := serverTLS(cfg.Certificate, cfg.MinTLS)
	if err != nil {
		return nil, err
	}
	g.server = newServer(conf, g.handle)
	cfg.Registry.MustRegister(newCredentialMetrics(g.credentials))
	cfg.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bronzeward_open_calls", Help: "Calls that are open now.",
	}, func() float64 { return float64(g.sessions.count()) }))
	cfg.Registry.MustRegister(loadedMetric(g))
	cfg.Registry.MustRegister(standingMetrics(func() control.Standing { return g.store.Snapshot().Standing })...)
	return g, nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// Serve accepts calls on l until Stop; it returns nil after a Stop.
func (g *Gateway) Serve(l net.Listener) error {
	if err := g.server.Serve(g.Limit(l)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop takes no new call, ends streams, lets running applies reach their outcome for at
// most grace, and returns. An apply that is not done by then stays open and is settled
// by the next process.
func (g *Gateway) Stop(grace time.Duration) {
	g.sessions.stop(errStopping)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.server.GracefulStop() // waits for every handler, those whose caller has gone too
	}()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		g.server.Stop()
	}
	g.background.Wait()
}
