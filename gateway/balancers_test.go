package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// balanced is a listener behind balancers, its accepted connections and what it told.
type balanced struct {
	*balancers
	accepted chan net.Conn
	told     chan headerResult
}

// listenBehind listens for the balancer 127.0.0.1; change may alter the listener before it is used.
func listenBehind(t testing.TB, change func(*balancers)) *balanced {
	t.Helper()
	b := &balanced{accepted: make(chan net.Conn), told: make(chan headerResult, 4*unreadPerBalancer)}
	lb := netip.MustParseAddr("127.0.0.1")
	b.balancers = newBalancers(must(net.Listen("tcp", "127.0.0.1:0"))(t), func(a netip.Addr) bool { return a == lb },
		func(_ netip.Addr, r headerResult) { b.told <- r })
	if change != nil {
		change(b.balancers)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		defer close(b.accepted)
		for {
			c, err := b.Accept()
			if err != nil {
				return
			}
			b.accepted <- c
		}
	})
	t.Cleanup(func() {
		_ = b.Close()
		go func() {
			for c := range b.accepted {
				_ = c.Close()
			}
		}()
		accepting.Wait()
	})
	return b
}

// from dials from one loopback address.
func (b *balanced) from(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := must(d.DialContext(t.Context(), "tcp", b.Addr().String()))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// closedByOther waits until the other end has closed a connection.
func closedByOther(t testing.TB, c net.Conn) {
	t.Helper()
	ok(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is not closed: %d bytes, %v", n, err)
	}
}

func TestAListedSourceNamesItsClientAndNobodyElseDoes(t *testing.T) {
	t.Parallel()
	b := listenBehind(t, nil)
	forged := append(header(t, "198.51.100.7:4711"), "hello"...)

	c := b.from(t, "127.0.0.1")
	must(c.Write(forged))(t)
	ok(t, c.CloseWrite())
	got := <-b.accepted
	if got.RemoteAddr().String() != "198.51.100.7:4711" || <-b.told != headerTaken {
		t.Errorf("the client is %s", got.RemoteAddr())
	}
	if rest := must(io.ReadAll(got))(t); string(rest) != "hello" {
		t.Errorf("after the header come %q", rest)
	}

	// A health check is the balancer itself.
	c = b.from(t, "127.0.0.1")
	must(c.Write(localHeader))(t)
	if got = <-b.accepted; got.RemoteAddr().String() != c.LocalAddr().String() || <-b.told != headerLocal {
		t.Errorf("a health check comes from %s", got.RemoteAddr())
	}

	// Another source keeps its address, and its header is just bytes.
	c = b.from(t, "127.0.0.2")
	must(c.Write(forged))(t)
	ok(t, c.CloseWrite())
	if got = <-b.accepted; got.RemoteAddr().String() != c.LocalAddr().String() {
		t.Errorf("a source that is not listed comes from %s", got.RemoteAddr())
	}
	if rest := must(io.ReadAll(got))(t); !bytes.Equal(rest, forged) {
		t.Errorf("its bytes are %q", rest)
	}

	// The control: with everybody listed, the forged address is believed.
	open := listenBehind(t, func(l *balancers) { l.listed = func(netip.Addr) bool { return true } })
	c = open.from(t, "127.0.0.2")
	must(c.Write(forged))(t)
	if got = <-open.accepted; got.RemoteAddr().String() != "198.51.100.7:4711" {
		t.Errorf("without the check the client is %s: the check is not what keeps a forged address out", got.RemoteAddr())
	}
}

func TestAListedSourceWithoutAGoodHeaderIsClosed(t *testing.T) {
	t.Parallel()
	good := header(t, "198.51.100.7:4711")
	for _, row := range []struct {
		name   string
		bytes  []byte
		end    bool
		within time.Duration
		result headerResult
	}{
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on"), false, headerWithin, headerMissing},
		{"nothing", nil, true, headerWithin, headerMissing},
		{"version 1", []byte("PROXY TCP4 198.51.100.7 192.0.2.1 4711 50000\r\n"), false, headerWithin, headerVersion1},
		{"malformed", edited(good, 13, 0x12), false, headerWithin, headerMalformed},
		{"half", good[:20], true, headerWithin, headerMalformed},
		{"nothing in time", nil, false, time.Millisecond, headerLate},
		{"half in time", good[:20], false, 50 * time.Millisecond, headerLate},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := listenBehind(t, func(l *balancers) { l.within = row.within })
			c := b.from(t, "127.0.0.1")
			must(c.Write(row.bytes))(t)
			if row.end {
				ok(t, c.CloseWrite())
			}
			closedByOther(t, c)
			if r := <-b.told; r != row.result {
				t.Errorf("it is %q, want %q", r, row.result)
			}
			ok(t, b.Close())
			if got := <-b.accepted; got != nil {
				t.Errorf("a connection from %s was accepted", got.RemoteAddr())
			}
		})
	}
}

