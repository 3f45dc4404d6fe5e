package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"bronzeward/fixtures/talospki"
)

// held is a source that answers from memory, with a backing that only fetch asks.
type held struct {
	mu      sync.Mutex
	by      map[string]Credential // guarded by mu
	err     error                 // guarded by mu; of every cluster
	fetches atomic.Int64          // calls that would go over a network
}

func (h *held) Credential(_ context.Context, cluster string) (Credential, error) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.err != nil {
		return Credential{}, h.err
	}

	c, ok := h.by[cluster]
	if !ok {
		return Credential{}, &CredentialError{Reason: ReasonNone}
	}

	return c, nil
}

func (h *held) Clusters() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	for cluster := range h.by {
		out = append(out, cluster)
	}

	slices.Sort(out)

	return out
}

// fetch is what a source does by itself, away from every call.
func (h *held) fetch(cluster string, c Credential) {
	h.fetches.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by[cluster] = c
}

func (h *held) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func poolOf(t testing.TB, source CredentialSource) *Pool {
	t.Helper()

	pool, err := NewPool(Config{Credential: source, RetireAfter: time.Millisecond})
	must(t, err)
	t.Cleanup(func() { must(t, pool.Close()) })

	return pool
}

// credentialOf is a fresh credential of a CA.
func credentialOf(t testing.TB, p *pki, version int64) Credential {
	t.Helper()

	c, err := (&pki{ca: p.ca, client: clientOf(t, p.ca, RoleImpersonator)}).Credential(context.Background(), "")
	must(t, err)

	c.Version = version

	return c
}

// shownTo makes a node note the certificate each call came with.
func shownTo(n *node) func() [][]byte {
	var (
		mu    sync.Mutex
		shown [][]byte
	)

	n.lock(func() {
		n.witness = func(ctx context.Context) {
			who, _ := peer.FromContext(ctx)
			info, _ := who.AuthInfo.(credentials.TLSInfo)

			mu.Lock()
			defer mu.Unlock()

			if raw := info.State.PeerCertificates[0].Raw; len(shown) == 0 || !slices.Equal(shown[len(shown)-1], raw) {
				shown = append(shown, raw)
			}
		}
	})

	return func() [][]byte {
		mu.Lock()
		defer mu.Unlock()

		return slices.Clone(shown)
	}
}

func TestANewVersionIsShownFromTheNextCallOnAndNoCallFetches(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	shown := shownTo(n)
	one, two := credentialOf(t, p, 1), credentialOf(t, p, 2)
	source := &held{by: map[string]Credential{"lab": one}}
	pool := poolOf(t, source)
	target := n.target()
	target.Cluster = "lab"

	read := func() {
		t.Helper()

		_, err := pool.Observe(ctxFor(t), target)
		must(t, err)
	}

	open := openFor(t, pool, target)
	read()
	read()
	source.fetch("lab", two)
	must(t, pool.Prepare(ctxFor(t), target))
	source.fetch("lab", credentialOf(t, p, 3))
	read()

	// The one that was opened before goes on with what it began with.
	if a := open.Apply(ctxFor(t), []byte("x"), []string{RoleAdmin}, "id", soon()); !a.Got || open.CredentialVersion() != 1 {
		t.Errorf("answer is %+v over version %d", a, open.CredentialVersion())
	}

	// The one that was prepared with another version is not used.
	if next := openFor(t, pool, target); next.CredentialVersion() != 3 {
		t.Errorf("opened with version %d", next.CredentialVersion())
	}

	three, err := source.Credential(ctxFor(t), "lab")
	must(t, err)

	want := [][]byte{one.Certificate.Certificate[0], three.Certificate.Certificate[0], one.Certificate.Certificate[0]}
	if d := cmp.Diff(want, shown()); d != "" {
		t.Error("the node was shown other certificates")
	}

	if got := source.fetches.Load(); got != 2 {
		t.Errorf("the source's network was asked %d times, by the test twice", got)
	}
}

// The version alone is news too: the same certificate put in again is another credential.
func TestAVersionIsPartOfTheCredential(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	c := credentialOf(t, p, 1)
	source := &held{by: map[string]Credential{"lab": c}}
	pool := poolOf(t, source)
	target := n.target()
	target.Cluster = "lab"

	first, err := pool.Conn(ctxFor(t), target)
	must(t, err)

	c.Version = 2
	source.fetch("lab", c)

	second, err := pool.Conn(ctxFor(t), target)
	must(t, err)

	if third, err := pool.Conn(ctxFor(t), target); err != nil || first == second || second != third {
		t.Errorf("connections are the same: %v, %v; %v", first == second, second == third, err)
	}
}

// stranger accepts TLS and notes which certificate a client shows, whoever signed it.
func stranger(t *testing.T, p *pki) (netip.AddrPort, func() [][]byte) {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)

	var (
		mu    sync.Mutex
		shown [][]byte
		wg    sync.WaitGroup
	)

	cfg := &tls.Config{
		Certificates: []tls.Certificate{p.server(t, nil, "127.0.0.1")}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		ClientAuth: tls.RequestClientCert,
		VerifyConnection: func(s tls.ConnectionState) error {
			mu.Lock()
			defer mu.Unlock()

			for _, c := range s.PeerCertificates {
				shown = append(shown, c.Raw)
			}

			return errors.New("seen enough")
		},
	}

	wg.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}

			wg.Go(func() {
				defer raw.Close()
				_ = tls.Server(raw, cfg).Handshake()
			})
		}
	})

	return netip.MustParseAddrPort(l.Addr().String()), func() [][]byte {
		_ = l.Close()
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()

		return shown
	}
}

