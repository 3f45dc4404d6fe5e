package gateway

import (
	"bufio"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// headerWithin is how long a balancer may take for its header. It sends it in its first
	// segment, before anything of the client's; five seconds let a lost one be sent again twice.
	headerWithin = 5 * time.Second
	// unreadPerBalancer is how many connections of one balancer may be without their header at
	// once. A header comes within a round trip, so this is two hundred new connections a second
	// of a balancer that sends none, and 4 MiB.
	unreadPerBalancer = 1024
)

// balancers is a listener that takes the client's address from the PROXY protocol header of
// listed sources, and from nobody else. It stands below the limit of connections, so that
// this counts clients.
//
// From a listed source the header is required, of version 2: without a good one the connection
// is closed. From any other source nothing is read: the bytes go on to TLS as they are, and a
// header among them ends the handshake. So an address can be named by a listed source alone.
//
// Each header is read on a goroutine of its own: a slow one holds up nobody. Close ends them.
type balancers struct {
	net.Listener
	listed func(netip.Addr) bool
	within time.Duration
	most   int
	// told hears of every header, whatever became of it.
	told func(from netip.Addr, result headerResult)

	next  chan arrival
	gone  chan struct{}
	begin sync.Once
	work  sync.WaitGroup

	mu      sync.Mutex // guards closed, unread and eachHas
	closed  bool
	unread  map[net.Conn]struct{}
	eachHas map[netip.Addr]int
}

// arrival is what Accept gives.
type arrival struct {
	conn net.Conn
	err  error
}

func newBalancers(l net.Listener, listed func(netip.Addr) bool, told func(netip.Addr, headerResult)) *balancers {
	return &balancers{
		Listener: l, listed: listed, within: headerWithin, most: unreadPerBalancer, told: told,
		next: make(chan arrival), gone: make(chan struct{}),
		unread: map[net.Conn]struct{}{}, eachHas: map[netip.Addr]int{},
	}
}

// Accept waits for a connection whose client's address is known.
func (l *balancers) Accept() (net.Conn, error) {
	l.begin.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			l.work.Go(l.take)
		}
	})
	select {
	case a := <-l.next:
		return a.conn, a.err
	case <-l.gone:
		return nil, net.ErrClosed
	}
}

// take accepts connections until Close; an error goes to whoever calls Accept, who knows
// whether to go on.
func (l *balancers) take() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			select {
			case l.next <- arrival{err: err}:
				continue
			case <-l.gone:
				return
			}
		}
		from := sourceOf(conn)
		if !l.listed(from) {
			l.hand(conn)
			continue
		}
		if !l.enter(conn, from) {
			_ = conn.Close()
			l.told(from, headerTooMany)
		}
	}
}

// enter begins to read a header, if the balancer has not too many unread.
func (l *balancers) enter(conn net.Conn, from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.eachHas[from] >= l.most {
		return false
	}
	l.eachHas[from]++
	l.unread[conn] = struct{}{}
	l.work.Go(func() { l.read(conn, from) })
	return true
}

// leave gives the place of an unread header back.
func (l *balancers) leave(conn net.Conn, from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unread, conn)
	if l.eachHas[from]--; l.eachHas[from] == 0 {
		delete(l.eachHas, from)
	}
}

// read takes the header off a connection and hands it over, or closes it.
func (l *balancers) read(conn net.Conn, from netip.Addr) {
	one, result := l.header(conn)
	l.leave(conn, from)
	l.told(from, result)
	if one == nil {
		_ = conn.Close()
		return
	}
	l.hand(one)
}

// header is the connection after its header; nil when that is not good.
func (l *balancers) header(conn net.Conn) (net.Conn, headerResult) {
	if err := conn.SetReadDeadline(time.Now().Add(l.within)); err != nil {
		return nil, headerMissing
	}
	r := bufio.NewReaderSize(conn, maxHeader)
	client, result := readHeader(r)
	if !result.good() {
		return nil, result
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, headerMissing
	}
	// What came with the header is the beginning of the client's own bytes.
	rest, _ := r.Peek(r.Buffered())
	return &balancedConn{Conn: conn, client: client, rest: append([]byte(nil), rest...)}, result
}

// hand gives a connection to Accept, or closes it when nobody will call that again.
func (l *balancers) hand(conn net.Conn) {
	select {
	case l.next <- arrival{conn: conn}:
	case <-l.gone:
		_ = conn.Close()
	}
}

// Close ends the listener and every connection whose header is not read; it waits for the
// goroutines of both.
func (l *balancers) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	open := make([]net.Conn, 0, len(l.unread))
	for conn := range l.unread {
		open = append(open, conn)
	}
	l.mu.Unlock()
	if first {
		close(l.gone)
	}
	err := l.Listener.Close()
	for _, conn := range open {
		_ = conn.Close()
	}
	l.work.Wait()
	return err
}

// balancedConn is a connection whose header is read. Read is for one goroutine at a time, as
// TLS calls it.
type balancedConn struct {
	net.Conn
	// client is who the header names; nil after LOCAL: then the balancer itself is the client.
	client net.Addr
	rest   []byte
}

// Read gives the bytes after the header.
func (c *balancedConn) Read(b []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(b, c.rest)
		if c.rest = c.rest[n:]; len(c.rest) == 0 {
			c.rest = nil
		}
		return n, nil
	}
	return c.Conn.Read(b)
}

// RemoteAddr is the client's address.
func (c *balancedConn) RemoteAddr() net.Addr {
	if c.client != nil {
		return c.client
	}
	return c.Conn.RemoteAddr()
}

// sourceOf is the other end of the socket, not a valid address when it has none.
func sourceOf(conn net.Conn) netip.Addr {
	a, err := netip.ParseAddr(addressOf(conn.RemoteAddr()))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}
