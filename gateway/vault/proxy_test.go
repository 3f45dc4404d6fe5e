package vault

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// proxy stands in front of a real server and spoils some of what passes.
type proxy struct {
	h *house
	*httptest.Server
	forward *httputil.ReverseProxy

	mu    sync.Mutex // guards what follows
	rules []*rule
	seen  []*http.Request
}

// rule spoils the next n requests that fit; n below 0: all of them.
type rule struct {
	prefix, method string
	n              int
	do             func(http.ResponseWriter, *http.Request, http.Handler)
}

func newProxy(t testing.TB, h *house) *proxy {
	t.Helper()
	target, err := url.Parse(h.Address())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(h.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	p := &proxy{h: h, forward: &httputil.ReverseProxy{
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0),
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() { p.Server.Close(); transport.CloseIdleConnections() })
	return p
}

// ServeHTTP spoils what a rule says, and forwards the rest.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.seen = append(p.seen, r.Clone(r.Context()))
	var fits *rule
	for _, one := range p.rules {
		if one.n != 0 && strings.HasPrefix(r.URL.Path, "/v1/"+one.prefix) && (one.method == "" || one.method == r.Method) {
			fits = one
			one.n--
			break
		}
	}
	p.mu.Unlock()
	if fits != nil {
		fits.do(w, r, p.forward)
		return
	}
	p.forward.ServeHTTP(w, r)
}

func (p *proxy) add(one rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append([]*rule{&one}, p.rules...)
}

// left is how many requests are still to be spoiled.
func (p *proxy) left() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.rules {
		n += max(one.n, 0)
	}
	return n
}

// passed counts requests whose path begins so.
func (p *proxy) passed(prefix string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		if strings.HasPrefix(r.URL.Path, "/v1/"+prefix) {
			n++
		}
	}
	return n
}

// answer gives this answer to every request, and asks OpenBao nothing.
func (p *proxy) answer(prefix string, status int, body string) {
	p.add(rule{prefix, "", -1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}})
}

// fail answers the next n requests so.
func (p *proxy) fail(prefix string, n, status int, body string) {
	p.add(rule{prefix, "", n, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}})
}

// reset breaks the connections of the next n requests.
func (p *proxy) reset(prefix string, n int) {
	p.add(rule{prefix, "", n, func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }})
}

// lose has OpenBao do what the next n requests ask, and breaks the connection instead of its answer.
func (p *proxy) lose(prefix, method string, n int) {
	p.add(rule{prefix, method, n, func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}})
}

// between does something before the next request is forwarded.
func (p *proxy) between(prefix, method string, f func()) {
	p.add(rule{prefix, method, 1, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		f()
		next.ServeHTTP(w, r)
	}})
}

func (p *proxy) config(t testing.TB) Config {
	t.Helper()
	cfg := p.h.config(t, *p.h.setup.AppRole)
	cfg.Address, cfg.CA = p.URL, nil
	return cfg
}

// gateway is a client with the gateway's login, through the proxy.
func (p *proxy) gateway(t testing.TB) *Client {
	t.Helper()
	c, err := Open(t.Context(), p.config(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