func TestAMachineNeverSeesAnotherClustersCredential(t *testing.T) {
	a, b := newPKI(t), newPKI(t)
	ofA, ofB := credentialOf(t, a, 1), credentialOf(t, b, 1)
	pool := poolOf(t, &held{by: map[string]Credential{"a": ofA, "b": ofB}})
	n := startNode(t, a)
	shown := shownTo(n)

	target := n.target()
	target.Machine, target.Cluster = "m", "a"

	_, err := pool.Observe(ctxFor(t), target)
	must(t, err)
	before, err := pool.Conn(ctxFor(t), target)
	must(t, err)

	if got := shown(); len(got) != 1 || !slices.Equal(got[0], ofA.Certificate.Certificate[0]) {
		t.Errorf("the machine was shown %d certificates", len(got))
	}

	// Control: the same machine as one of the other cluster. It cannot prove itself, a
	// connection made for the first is not used, and it is shown nothing.
	calls := len(n.seen())
	target.Cluster = "b"

	_, err = pool.Open(ctxFor(t), target)
	_, err2 := pool.Observe(ctxFor(t), target)

	if ClassOf(err) != ClassUntrusted || err2 == nil {
		t.Errorf("errors are %v and %v", err, err2)
	}

	if after, err := pool.Conn(ctxFor(t), target); err != nil || after == before {
		t.Errorf("the other cluster's connection is used: %v", err)
	}

	if len(n.seen()) != calls {
		t.Error("the machine was called")
	}

	at, seen := stranger(t, a)
	if _, err := pool.Open(ctxFor(t), Target{Cluster: "b", Addresses: []netip.AddrPort{at}}); ClassOf(err) != ClassUntrusted {
		t.Errorf("error is %v", err)
	}

	if got := seen(); len(got) != 0 {
		t.Error("a machine of one cluster was shown the other's certificate")
	}

	// Control of the control: shown to a machine of its own cluster, it is seen.
	at, seen = stranger(t, b)
	if c, err := pool.Open(ctxFor(t), Target{Cluster: "b", Addresses: []netip.AddrPort{at}}); err == nil {
		must(t, c.Close())
	}

	if got := seen(); len(got) != 1 || !slices.Equal(got[0], ofB.Certificate.Certificate[0]) {
		t.Errorf("the stranger saw %d certificates", len(got))
	}
}

// A certificate that was good when it was taken is not shown after its end.
func TestACredentialEndsWhileItIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPKI(t)
		source := &held{by: map[string]Credential{"lab": credentialOf(t, p, 1)}}
		pool := poolOf(t, source)
		leaf := source.by["lab"].Certificate.Leaf

		_, err := pool.credential(ctxFor(t), "lab")
		must(t, err)

		time.Sleep(time.Until(leaf.NotAfter)) // the bubble's time

		_, err = pool.credential(ctxFor(t), "lab")
		must(t, err)

		time.Sleep(time.Second)

		if _, err := pool.credential(ctxFor(t), "lab"); reasonOf(err) != ReasonExpired {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestACredentialThatComesBackIsUsedAgain(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	source := &held{by: map[string]Credential{"lab": credentialOf(t, p, 1)}}
	pool := poolOf(t, source)
	target := n.target()
	target.Cluster = "lab"

	conn := func() (*grpc.ClientConn, error) { return pool.Conn(ctxFor(t), target) }

	first, err := conn()
	must(t, err)
	source.fails(errors.New("too old"))

	if _, err := conn(); ClassOf(err) != ClassCredential {
		t.Errorf("a credential nobody trusts gave %v", err)
	}

	source.fails(nil)

	if again, err := conn(); err != nil || again != first {
		t.Errorf("the connection is another: %v", err)
	}
}

func TestHowTheCredentialsStandIsTold(t *testing.T) {
	p := newPKI(t)
	begins := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	lived := func(version int64, life time.Duration) Credential {
		cert, err := pairWith(t, p.ca, talospki.ClientSpec{Roles: []string{RoleImpersonator}, NotBefore: begins, NotAfter: begins.Add(life)}).TLS()
		must(t, err)
		c := credentialOf(t, p, version)
		c.Certificate = cert

		return c
	}

	states := poolOf(t, &held{by: map[string]Credential{"c": lived(3, 30*time.Minute), "a": lived(1, 3*time.Hour)}}).
		Credentials(ctxFor(t), "b", "a")

	type told struct {
		Cluster string
		Version int64
		Ends    time.Time
		Reason  string
	}

	var got []told
	for _, s := range states {
		got = append(got, told{s.Cluster, s.Version, s.Ends, reasonOf(s.Err)})
	}

	want := []told{{"a", 1, begins.Add(3 * time.Hour), ""}, {"b", 0, time.Time{}, ReasonNone}, {"c", 3, time.Time{}, ReasonExpired}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	for at, near := range map[time.Duration]bool{0: false, 2 * time.Hour: false, 2*time.Hour + time.Second: true, 4 * time.Hour: true} {
		if got := states[0].NearEnd(begins.Add(at)); got != near {
			t.Errorf("after %s of 3 h: near its end is %v", at, got)
		}
	}

	if states[1].NearEnd(time.Now()) {
		t.Error("one that is not there is near its end")
	}

	if any := p.pool(t).Credentials(ctxFor(t), "lab"); len(any) != 1 || any[0].Cluster != "" || any[0].Err != nil {
		t.Errorf("a credential for any cluster stands as %+v", any)
	}
}
