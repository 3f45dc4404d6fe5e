package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/grpc-proxy/proxy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"bronzeward/fixtures/talospki"
)

func asError(err error, into **Error) bool { return errors.As(err, into) }

func TestOnlyAMachineThatProvesItselfIsConnectedTo(t *testing.T) {
	p := newPKI(t)
	other := newPKI(t)

	maintenance, err := talospki.Server(talospki.Pair{}, time.Now(), []string{"maintenance-service.talos.dev"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	must(t, err)
	selfMade, err := maintenance.TLS()
	must(t, err)

	for _, row := range []struct {
		name   string
		cert   tls.Certificate
		server string
		class  Class
	}{
		{"right", p.server(t, nil, "127.0.0.1"), "", ""},
		{"right name, given", p.server(t, []string{"worker-1"}), "worker-1", ""},
		{"another CA", other.server(t, nil, "127.0.0.1"), "", ClassUntrusted},
		{"another address in the certificate", p.server(t, nil, "127.0.0.2"), "", ClassUntrusted},
		{"a name where the address should be", p.server(t, []string{"127.0.0.1"}), "", ClassUntrusted},
		{"another name than given", p.server(t, []string{"worker-2"}, "127.0.0.1"), "worker-1", ClassUntrusted},
		{"maintenance: self-made", selfMade, "", ClassUntrusted},
		{"a client's certificate", p.client, "", ClassUntrusted},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := startNodeAt(t, p, "127.0.0.1:0", row.cert)
			target := n.target()
			target.ServerName = row.server
			pool := p.pool(t)

			c, err := pool.Open(ctxFor(t), target)
			if err == nil {
				must(t, c.Close())
			}

			if ClassOf(err) != row.class {
				t.Errorf("error is %v", err)
			}

			if _, err := pool.Observe(ctxFor(t), target); (err == nil) != (row.class == "") {
				t.Errorf("observing: %v", err)
			}

			if row.class != "" && len(n.seen()) != 0 {
				t.Errorf("node saw %v", n.seen())
			}
		})
	}
}

// loopback is an address of this machine where nobody listens on port.
func loopback(last byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, last}), port)
}

func TestAddressesAreTriedInOrderAndNamedInTheError(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	wrong := startNodeAt(t, p, "127.0.0.3:0", p.server(t, nil, "127.0.0.1"))
	dead := loopback(7, n.addr.Port())
	pool := p.pool(t)

	e, err := pool.Observe(ctxFor(t), Target{Addresses: []netip.AddrPort{dead, wrong.addr, n.addr}})
	must(t, err)

	if e.Address != n.addr {
		t.Errorf("read at %s", e.Address)
	}

	c := openFor(t, pool, Target{Addresses: []netip.AddrPort{dead, wrong.addr, n.addr}})
	if c.Address() != n.addr {
		t.Errorf("opened at %s", c.Address())
	}

	_, err = pool.Open(ctxFor(t), Target{Addresses: []netip.AddrPort{dead, wrong.addr}})
	_, err2 := pool.Observe(ctxFor(t), Target{Addresses: []netip.AddrPort{dead, wrong.addr}})

	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), dead.String()) || !strings.Contains(err.Error(), wrong.addr.String()) {
			t.Errorf("error is %v", err)
		}
	}

	if ClassOf(err) != ClassUntrusted {
		t.Errorf("class is %s", ClassOf(err))
	}
}

func TestReachPassesOverAnAddressOfAnotherMachine(t *testing.T) {
	p := newPKI(t)
	other := startNode(t, p, func(n *node) { n.furnish("node-b", "cluster-a", "", "b\n") })
	mine := startNode(t, p)
	pool := p.pool(t)

	c, e, err := pool.Reach(ctxFor(t), Target{NodeID: "node-a", Addresses: []netip.AddrPort{other.addr, mine.addr}})
	must(t, err)

	if e.NodeID != "node-a" || e.Address != mine.addr || c.Address() != mine.addr {
		t.Errorf("reached %s at %s", e.NodeID, e.Address)
	}

	if a := c.Apply(ctxFor(t), []byte("x"), []string{RoleAdmin}, "id", soon()); !a.Got {
		t.Errorf("answer is %+v", a)
	}

	must(t, c.Close())

	c, e, err = pool.Reach(ctxFor(t), Target{NodeID: "node-c", Addresses: []netip.AddrPort{other.addr, mine.addr}})
	must(t, err)
	must(t, c.Close())

	if e.NodeID != "node-a" || len(other.sent()) != 0 {
		t.Errorf("the mismatch came back as %s; other machine got %d applies", e.NodeID, len(other.sent()))
	}
}

func TestAnAddressThatIsNoneIsRefusedBeforeDialling(t *testing.T) {
	pool := newPKI(t).pool(t)

	for _, target := range []Target{
		{},
		{Addresses: []netip.AddrPort{{}}},
		{Addresses: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:50000")}},
		{Addresses: []netip.AddrPort{netip.MustParseAddrPort("224.0.0.1:50000")}},
	} {
		if _, err := pool.Open(ctxFor(t), target); ClassOf(err) != ClassUnreachable {
			t.Errorf("%v: %v", target.Addresses, err)
		}
	}

	got, err := Target{Addresses: []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("::ffff:10.0.0.1"), 0)}}.validate(DefaultPort)
	if err != nil || got[0].String() != "10.0.0.1:50000" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestTheEnvironmentsProxyIsIgnored(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	t.Setenv("GRPC_PROXY", "http://127.0.0.1:1")

	p := newPKI(t)
	n := startNode(t, p)
	pool := p.pool(t)

	_, err := pool.Observe(ctxFor(t), n.target())
	must(t, err)

	_, err = openFor(t, pool, n.target()).Evidence(ctxFor(t))
	must(t, err)
}

