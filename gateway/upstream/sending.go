package upstream

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// SendingConn is a connection made for one apply; see the package comment. Evidence and
// ReadBack may be called any number of times, Apply once. Safe for concurrent use. It
// must be closed.
type SendingConn struct {
	pool   *Pool
	target Target
	conn   *grpc.ClientConn
	node   *nodeConn
	guards func() []grpc.CallOption // what every apply is called with; sendOnce

	spent atomic.Bool // Apply was called
	once  sync.Once   // Close
}

// warmed is a prepared connection that waits for its apply.
type warmed struct {
	conn   *SendingConn
	place  string
	cred   *credential
	expire *time.Timer
}

// Open connects to the machine for one apply: addresses in order, the first that proves
// itself. Nothing is sent. A connection left by Prepare is taken if it is still alive
// and was made with the present addresses and credential. Errors are *Error.
func (p *Pool) Open(ctx context.Context, t Target) (*SendingConn, error) {
	addresses, err := t.validate(p.cfg.Port)
	if err != nil {
		return nil, err
	}

	cred, err := p.credential(ctx, t.Cluster)
	if err != nil {
		return nil, err
	}

	if c := p.takeWarm(t, addresses, cred); c != nil {
		return c, nil
	}

	return p.open(ctx, t, addresses, cred)
}

func (p *Pool) open(ctx context.Context, t Target, addresses []netip.AddrPort, cred *credential) (*SendingConn, error) {
	node, err := p.dial(ctx, addresses, t.ServerName, cred, dialSettings{abrupt: true, quiet: silence})
	if err != nil {
		return nil, err
	}

	return p.attach(t, node, dialOnce(node))
}

// attach gives a connection that was made beforehand to gRPC, through dialer.
func (p *Pool) attach(t Target, node *nodeConn, dialer func(context.Context, string) (net.Conn, error)) (*SendingConn, error) {
	c := &SendingConn{pool: p, target: t, node: node, guards: sendOnce}

	var err error

	c.conn, err = grpc.NewClient(authority([]netip.AddrPort{node.address}), append(commonOptions(),
		grpc.WithContextDialer(dialer),
		grpc.WithStatsHandler(witnessing{}),
		grpc.WithIdleTimeout(0), // gRPC must not close it between evidence and apply
	)...)
	if err != nil {
		_ = node.wire.cut()

		return nil, err
	}

	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.sending[c] = c.end
	}
	p.mu.Unlock()

	if closed {
		c.end()

		return nil, ErrClosed
	}

	c.conn.Connect() // HTTP/2's first round trip begins now

	return c, nil
}

// dialOnce gives the connection that was made beforehand to gRPC, once.
func dialOnce(node *nodeConn) func(context.Context, string) (net.Conn, error) {
	var given atomic.Bool

	return func(context.Context, string) (net.Conn, error) {
		if given.Swap(true) {
			return nil, ErrSecondDial
		}

		return node, nil
	}
}

// Address is the machine's address the connection goes to.
func (c *SendingConn) Address() netip.AddrPort { return c.node.address }

// CredentialVersion is the KV version of the credential the connection was made with; zero
// for files. It stays, whatever the source gives meanwhile.
func (c *SendingConn) CredentialVersion() int64 { return c.node.version }

// Close ends the connection with a reset. Whatever has not left this machine by then is
// thrown away. It may be called more than once.
func (c *SendingConn) Close() error {
	c.pool.mu.Lock()
	delete(c.pool.sending, c)
	c.pool.mu.Unlock()

	c.end()

	return nil
}

// end cuts the socket before gRPC hears of it, so that no farewell is written over a
// connection whose request must not be delivered any more.
func (c *SendingConn) end() {
	c.once.Do(func() {
		c.abort()
		_ = c.conn.Close()
	})
}

// abort resets the socket. After it the count of handed bytes is final.
func (c *SendingConn) abort() { _ = c.node.wire.cut() }

// alive is false once the socket is cut or gRPC has noticed that it is gone.
func (c *SendingConn) alive() bool {
	if c.node.wire.closed.Load() {
		return false
	}

	switch c.conn.GetState() {
	case connectivity.Ready, connectivity.Connecting:
		return true
	default:
		return false
	}
}
