package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// wire is the socket below TLS. It counts what is handed to the kernel and can be cut
// off: after cut no byte goes down any more, so the count is final.
type wire struct {
	net.Conn

	mu     sync.RWMutex // held for reading while a write is under way
	handed atomic.Int64 // bytes given to a write, counted before it happens
	closed atomic.Bool
}

// Write counts first: a byte is "handed over" when the kernel may have seen it.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()

	if w.closed.Load() {
		return 0, net.ErrClosed
	}

	w.handed.Add(int64(len(b)))

	return w.Conn.Write(b)
}

// Close is cut: TLS's farewell has been written by then if there was one.
func (w *wire) Close() error { return w.cut() }

// cut closes the socket, waking a write that hangs, and returns once no write runs.
func (w *wire) cut() error {
	w.closed.Store(true)
	err := w.Conn.Close()

	// A writer that passed the check before closed was set is let out by the Close.
	w.mu.Lock()
	//lint:ignore SA2001 waiting for the writer is the point
	w.mu.Unlock()

	return err
}

// limitSilence shortens how long the kernel waits to be heard. It is a second line: the
// reset at the deadline does not depend on it, so an error changes nothing.
func (w *wire) limitSilence(d time.Duration) {
	sc, ok := w.Conn.(syscall.Conn)
	if !ok || d <= 0 || d > silence {
		return
	}

	if raw, err := sc.SyscallConn(); err == nil {
		_ = prepareSocket(raw, true, max(d, time.Millisecond))
	}
}

// nodeConn is a connection with its TLS handshake done; it is what dialers here give to
// gRPC.
type nodeConn struct {
	*tls.Conn
	wire    *wire
	address netip.AddrPort
	version int64 // of the credential that was shown
}

// dialSettings are the differences between the two kinds of connection.
type dialSettings struct {
	abrupt bool // SO_LINGER 0
	quiet  time.Duration
}

// dial tries the addresses in order and returns the first machine that proves itself.
// The error names every address that was tried and why it did not do.
func (p *Pool) dial(ctx context.Context, addresses []netip.AddrPort, serverName string, cred *credential, s dialSettings) (*nodeConn, error) {
	var (
		tried []error
		class = ClassUnreachable
	)

	for _, a := range addresses {
		conn, err := p.dialOne(ctx, a, serverName, cred, s)
		if err == nil {
			return conn, nil
		}

		if ClassOf(err) == ClassUntrusted {
			class = ClassUntrusted
		}

		tried = append(tried, err)

		if ctx.Err() != nil {
			break
		}
	}

	if len(tried) == 1 {
		return nil, tried[0]
	}

	return nil, &Error{Class: class, Err: errors.Join(tried...)}
}

func (p *Pool) dialOne(ctx context.Context, address netip.AddrPort, serverName string, cred *credential, s dialSettings) (*nodeConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.DialTimeout)
	defer cancel()

	d := net.Dialer{
		Control: func(_, _ string, raw syscall.RawConn) error { return prepareSocket(raw, s.abrupt, s.quiet) },
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		},
	}

	raw, err := d.DialContext(ctx, "tcp", address.String())
	if err != nil {
		return nil, &Error{Class: ClassUnreachable, Address: address, Err: err}
	}

	if serverName == "" {
		serverName = address.Addr().WithZone("").String()
	}

	w := &wire{Conn: raw}
	tc := tls.Client(w, &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    cred.pool,
		NextProtos: []string{"h2"},
		// Always ours, whatever CAs the node says it likes: without it the refusal would
		// come later and say less.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cred.Certificate, nil },
		// A resumed session would outlive a change of the CA.
		SessionTicketsDisabled: true,
	})

	if err := tc.HandshakeContext(ctx); err != nil {
		_ = w.cut()

		class := ClassUnreachable

		var verify *tls.CertificateVerificationError
		if errors.As(err, &verify) {
			class = ClassUntrusted
		}

		return nil, &Error{Class: class, Address: address, Err: err}
	}

	if got := tc.ConnectionState().NegotiatedProtocol; got != "h2" {
		_ = w.cut()

		return nil, &Error{Class: ClassUntrusted, Address: address, Err: errors.New("the server does not speak h2")}
	}

	return &nodeConn{Conn: tc, wire: w, address: address, version: cred.Version}, nil
}

// handedOver is the gRPC side of nodeConn: the handshake is done, so it only tells gRPC
// about it. A connection that did not come from dial is refused.
type handedOver struct{}

func (handedOver) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	nc, ok := conn.(*nodeConn)
	if !ok {
		return nil, nil, errors.New("connection was not made by the machine dialer")
	}

	return nc, credentials.TLSInfo{
		State:          nc.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

func (handedOver) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this credential is a client's")
}

func (handedOver) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (h handedOver) Clone() credentials.TransportCredentials { return h }

func (handedOver) OverrideServerName(string) error { return nil }
