package vault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bronzeward/fixtures/openbao/baotest"
)

// trap is a server that nothing may come to; it counts what does.
func trap(t testing.TB) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		_, _ = io.WriteString(w, `{"data": {}}`)
	}))
	t.Cleanup(s.Close)
	return s, &n
}

// Whoever sets the process's environment decides nothing.
func TestTheEnvironmentIsNotRead(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	s, n := trap(t)
	for _, prefix := range []string{"BAO_", "VAULT_"} {
		for name, value := range map[string]string{
			"ADDR": s.URL, "AGENT_ADDR": s.URL, "TOKEN": "canary", "NAMESPACE": "nowhere", "PROXY_ADDR": s.URL, "HTTP_PROXY": s.URL,
			"SKIP_VERIFY": "true", "CACERT": "/nowhere", "CAPATH": "/nowhere", "CLIENT_CERT": "/nowhere", "CLIENT_KEY": "/nowhere",
			"TLS_SERVER_NAME": "nowhere.example", "WRAP_TTL": "60s", "CLIENT_TIMEOUT": "1ns", "MAX_RETRIES": "0", "RATE_LIMIT": "0.0001:1", "SRV_LOOKUP": "true",
		} {
			t.Setenv(prefix+name, value)
		}
	}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy"} {
		t.Setenv(name, s.URL)
	}
	c := h.gateway(t)
	sealer := NewSealer(c)
	opens(t, sealer, sealWith(t, sealer, []byte("text")), []byte("text"))
	if _, err := CheckAccess(t.Context(), c); err != nil {
		t.Error(err)
	}
	if n.Load() != 0 {
		t.Errorf("%d requests went where the environment says", n.Load())
	}
	// A proxy is never used for loopback addresses anyhow, so it is looked at itself.
	limits, ok := c.api.CloneConfig().HttpClient.Transport.(limited)
	if !ok || limits.next.(*http.Transport).Proxy != nil {
		t.Error("the environment's proxy would be used")
	}
	// Nor does it make a server good that has another certificate.
	other, _, _ := pair(t, 1)
	cfg := h.config(t, *h.setup.AppRole)
	cas, err := ParseCertificates(other)
	if err != nil {
		t.Fatal(err)
	}
	cfg.CA = cas
	_, err = Open(t.Context(), cfg)
	wantError(t, err, ErrUnavailable, KindUnreachable, "", "see openbao.ca")
	cfg.CA = nil // the system's
	_, err = Open(t.Context(), cfg)
	wantError(t, err, ErrUnavailable, KindUnreachable, "", "see openbao.ca")
}

// A redirect is not followed: the token goes nowhere else.
func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere, n := trap(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		var came atomic.Int64
		first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			came.Add(1)
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
		}))
		c, err := OpenWithToken(Config{Address: first.URL}, "canary-token", "")
		if err != nil {
			t.Fatal(err)
		}
		_, read := c.read(t.Context(), "reading", "some/path")
		_, written := c.write(t.Context(), "writing", "some/path", map[string]any{"a": "b"})
		for _, err := range []error{read, written} {
			wantError(t, err, ErrUnavailable, KindFailing, "", fmt.Sprintf("elsewhere (status %d)", status))
			nothingOf(t, []string{"canary-token"}, err)
		}
		if came.Load() == 0 {
			t.Error("nothing was asked")
		}
		c.Close()
		first.Close()
	}
	if n.Load() != 0 {
		t.Errorf("%d requests went elsewhere", n.Load())
	}
}

