package control

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bronzeward/fixtures/faults"
)

// What the proxy does with the next COMMIT.
const (
	passOn      int32 = iota
	cutRequest        // the server never sees it
	cutReply          // the server commits; the client gets no answer
	cutAndClose       // as cutReply, and nobody gets through afterwards
)

// proxy stands between a store and the server's socket.
type proxy struct {
	dir  string
	next atomic.Int32
	shut atomic.Bool
	// commits counts those seen.
	commits atomic.Int32
}

// newProxy listens on a socket in a folder of its own, where clients look for port.
func newProxy(t *testing.T) (*proxy, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bwp")
	if err != nil {
		t.Fatal(err)
	}
	port := shared17.Server(t).Port()
	listener, err := net.Listen("unix", filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", port)))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{dir: dir}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(client, shared17.Server(t).Socket()) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wg.Wait()
		os.RemoveAll(dir)
	})
	return p, fmt.Sprintf("host=%s port=%d user=%s", dir, port, asGateway)
}

func (p *proxy) serve(client net.Conn, socket string) {
	defer client.Close()
	if p.shut.Load() {
		return
	}
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	var mute atomic.Bool
	answered := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if mute.Load() {
				close(answered)
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	defer func() { server.Close(); <-done }()
	for first := true; ; first = false {
		message, err := faults.ReadMessage(client, first)
		if err != nil {
			return
		}
		if !first && message[0] == 'Q' && strings.HasPrefix(strings.ToLower(string(message[5:])), "commit") {
			p.commits.Add(1)
			switch how := p.next.Swap(passOn); how {
			case cutRequest:
				return
			case cutReply, cutAndClose:
				p.shut.Store(how == cutAndClose)
				mute.Store(true)
				if _, err := server.Write(message); err == nil {
					<-answered
				}
				return
			}
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}
