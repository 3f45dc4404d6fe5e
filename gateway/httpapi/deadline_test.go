package httpapi

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
)

// pipes is a network of one listener within a bubble: connections are pipes.
type pipes struct {
	conns chan net.Conn
	shut  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.shut); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// overPipes serves the handler with the deadlines a server has, and gives a client of it.
func overPipes(handler http.Handler) (*http.Client, func()) {
	network := &pipes{conns: make(chan net.Conn), shut: make(chan struct{})}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(network)
	}()
	transport := &http.Transport{DialContext: network.dial}
	return &http.Client{Transport: transport}, func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	}
}

// slowly makes an act take its time, unless its client is taken for gone.
type slowly struct {
	Proposals
	takes time.Duration
}

func (s slowly) ApplyChange(ctx context.Context, by identity.Actor, id control.ChangeID, once *control.Once) (control.Applied, error) {
	select {
	case <-ctx.Done():
		return control.Applied{}, ctx.Err()
	case <-time.After(s.takes):
	}
	return s.Proposals.ApplyChange(ctx, by, id, once)
}

func TestWaitsAndActsOutlastTheServersDeadlines(t *testing.T) {
	send := func(t *testing.T, client *http.Client, method, path string, body any, headers ...string) int {
		r := request(method, "http://door"+path, body, headers...)
		r.RequestURI = ""
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	t.Run("a wait of a minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, end := overPipes(newWorld(t).handler)
			defer end()
			if got := send(t, client, "GET", "/changes", nil, "If-None-Match", "*", "Prefer", "wait=60"); got != http.StatusNotModified {
				t.Errorf("got %d", got)
			}
		})
	})
	t.Run("an act of ten minutes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			cfg := w.config()
			cfg.Proposals = slowly{w.house, 10 * time.Minute}
			client, end := overPipes(must(New(cfg))(t))
			defer end()
			if got := send(t, client, "POST", "/changes/"+chg+"/applications", `{}`); got != http.StatusCreated {
				t.Errorf("got %d: %q", got, w.entries)
			}
		})
	})
	t.Run("control: an answer that comes late without the door is cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, end := overPipes(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Minute) // the bubble's time
				w.WriteHeader(http.StatusNotModified)
			}))
			defer end()
			r := request("GET", "http://door/changes", nil)
			r.RequestURI = ""
			if resp, err := client.Do(r); err == nil {
				_ = resp.Body.Close()
				t.Errorf("got %d: the server's deadline does not bite, so this test shows nothing", resp.StatusCode)
			}
		})
	})
}
