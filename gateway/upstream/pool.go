package upstream

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
)

// Pool holds one long-lived connection per machine and opens sending connections. Safe
// for concurrent use. Close it to end every connection it made.
type Pool struct {
	cfg Config

	credMu sync.Mutex
	creds  map[string]*credential // guarded by credMu; checked, by cluster

	mu      sync.Mutex
	closed  bool                    // guarded by mu
	entries map[string]*entry       // guarded by mu; by Target.key
	retired map[*entry]struct{}     // guarded by mu; replaced, still running something
	warm    map[string]*warmed      // guarded by mu; prepared sending connections
	sending map[*SendingConn]func() // guarded by mu; open sending connections
}

// entry is one pooled connection.
type entry struct {
	conn  *grpc.ClientConn
	place string
	cred  *credential

	mu      sync.Mutex
	running int         // guarded by mu; calls under way
	used    time.Time   // guarded by mu; when the last one ended or the entry was given out
	retire  *time.Timer // guarded by mu; set once replaced
}

// NewPool makes a Pool; it dials nothing.
func NewPool(cfg Config) (*Pool, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}

	return &Pool{
		cfg:     cfg,
		creds:   map[string]*credential{},
		entries: map[string]*entry{},
		retired: map[*entry]struct{}{},
		warm:    map[string]*warmed{},
		sending: map[*SendingConn]func(){},
	}, nil
}

// Conn returns the pooled connection of a machine for reads and streams. It dials when
// the first call is made, fails calls at once while the machine is away, and carries any
// codec (grpc-proxy's included) with messages of up to MaxMessage. The connection stays
// the pool's: do not close it and do not keep it between calls. It must never carry an
// apply.
func (p *Pool) Conn(ctx context.Context, t Target) (*grpc.ClientConn, error) {
	addresses, err := t.validate(p.cfg.Port)
	if err != nil {
		return nil, err
	}

	cred, err := p.credential(ctx, t.Cluster)
	if err != nil {
		return nil, err
	}

	key, place := t.key(addresses)

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed {
		return nil, ErrClosed
	}

	p.sweepLocked(time.Now())

	if e := p.entries[key]; e != nil {
		if e.place == place && e.cred.same(cred.Credential) {
			e.touch()

			return e.conn, nil
		}

		delete(p.entries, key)
		p.retireLocked(e)
	}

	e := &entry{place: place, cred: cred, used: time.Now()}

	e.conn, err = grpc.NewClient(authority(addresses), append(commonOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := p.dial(ctx, addresses, t.ServerName, cred, dialSettings{quiet: silence})
			if err != nil {
				return nil, err
			}

			return conn, nil
		}),
		grpc.WithStatsHandler(e),
		grpc.WithIdleTimeout(p.cfg.IdleTimeout),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: nodeKeepalive, Timeout: nodeKeepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A machine that reboots should be found again soon, and is dialled only
			// while somebody asks for it.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: time.Duration(len(addresses)) * p.cfg.DialTimeout,
		}),
	)...)
	if err != nil {
		return nil, err
	}

	p.entries[key] = e

	return e.conn, nil
}

// commonOptions hold for both kinds of connection: nothing is taken from the
// environment, from DNS or from the server about how to connect or what to repeat.
func commonOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(handedOver{}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDisableHealthCheck(),
		grpc.WithUserAgent("bronzeward"),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessage),
			grpc.MaxCallSendMsgSize(MaxMessage),
			grpc.MaxRetryRPCBufferSize(0),
		),
	}
}

// authority is the gRPC target: the passthrough resolver hands the literal address on.
func authority(addresses []netip.AddrPort) string {
	a := addresses[0]

	return "passthrough:///" + netip.AddrPortFrom(a.Addr().WithZone(""), a.Port()).String()
}

// sweepLocked forgets entries nobody has used for the idle time; gRPC has closed their
// sockets by then.
func (p *Pool) sweepLocked(now time.Time) {
	for key, e := range p.entries {
		if e.idleSince(now) > p.cfg.IdleTimeout {
			delete(p.entries, key)
			_ = e.conn.Close()
		}
	}
}

// retireLocked takes an entry that was replaced out of use: at once if nothing runs over
// it for a second, else when RetireAfter is over.
func (p *Pool) retireLocked(e *entry) {
	p.retired[e] = struct{}{}

	const grace = time.Second // somebody may just have been given the connection

	deadline := time.Now().Add(p.cfg.RetireAfter)

	e.mu.Lock()
	defer e.mu.Unlock()

	wait := min(grace, p.cfg.RetireAfter)
	e.retire = time.AfterFunc(wait, func() {
		e.mu.Lock()
		if e.running > 0 && time.Now().Before(deadline) {
			e.retire.Reset(wait)
			e.mu.Unlock()

			return
		}
		e.mu.Unlock()

		p.mu.Lock()
		delete(p.retired, e)
		p.mu.Unlock()

		_ = e.conn.Close()
	})
}

// Close ends every connection, the sending ones included, and waits for none of their
// calls: they end with an error of ours, never with an answer.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()

		return nil
	}

	p.closed = true

	var ends []func()

	for _, e := range p.entries {
		ends = append(ends, func() { _ = e.conn.Close() })
	}

	for e := range p.retired {
		ends = append(ends, func() {
			e.mu.Lock()
			e.retire.Stop()
			e.mu.Unlock()
			_ = e.conn.Close()
		})
	}

	for _, w := range p.warm {
		w.expire.Stop()
	}

	for _, end := range p.sending {
		ends = append(ends, end)
	}

	clear(p.entries)
	clear(p.retired)
	clear(p.warm)
	p.mu.Unlock()

	for _, end := range ends {
		end()
	}

	return nil
}

func (e *entry) touch() {
	e.mu.Lock()
	e.used = time.Now()
	e.mu.Unlock()
}

func (e *entry) idleSince(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.running > 0 {
		return 0
	}

	return now.Sub(e.used)
}

// TagRPC is part of stats.Handler, by which an entry counts its calls.
func (e *entry) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC counts.
func (e *entry) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.Begin:
		e.mu.Lock()
		e.running++
		e.mu.Unlock()
	case *stats.End:
		e.mu.Lock()
		e.running--
		e.used = time.Now()
		e.mu.Unlock()
	}
}

// TagConn does nothing.
func (e *entry) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (e *entry) HandleConn(context.Context, stats.ConnStats) {}