func TestAddressesThatATokenIsNotSentTo(t *testing.T) {
	for _, good := range []string{"https://bao.example:8200", "https://bao.example", "https://[2001:db8::1]:8200/", "http://127.0.0.1:8200", "http://[::1]:8200", "http://localhost:8200"} {
		if err := CheckAddress(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "bao.example:8200", "http://bao.example:8200", "http://10.0.0.1:8200", "http://127.0.0.1.example", "http://localhost.example", "http://0.0.0.0:8200",
		"https://", "https://:8200", "https://user:pass@bao.example", "https://bao.example/v1", "https://bao.example?x=y", "ftp://127.0.0.1", "unix:///run/bao.sock", "://",
		"http://127.0.0.1@bao.example",
	} {
		if err := CheckAddress(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
		if c, err := OpenWithToken(Config{Address: bad}, "token", ""); err == nil || c != nil {
			t.Errorf("%q is asked", bad)
		}
	}
	for _, mount := range []string{"a b", "../sys", "a//b", "a/", `a"`, "a*", "+"} {
		if _, err := OpenWithToken(Config{Address: "https://bao.example", KVMount: mount}, "token", ""); err == nil {
			t.Errorf("mount %q is taken", mount)
		}
	}
}

// What answers and is no OpenBao, or says more than it may, is named and never taken for an answer.
func TestForeignAnswersAreNamed(t *testing.T) {
	list := func(size int) string {
		return `{"data": {"keys": ["` + strings.Repeat("k", size) + `"]}}`
	}
	for name, test := range map[string]struct {
		status int
		body   string
		class  error
		kind   Kind
		words  string
	}{
		"longer than it may":      {200, list(mostAnswer), ErrUnavailable, KindFailing, "longer than"},
		"an error that long":      {400, list(mostAnswer), ErrUnavailable, KindFailing, "longer than"},
		"a web page":              {200, "<html>canary</html>", ErrUnavailable, KindFailing, "none of OpenBao's"},
		"a cut answer":            {200, `{"data": {"keys": ["a`, ErrUnavailable, KindFailing, "none of OpenBao's"},
		"no list":                 {200, `{"data": {"keys": "canary"}}`, ErrRefused, KindMalformed, "another shape"},
		"a gateway's error page":  {502, "<html>canary</html>", ErrUnavailable, KindFailing, "status 502"},
		"unavailable, not sealed": {503, `{"errors": ["canary"]}`, ErrUnavailable, KindFailing, "status 503"},
		"sealed":                  {503, `{"errors": ["Vault is sealed"]}`, ErrUnavailable, KindSealed, "sealed"},
		"too many requests":       {429, `{"errors": ["request path \"canary\": rate limit quota exceeded"]}`, ErrUnavailable, KindFailing, "status 429"},
		"nothing is allowed":      {403, `{"errors": ["permission denied: canary"]}`, ErrRefused, KindForbidden, "does not know your token"},
		"not understood":          {400, `{"errors": ["canary"]}`, ErrRefused, KindMalformed, "status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			defer s.Close()
			c, err := OpenWithToken(Config{Address: s.URL}, "token", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			names, err := c.list(t.Context(), "listing", PathTalos)
			if names != nil {
				t.Errorf("got %d names", len(names))
			}
			wantError(t, err, test.class, test.kind, "", test.words)
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("it quotes the answer: %v", err)
			}
		})
	}
	// The control: an answer just below the limit is taken.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list(mostAnswer-100)) }))
	defer s.Close()
	c, err := OpenWithToken(Config{Address: s.URL}, "token", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if names, err := c.list(t.Context(), "listing", PathTalos); err != nil || len(names) != 1 {
		t.Errorf("got %d names, %v", len(names), err)
	}
}

const upgradingWords = `{"errors": ["Upgrading from non-versioned to versioned data. This backend will be unavailable for a brief period and will resume service shortly."]}`

// A question is asked again where that is of use: so often, and no more.
func TestQuestionsAreAskedAgain(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	for name, test := range map[string]struct {
		spoil func(*proxy, string)
		asked int
		kind  Kind // empty: answered
	}{
		"nothing":                 {func(*proxy, string) {}, 1, ""},
		"502 twice":               {func(p *proxy, path string) { p.fail(path, 2, 502, "") }, 3, ""},
		"503 twice":               {func(p *proxy, path string) { p.fail(path, 2, 503, `{"errors": ["busy"]}`) }, 3, ""},
		"reset twice":             {func(p *proxy, path string) { p.reset(path, 2) }, 3, ""},
		"502 always":              {func(p *proxy, path string) { p.fail(path, -1, 502, "") }, 3, KindFailing},
		"reset always":            {func(p *proxy, path string) { p.reset(path, -1) }, 3, KindUnreachable},
		"still upgrading, thrice": {func(p *proxy, path string) { p.fail(path, 3, 400, upgradingWords) }, 4, ""},
		"another 400":             {func(p *proxy, path string) { p.fail(path, 1, 400, `{"errors": ["no"]}`) }, 1, KindMalformed},
		"403":                     {func(p *proxy, path string) { p.fail(path, 1, 403, `{"errors": ["permission denied"]}`) }, 1, KindForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, h)
			c := p.gateway(t)
			path := h.kv + "/data/" + PathCA
			test.spoil(p, path)
			err := NewAuthority(c, nil).Refresh(t.Context())
			if kindOf(err) != test.kind || (err == nil) != (test.kind == "") {
				t.Errorf("got %v", err)
			}
			// The transport itself asks once more when a connection that was used before breaks.
			if n := p.passed(path); n != test.asked && (n != test.asked+1 || !strings.HasPrefix(name, "reset")) {
				t.Errorf("asked %d times, want %d", n, test.asked)
			}
		})
	}
}