// Connections that wait for their header are bounded, hold up nobody, give their place back,
// and end with the listener.
func TestUnreadHeadersAreBoundedAndHoldUpNobody(t *testing.T) {
	t.Parallel()
	b := listenBehind(t, func(l *balancers) { l.within, l.most = time.Hour, 3 })
	var silent []*net.TCPConn
	for range 3 {
		silent = append(silent, b.from(t, "127.0.0.1"))
	}
	eventually(t, "three unread headers", func() bool { return b.waiting() == 3 })
	closedByOther(t, b.from(t, "127.0.0.1"))
	if r := <-b.told; r != headerTooMany {
		t.Errorf("the fourth is %q", r)
	}
	b.from(t, "127.0.0.2")
	if got := <-b.accepted; got == nil {
		t.Fatal("nobody else is let in")
	}
	ok(t, silent[0].Close())
	if r := <-b.told; r != headerMissing {
		t.Errorf("the one that gave up is %q", r)
	}
	c := b.from(t, "127.0.0.1")
	must(c.Write(header(t, "198.51.100.7:4711")))(t)
	if got := <-b.accepted; got == nil || got.RemoteAddr().String() != "198.51.100.7:4711" {
		t.Error("the place was not given back")
	}
	ok(t, b.Close())
	for _, c := range silent[1:] {
		closedByOther(t, c)
	}
	if n := b.waiting(); n != 0 {
		t.Errorf("%d headers are still read", n)
	}
	if _, err := b.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener says %v", err)
	}
}

func (l *balancers) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.unread)
}

// The limit of an address is the client's: a balancer may hold as many connections as it has
// clients for, and one client no more than anybody.
func TestTheConnectionLimitCountsClientsNotTheBalancer(t *testing.T) {
	t.Parallel()
	b := listenBehind(t, nil)
	var refused sync.WaitGroup
	refused.Add(1)
	l := limitConnections(&handed{b}, 2, refused.Done)
	for i, row := range []struct {
		client string
		taken  bool
	}{
		{"198.51.100.1:1", true},
		{"198.51.100.1:2", true},
		{"198.51.100.1:3", false},
		{"198.51.100.2:1", true},
		{"198.51.100.2:2", true},
		{"198.51.100.3:1", true},
	} {
		c := b.from(t, "127.0.0.1")
		must(c.Write(header(t, row.client)))(t)
		if !row.taken {
			continue // Accept closes it on its way to the next
		}
		if got := must(l.Accept())(t); got.RemoteAddr().String() != row.client {
			t.Errorf("connection %d comes from %s", i, got.RemoteAddr())
		}
	}
	refused.Wait()
	if diff := len(l.open); diff != 3 {
		t.Errorf("places are held for %v", l.open)
	}
}

// handed gives what listenBehind's own loop accepted.
type handed struct{ *balanced }

func (h *handed) Accept() (net.Conn, error) {
	c, open := <-h.accepted
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

// FuzzBehindABalancer sends foreign bytes over real connections. From a listed source they
// are a header and the rest, or the end; from any other they arrive as they are, and the
// address is its own.
func FuzzBehindABalancer(f *testing.F) {
	f.Add(append(header(f, "198.51.100.7:4711"), "hello"...), true)
	f.Add(append(header(f, "198.51.100.7:4711"), "hello"...), false)
	f.Add([]byte("PROXY TCP4 198.51.100.7 192.0.2.1 4711 50000\r\n"), true)
	f.Add(localHeader, true)
	b := listenBehind(f, nil)
	f.Fuzz(func(t *testing.T, in []byte, listed bool) {
		source := "127.0.0.2"
		if listed {
			source = "127.0.0.1"
		}
		c := b.from(t, source)
		_, _ = c.Write(in) // it may be closed before all is sent
		_ = c.CloseWrite()
		if listed && !(<-b.told).good() {
			return
		}
		got := <-b.accepted
		defer got.Close()
		rest, err := io.ReadAll(got)
		if err != nil || !bytes.HasSuffix(in, rest) {
			t.Fatalf("of %x comes %x (%v)", in, rest, err)
		}
		if own := got.RemoteAddr().String() == c.LocalAddr().String(); !listed && (!own || len(rest) != len(in)) {
			t.Fatalf("a source that is not listed is %s after %d of %d bytes", got.RemoteAddr(), len(rest), len(in))
		}
	})
}
