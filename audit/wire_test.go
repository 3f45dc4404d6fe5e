package audit

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// fault is what the wire does to the connections it carries.
type fault int

const (
	none        fault = iota
	dropAnswer        // the server's bytes are lost; once it has committed, the connection breaks
	dropRequest       // the client's next bytes are lost and the connection breaks
	swallow           // the client's bytes are lost, and the server never hears that the client has gone
)

// wire is a socket in front of the database's, with faults on order.
type wire struct {
	server string

	mu   sync.Mutex
	open map[*carried]bool // guarded by mu
	down bool              // guarded by mu: every connection is refused
	wg   sync.WaitGroup
}

type carried struct {
	client, server net.Conn
	fault          fault // guarded by wire.mu
}

// newWire returns the wire and a pool of the gateway's role that goes through it, with one connection that is open.
func newWire(t *testing.T, db database) (*wire, *pgxpool.Pool) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bw-wire-") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &wire{server: shared.Server(t).Socket(), open: map[*carried]bool{}}
	l, err := net.Listen("unix", filepath.Join(dir, filepath.Base(w.server)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		w.setDown(true)
		w.wg.Wait()
	})
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.carry(c)
		}
	})
	cfg, err := pgxpool.ParseConfig(shared.Server(t).DSN(db.name, asGateway))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Host = dir
	cfg.MaxConns = 2 // one may be on its way out
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return w, pool
}

func (w *wire) carry(client net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		client.Close()
		return
	}
	server, err := net.Dial("unix", w.server)
	if err != nil {
		client.Close()
		return
	}
	c := &carried{client: client, server: server}
	w.open[c] = true
	w.wg.Go(func() { w.copy(c, client, server, true) })
	w.wg.Go(func() { w.copy(c, server, client, false) })
}

func (w *wire) copy(c *carried, from, to net.Conn, request bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		f := c.fault
		w.mu.Unlock()
		switch {
		case err != nil && f == swallow && request:
			return // the server's side stays open
		case err != nil, f == dropRequest && request:
			w.cut(c)
			return
		case f == swallow, f == dropAnswer && !request:
			if bytes.Contains(buf[:n], []byte("COMMIT\x00")) {
				w.cut(c)
				return
			}
		default:
			if _, err := to.Write(buf[:n]); err != nil {
				w.cut(c)
				return
			}
		}
	}
}

func (w *wire) cut(c *carried) {
	c.client.Close()
	c.server.Close()
	w.mu.Lock()
	delete(w.open, c)
	w.mu.Unlock()
}

// order sets the fault of the connections that are open now.
func (w *wire) order(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		c.fault = f
	}
}

func (w *wire) setDown(down bool) {
	w.mu.Lock()
	w.down = down
	var all []*carried
	for c := range w.open {
		all = append(all, c)
	}
	w.mu.Unlock()
	if down {
		for _, c := range all {
			w.cut(c)
		}
	}
}

// soon is a bound for tests that wait for it to pass.
const soon = 300 * time.Millisecond