// All tries together are inside the one timeout, and inside the caller's.
func TestOneTimeoutBoundsAllTries(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	p := newProxy(t, h)
	cfg := p.config(t)
	cfg.Timeout = 700 * time.Millisecond
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	path := h.kv + "/data/" + PathCA
	p.fail(path, -1, 400, upgradingWords)
	began := time.Now()
	err = NewAuthority(c, nil).Refresh(t.Context())
	wantError(t, err, ErrUnavailable, KindFailing, "", "turning its KV engine")
	if took := time.Since(began); took > 10*cfg.Timeout { // the margin is the test's
		t.Errorf("it took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.add(rule{path, "", -1, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		cancel()
		<-r.Context().Done()
	}})
	err = NewAuthority(c, nil).Refresh(ctx)
	wantError(t, err, ErrUnavailable, KindGone, "", "is gone")
	ended, cancelled := context.WithDeadline(t.Context(), time.Now())
	defer cancelled()
	wantError(t, NewAuthority(c, nil).Refresh(ended), ErrUnavailable, KindSlow, "", "")
}

// Every question names the namespace, the login included; and it works in a real one.
func TestANamespaceIsNamedInEveryQuestion(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	namespace := "ns-" + h.kv
	h.root(t, "POST", "sys/namespaces/"+namespace, nil)
	t.Cleanup(func() { h.root(t, "DELETE", "sys/namespaces/"+namespace, nil) })
	p := newProxy(t, h)
	cfg := p.config(t)
	cfg.Namespace, cfg.KVMount, cfg.TransitMount = namespace, "kv", "keys/transit"
	dir := t.TempDir()
	inside := *h
	inside.setup.AppRole = &AppRole{RoleIDFile: filepath.Join(dir, "role"), SecretIDFile: filepath.Join(dir, "secret")}
	var err error
	if inside.operator, err = OpenWithToken(cfg, h.RootToken(), ""); err != nil {
		t.Fatal(err)
	}
	defer inside.operator.Close()
	inside.run(t)
	cfg.Auth = *inside.setup.AppRole
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSealer(c)
	opens(t, s, sealWith(t, s, []byte("text")), []byte("text"))
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) < 20 {
		t.Errorf("only %d requests passed", len(p.seen))
	}
	for _, r := range p.seen {
		if got := r.Header.Values("X-Vault-Namespace"); len(got) != 1 || strings.Trim(got[0], "/") != namespace {
			t.Errorf("%s %s: %q", r.Method, r.URL.Path, got)
		}
	}
	// The control: the root's own mounts are untouched by it.
	if bytes.Contains([]byte(fmt.Sprint(h.root(t, "GET", "sys/mounts", nil))), []byte("keys/transit")) {
		t.Error("it was set up in the root's namespace")
	}
}
