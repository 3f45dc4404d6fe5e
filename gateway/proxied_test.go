package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"bronzeward/gateway/identity"
)

const (
	loadBalancer = "127.0.0.1"
	stranger     = "127.0.0.2"
	theClient    = "198.51.100.7"
)

// behindBalancer lists loadBalancer.
func behindBalancer(s *setup) {
	s.gateway = func(c *Config) {
		c.ProxySources = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(loadBalancer), 32)}
	}
}

// via dials from one address and sends these bytes ahead of TLS.
func via(source string, ahead []byte) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, at string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
		c, err := d.DialContext(ctx, "tcp", at)
		if err != nil {
			return nil, err
		}
		_, err = c.Write(ahead)
		return c, err
	}
}

// addresses are the client addresses in the book.
func (h *house) addresses(t testing.TB) string {
	t.Helper()
	return strings.Join(h.texts(t, "select distinct client_address from audit.entries where client_address is not null and client_address <> '' order by 1"), " ")
}

// Calls over a listed balancer are recorded under the client's address; a header from
// anybody else never gets as far as TLS, and names nobody.
func TestTheBookHasTheClientsAddressBehindABalancer(t *testing.T) {
	t.Parallel()
	forged := header(t, theClient+":4711")
	h := newHouse(t, behindBalancer)
	succeeded(t, h.as(t, "vera", grpc.WithContextDialer(via(loadBalancer, forged))).version(t, "w1"))
	if got := h.addresses(t); got != theClient {
		t.Errorf("the book has %s", got)
	}
	refused := h.with(t, &tls.Config{}, grpc.WithContextDialer(via(loadBalancer, header(t, "[2001:db8::7]:4711")))).version(t, "w1")
	refusedWith(t, refused, codes.Unauthenticated, "BW-CREDENTIAL-001")
	if got := h.addresses(t); got != theClient+" 2001:db8::7" {
		t.Errorf("the book has %s", got)
	}
	for _, row := range []struct {
		name, source string
		ahead        []byte
		taken        string
	}{
		{"not listed, forged", stranger, forged, ""},
		{"not listed, version 1", stranger, []byte("PROXY TCP4 198.51.100.9 192.0.2.1 1 50000\r\n"), ""},
		{"not listed, plain", stranger, nil, stranger},
		{"listed, plain", loadBalancer, nil, ""},
		{"listed, version 1", loadBalancer, []byte("PROXY TCP4 198.51.100.9 192.0.2.1 1 50000\r\n"), ""},
		{"listed, a second header", loadBalancer, append(header(t, "198.51.100.8:1"), forged...), ""},
		{"listed, its own", loadBalancer, localHeader, loadBalancer},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := h.addresses(t)
			a := h.as(t, "olga", grpc.WithContextDialer(via(row.source, row.ahead))).version(t, "w1")
			if row.taken == "" {
				if a.code() != codes.Unavailable || len(a.decisions()) > 0 {
					t.Errorf("it got as far as a call: %v", a.err)
				}
				if got := h.addresses(t); got != before {
					t.Errorf("the book had %s and has %s", before, got)
				}
				return
			}
			succeeded(t, a)
			if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and client_address = $2", a.decisions(), row.taken); n != 1 {
				t.Errorf("%d entries from %s", n, row.taken)
			}
		})
	}
	if n := strings.Count(h.logs.String(), "a load balancer's connection was closed"); n == 0 {
		t.Error("nothing is logged")
	}
}

// The control of the test before: where everybody is listed, the same forged header is what
// the book believes.
func TestWithoutTheSourceCheckAForgedAddressIsRecorded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, behindBalancer)
	l := newBalancers(must(net.Listen("tcp", "127.0.0.1:0"))(t), func(netip.Addr) bool { return true }, func(netip.Addr, headerResult) {})
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.gw.server.Serve(limitConnections(l, 10, func() {})) })
	t.Cleanup(func() { ok(t, l.Close()); serving.Wait() })
	h.endpoint = l.Addr().String()
	succeeded(t, h.as(t, "vera", grpc.WithContextDialer(via(stranger, header(t, theClient+":4711")))).version(t, "w1"))
	if got := h.addresses(t); got != theClient {
		t.Errorf("the book has %s: the source check is not what keeps a forged address out", got)
	}
}

// Buckets of an address are the client's: one client behind the balancer can use up its own
// and nobody else's. The HTTP door has the same listener and the same buckets.
func TestTheAddressLimitIsTheClientsBehindABalancer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		behindBalancer(s)
		behind := s.gateway
		s.gateway = func(c *Config) { behind(c); c.Limits = Limits{CallsPerSecondPerAddress: 0.001} }
	})
	as := func(person, client string) *client {
		return h.as(t, person, grpc.WithContextDialer(via(loadBalancer, header(t, client+":1"))))
	}
	succeeded(t, as("vera", theClient).version(t, "w1"))
	refusedWith(t, as("olga", theClient).version(t, "w1"), codes.ResourceExhausted, "BW-LIMIT-001")
	succeeded(t, as("olga", "198.51.100.8").version(t, "w1"))

	inner := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	conf := must(WebTLS(ownCertificate{&sharedPKI(t).own}, 0))(t)
	web := &http.Server{TLSConfig: conf, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if !h.gw.Allow(host, identity.Caller{}) {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, host)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.ServeTLS(h.gw.Limit(inner), "", "") })
	t.Cleanup(func() { ok(t, web.Close()); serving.Wait() })
	for client, want := range map[string]int{theClient: http.StatusTooManyRequests, "198.51.100.9": http.StatusOK} {
		dial := via(loadBalancer, header(t, client+":1"))
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: sharedPKI(t).server.Pool()},
			DialContext:     func(ctx context.Context, _, at string) (net.Conn, error) { return dial(ctx, at) },
		}
		r := must((&http.Client{Transport: transport}).Get("https://" + inner.Addr().String()))(t)
		body := must(io.ReadAll(r.Body))(t)
		_ = r.Body.Close()
		transport.CloseIdleConnections()
		if r.StatusCode != want || string(body) != client {
			t.Errorf("%s is answered %d %q, want %d", client, r.StatusCode, body, want)
		}
	}
}
