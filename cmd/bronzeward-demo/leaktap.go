package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/leakscan"
	"bronzeward/fixtures/openbao"
)

// Names of what is on the wire between the product and OpenBao. All of them have to be seen.
const (
	wireToken     = "a token of OpenBao's"
	wireRole      = "a role id"
	wireSecretID  = "a secret id"
	wireDataKey   = "a data key of a change"
	wireDigestKey = "a digest key"
	wireTalosKey  = "a Talos key in OpenBao"
)

// given are secrets by their value, with their names, in the order they came. Safe for
// concurrent use.
type given struct {
	mu    sync.Mutex
	names map[string]string
	order []string
}

func (g *given) add(name, secret string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names == nil {
		g.names = map[string]string{}
	}
	if _, known := g.names[secret]; !known && len(secret) >= leakscan.Shortest {
		g.names[secret] = name
		g.order = append(g.order, secret)
	}
}

// all are the values of one name; of all when it is empty.
func (g *given) all(name string) (out []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, secret := range g.order {
		if name == "" || g.names[secret] == name {
			out = append(out, secret)
		}
	}
	return out
}

func (g *given) name(secret string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[secret]
}

// tap stands between the product and OpenBao, passes everything on, and keeps every secret
// that it sees on the way: no other place has them all in the clear.
type tap struct {
	given
	server *http.Server
	done   chan error
}

// start listens, and gives the address and the file that verifies it.
func (t *tap) start(s *openbao.Server, dir string) (address, caFile string, err error) {
	target, err := url.Parse(s.Address())
	if err != nil {
		return "", "", err
	}
	trusted, err := os.ReadFile(s.CAFile())
	if err != nil {
		return "", "", err
	}
	behind, err := gatewaypki.New(gatewaypki.Config{Name: "before OpenBao"})
	if err != nil {
		return "", "", err
	}
	pair, err := behind.Server("127.0.0.1")
	if err != nil {
		return "", "", err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return "", "", err
	}
	caFile = filepath.Join(dir, "openbao-ca.crt")
	if err := os.WriteFile(caFile, behind.CertPEM(), 0o600); err != nil {
		return "", "", err
	}
	pool, err := poolOf(trusted)
	if err != nil {
		return "", "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	silent := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		ModifyResponse: t.answered, ErrorLog: silent,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as when nobody is there
	}
	t.server = &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.asked(r); proxy.ServeHTTP(w, r) }),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, ErrorLog: silent,
	}
	t.done = make(chan error, 1)
	go func() { t.done <- t.server.ServeTLS(listener, "", "") }()
	return "https://" + listener.Addr().String(), caFile, nil
}

func (t *tap) close() error {
	if t.server == nil {
		return nil
	}
	err := t.server.Close()
	if served := <-t.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (t *tap) asked(r *http.Request) {
	if token := r.Header.Get("X-Vault-Token"); token != "" {
		t.add(wireToken, token)
	}
	body, _ := io.ReadAll(r.Body) // cut short, OpenBao refuses it
	r.Body = io.NopCloser(bytes.NewReader(body))
	t.look(r.URL.Path, body)
}

func (t *tap) answered(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	t.look(r.Request.URL.Path, body)
	return nil
}

func (t *tap) look(path string, body []byte) {
	var what any
	if json.Unmarshal(body, &what) == nil {
		t.walk(path, what)
	}
}

func (t *tap) walk(path string, node any) {
	switch n := node.(type) {
	case []any:
		for _, one := range n {
			t.walk(path, one)
		}
	case map[string]any:
		for key, value := range n {
			if text, isText := value.(string); isText {
				t.see(path, key, text)
			} else {
				t.walk(path, value)
			}
		}
	}
}

func (t *tap) see(path, key, text string) {
	switch {
	case key == "client_token" || key == "id" && strings.Contains(path, "/auth/token/"):
		t.add(wireToken, text)
	case key == "role_id":
		t.add(wireRole, text)
	case key == "secret_id":
		t.add(wireSecretID, text)
	case key == "key" && strings.Contains(path, "/data/talos/"):
		t.add(wireTalosKey, text)
	case key == "plaintext":
		secret, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return
		}
		name := wireDataKey
		if strings.HasSuffix(path, "/bronzeward-digest") {
			name = wireDigestKey
		}
		t.add(name, string(secret))
	}
}

// takeWire takes as canaries all that was seen on the wire, and makes sure that it was all:
// every data key that OpenBao unwraps for root from what is stored was seen there.
func (l *leak) takeWire(ctx context.Context) error {
	for _, name := range []string{wireToken, wireRole, wireSecretID, wireDataKey, wireDigestKey, wireTalosKey} {
		if len(l.wire.all(name)) == 0 {
			return fmt.Errorf("between the product and OpenBao was not seen: %s", name)
		}
	}
	digest, err := l.w.DigestSecrets(ctx)
	if err != nil {
		return err
	}
	if len(digest) < 2 {
		return errors.New("no digest key was added")
	}
	for version, secret := range digest {
		if l.wire.name(string(secret)) == "" {
			return fmt.Errorf("digest key %s was not seen between the product and OpenBao", version)
		}
	}
	wrapped, err := l.strings(ctx, `select distinct convert_from(substring(sealed from 12 for get_byte(sealed, 9) * 256 + get_byte(sealed, 10)), 'UTF8') from control.sealed_bytes where get_byte(sealed, 0) = 2`)
	if err != nil {
		return err
	}
	if len(wrapped) == 0 {
		return errors.New("nothing is sealed by OpenBao's key")
	}
	for _, one := range wrapped {
		status, answer, err := l.w.OpenBao.API(ctx, http.MethodPost, "transit/decrypt/bronzeward-seal", map[string]any{"ciphertext": one})
		if err != nil {
			return err
		}
		data, _ := answer["data"].(map[string]any)
		text, _ := data["plaintext"].(string)
		secret, err := base64.StdEncoding.DecodeString(text)
		if err != nil || l.wire.name(string(secret)) != wireDataKey {
			return fmt.Errorf("a data key of what is stored was not seen between the product and OpenBao (status %d): %w", status, err)
		}
	}
	for _, secret := range l.wire.all("") {
		name := l.wire.name(secret)
		if strings.Contains(secret, "-----BEGIN") {
			if err := l.takePEM(name, secret); err != nil {
				return err
			}
		} else if err := l.canaries.Add(name, secret); err != nil {
			return err
		}
		if _, err := l.send([]byte(secret)); err != nil {
			return err
		}
	}
	return nil
}