func TestThePoolKeepsOneConnectionPerMachine(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	pool := p.pool(t)

	for range 3 {
		_, err := pool.Observe(ctxFor(t), n.target())
		must(t, err)
	}

	if got := n.accepted.Load(); got != 1 {
		t.Errorf("node was dialled %d times", got)
	}
}

func TestThePoolDropsAConnectionWhenAddressesOrCredentialChange(t *testing.T) {
	p := newPKI(t)
	a, b := startNode(t, p), startNode(t, p)

	source := &pki{ca: p.ca, client: p.client}
	pool, err := NewPool(Config{Credential: source, RetireAfter: time.Millisecond})
	must(t, err)
	t.Cleanup(func() { must(t, pool.Close()) })

	get := func(n *node) *grpc.ClientConn {
		conn, err := pool.Conn(ctxFor(t), Target{Machine: "m", Addresses: []netip.AddrPort{n.addr}})
		must(t, err)

		return conn
	}
	gone := func(conn *grpc.ClientConn) {
		t.Helper()

		for s := conn.GetState(); s != connectivity.Shutdown; s = conn.GetState() {
			if !conn.WaitForStateChange(ctxFor(t), s) {
				t.Fatal("the old connection stays")
			}
		}
	}

	first := get(a)
	if get(a) != first {
		t.Error("the same machine got another connection")
	}

	second := get(b)
	if second == first {
		t.Error("another address, the same connection")
	}

	gone(first)

	source.client = clientOf(t, p.ca, RoleImpersonator)

	third := get(b)
	if third == second {
		t.Error("another credential, the same connection")
	}

	gone(second)
}

func TestAPooledConnectionCarriesRawMessagesOf32MiB(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p, func(n *node) {
		n.apply = func(_ context.Context, _ *node, request []byte) ([]byte, error) { return request, nil }
	})

	conn, err := p.pool(t).Conn(ctxFor(t), n.target())
	must(t, err)

	for size, want := range map[int]codes.Code{4<<20 + 1: codes.OK, 107 << 20 / 10: codes.OK, 32 << 20: codes.OK, 32<<20 + 1: codes.ResourceExhausted} {
		// The method does not matter to a connection; the fake echoes only this one.
		out := proxy.NewFrame([]byte{})
		err := conn.Invoke(ctxFor(t), ApplyMethod, proxy.NewFrame(make([]byte, size)), out, grpc.ForceCodecV2(proxy.Codec()))

		if status.Code(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestAClosedPoolGivesNothingAndSendsNothing(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	pool := p.pool(t)

	c := openFor(t, pool, n.target())
	must(t, pool.Prepare(ctxFor(t), n.target()))
	must(t, pool.Close())

	_, err := pool.Open(ctxFor(t), n.target())
	_, err2 := pool.Conn(ctxFor(t), n.target())

	if !errors.Is(err, ErrClosed) || !errors.Is(err2, ErrClosed) {
		t.Errorf("errors are %v and %v", err, err2)
	}

	if a := c.Apply(ctxFor(t), []byte("x"), nil, "id", soon()); !a.NotSent() {
		t.Errorf("answer is %+v", a)
	}
}

func TestAPreparedConnectionServesOneApply(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	pool := p.pool(t)

	must(t, pool.Prepare(ctxFor(t), n.target()))
	must(t, pool.Prepare(ctxFor(t), n.target()))

	warm := openFor(t, pool, n.target())
	if got := n.accepted.Load(); got != 1 {
		t.Errorf("node was dialled %d times for a prepared connection", got)
	}

	cold := openFor(t, pool, n.target())
	if got := n.accepted.Load(); got != 2 || warm == cold {
		t.Errorf("a prepared connection was given out twice")
	}

	if a := warm.Apply(ctxFor(t), []byte("x"), []string{RoleAdmin}, "id", soon()); !a.Got {
		t.Errorf("answer is %+v", a)
	}
}

func TestAPreparedConnectionIsDroppedWhenItDiesOrIsNotUsed(t *testing.T) {
	p := newPKI(t)
	n := startRaw(t, p, func(n *rawNode) {})
	pool := p.pool(t, func(c *Config) { c.WarmFor = time.Millisecond })

	must(t, pool.Prepare(ctxFor(t), n.target()))

	for {
		pool.mu.Lock()
		left := len(pool.warm) + len(pool.sending)
		pool.mu.Unlock()

		if left == 0 {
			break
		}

		time.Sleep(time.Millisecond) // polling for an end, not for a moment
	}

	dead := p.pool(t)
	must(t, dead.Prepare(ctxFor(t), n.target()))

	key, _ := n.target().key(n.target().Addresses)
	dead.warm[key].conn.abort()

	if c := openFor(t, dead, n.target()); !c.alive() && c.node.wire.closed.Load() {
		t.Error("a dead prepared connection was given out")
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := NewPool(Config{DialTimeout: -1, WarmFor: -1})
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("error is %v", err)
	}
}

func TestAPooledConnectionComesBackWithItsMachine(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	pool := p.pool(t)

	_, err := pool.Observe(ctxFor(t), n.target())
	must(t, err)

	n.grpc.Stop()

	if _, err := pool.Observe(ctxFor(t), n.target()); ClassOf(err) != ClassUnreachable {
		t.Errorf("a machine that is away gave %v", err)
	}

	again := startNodeAt(t, p, n.addr.String(), p.server(t, nil, "127.0.0.1"))

	r := pool.ReadBack(ctxFor(t), again.target(), ReadBackConfig{Want: func([]byte) bool { return true }, Before: Evidence{NodeID: "node-a", ClusterID: "cluster-a"}})
	if !r.Matched {
		t.Errorf("read back %+v", r)
	}
}
