package notify

import (
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"bronzeward/gateway/control"
)

// What a try that gets no answer says, and that it quotes neither the address nor the receiver.
func TestWhyNoAnswerCame(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	defer encrypted.Close()
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	speaking := func(words string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, words)
				conn.Close()
			}
		}()
		return "http://" + l.Addr().String()
	}
	for name, test := range map[string]struct{ url, want string }{
		"nobody listens":          {nobody.URL, "connection refused"},
		"plain instead of TLS":    {strings.Replace(plain.URL, "http:", "https:", 1), "one side speaks TLS"},
		"a strange certificate":   {encrypted.URL, "certificate"},
		"it hangs up":             {speaking(""), "closed before an answer"},
		"it does not speak HTTP":  {speaking("canary of the receiver\r\n\r\n"), "not readable as HTTP"},
		"its header has no end":   {speaking("HTTP/1.1 200 OK\r\nCanary: " + strings.Repeat("canary", 1<<14)), "not readable as HTTP"},
		"its header is malformed": {speaking("HTTP/1.1 200 OK\r\ncanary canary\r\n\r\n"), "not readable as HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, &answering{}, func(c *Config) { c.URL = test.url + "/hook-canary?token=canary" })
			r.sendDue(t)
			r.wantState(t, control.NoticeWaiting, test.want)
			if text := r.outbox.only(t).Error + r.logs.String(); strings.Contains(strings.ToLower(text), "canary") {
				t.Errorf("it quotes what it may not: %s", text)
			}
		})
	}
}

// Control: the client's own error names the whole address.
func TestControlTheClientsErrorNamesTheAddress(t *testing.T) {
	_, err := http.Post("http://127.0.0.1:1/hook-canary", "", nil)
	if err == nil || !strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v: the test above proves nothing", err)
	}
}

func TestTheReceiversCertificateIsCheckedAgainstTheConfiguredRoots(t *testing.T) {
	server := httptest.NewTLSServer(&answering{status: 200})
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	r := newRoom(t, &answering{}, func(c *Config) { c.URL, c.RootCAs = server.URL, roots })
	r.sendDue(t)
	r.wantState(t, control.NoticeSent, "")
}

// The environment's proxy is not used; a configured one is.
func TestProxies(t *testing.T) {
	r := newRoom(t, &answering{status: 200}, nil)
	if r.client.Transport.(*http.Transport).Proxy != nil {
		t.Error("without configuration there is a proxy")
	}
	proxied := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proxied <- r.URL.String() }))
	defer proxy.Close()
	through, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	r = newRoom(t, &answering{}, func(c *Config) { c.URL, c.AllowHTTP, c.Proxy = "http://receiver.invalid/hook", true, through })
	r.sendDue(t)
	r.wantState(t, control.NoticeSent, "")
	if got := <-proxied; got != "http://receiver.invalid/hook" {
		t.Errorf("the proxy was asked for %s", got)
	}
}

func TestNothingSecretIsLogged(t *testing.T) {
	for _, status := range []int{200, 410, 500} {
		r := newRoom(t, &answering{status: status}, func(c *Config) { c.URL += "/hook-canary?token=canary" })
		r.sendDue(t)
		text := r.logs.String() + r.outbox.only(t).Error + fmt.Sprintf("%v", r.outbox.only(t))
		if strings.Contains(text, "canary") || strings.Contains(text, r.secret[len(secretPrefix):]) {
			t.Errorf("%d: %s", status, text)
		}
		if lines := strings.Count(r.logs.String(), "\n"); lines != 1 || !strings.Contains(text, r.outbox.only(t).ID.String()) {
			t.Errorf("%d lines for one try:\n%s", lines, r.logs)
		}
	}
}
