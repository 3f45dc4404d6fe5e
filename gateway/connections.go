package gateway

import (
	"net"
	"net/netip"
	"sync"
)

// limitedListener closes connections of an address that holds too many already: TLS and
// HTTP/2 cost memory before anybody is known, so before any other limit can count.
type limitedListener struct {
	net.Listener
	limit   int
	refused func()

	mu   sync.Mutex // guards open
	open map[string]int
}

func limitConnections(l net.Listener, limit int, refused func()) *limitedListener {
	return &limitedListener{Listener: l, limit: limit, refused: refused, open: map[string]int{}}
}

// Accept waits for a connection that is within its address's limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key := addressKey(addressOf(conn.RemoteAddr()))
		if l.enter(key) {
			return &limitedConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(key) })}, nil
		}
		l.refused()
		_ = conn.Close() // a stranger's; nobody is told more
	}
}

func (l *limitedListener) enter(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] >= l.limit {
		return false
	}
	l.open[key]++
	return true
}

func (l *limitedListener) leave(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key]--; l.open[key] == 0 {
		delete(l.open, key)
	}
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close gives the place back, once.
func (c *limitedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// addressKey is what limits count by: an IPv4 address, or the /64 of an IPv6 one, which
// is the least that somebody is given.
func addressKey(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}
