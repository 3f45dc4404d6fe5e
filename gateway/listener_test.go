package gateway

import (
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/talospki"
)

// handshake opens a TLS connection; an error may come as late as the first read, because a
// client is done before the server has judged.
func (h *house) handshake(t testing.TB, conf *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	conf.RootCAs, conf.ServerName = sharedPKI(t).server.Pool(), "127.0.0.1"
	conn, err := tls.Dial("tcp", h.endpoint, conf)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	state := conn.ConnectionState()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return state, err
	}
	_, err = conn.Read(make([]byte, 1)) // the server's SETTINGS come first
	return state, err
}

// TLS 1.3 and h2 are asked for; 1.2 is a setting.
func TestTheListenersTLS(t *testing.T) {
	t.Parallel()
	strict := newHouse(t, nil)
	lax := newHouse(t, func(s *setup) { s.gateway = func(c *Config) { c.MinTLS = tls.VersionTLS12 } })
	for _, row := range []struct {
		name string
		h    *house
		conf *tls.Config
		good bool
	}{
		{"TLS 1.3 and h2", strict, &tls.Config{NextProtos: []string{"h2"}}, true},
		{"TLS 1.2", strict, &tls.Config{NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12}, false},
		{"TLS 1.2 where it is set", lax, &tls.Config{NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12}, true},
		{"TLS 1.1 where 1.2 is set", lax, &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		{"no ALPN", strict, &tls.Config{}, false},
		{"http/1.1", strict, &tls.Config{NextProtos: []string{"http/1.1"}}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			state, err := row.h.handshake(t, row.conf)
			if good := err == nil && state.NegotiatedProtocol == "h2"; good != row.good {
				t.Errorf("the connection is taken: %t (%v), want %t", good, err, row.good)
			}
		})
	}
}

// turning is a certificate source whose certificate changes.
type turning struct {
	pair atomic.Pointer[tls.Certificate]
}

func (s *turning) ServerCertificate() (*tls.Certificate, error) {
	if p := s.pair.Load(); p != nil {
		return p, nil
	}
	return nil, errors.New("no certificate")
}

// A new certificate is served to the next connection; the open ones go on.
func TestARenewedCertificateIsServed(t *testing.T) {
	t.Parallel()
	p := sharedPKI(t)
	source := &turning{}
	source.pair.Store(&p.own)
	h := newHouse(t, func(s *setup) { s.gateway = func(c *Config) { c.Certificate = source } })
	served := func() string {
		state, err := h.handshake(t, &tls.Config{NextProtos: []string{"h2"}})
		ok(t, err)
		return state.PeerCertificates[0].SerialNumber.String()
	}
	open := h.as(t, "vera")
	succeeded(t, open.version(t, "w1"))
	first := served()
	pair := must(must(p.server.Server("127.0.0.1"))(t).TLS())(t)
	source.pair.Store(&pair)
	if served() == first {
		t.Error("the old certificate is served")
	}
	succeeded(t, open.version(t, "w1"))
	if _, err := New(Config{}); err == nil {
		t.Error("a gateway without anything was made")
	}
}

// A wrong certificate is answered with a reason, not with a broken handshake; nothing is
// forwarded.
func TestAWrongCertificateIsAnsweredWithAReason(t *testing.T) {
	t.Parallel()
	p := sharedPKI(t)
	h := newHouse(t, nil)
	stranger := must(gatewaypki.New(gatewaypki.Config{Name: "people"}))(t)
	of := func(a *gatewaypki.Authority, defect gatewaypki.Defect) tls.Certificate {
		pair := must(a.PersonWith(gatewaypki.Person{Issuer: issuer, Subject: "olga", Groups: []string{"talos-operators"}}, defect))(t)
		return must(pair.TLS())(t)
	}
	talos := must(must(talospki.Client(p.talos, time.Now(), "os:admin"))(t).TLS())(t)
	for _, row := range []struct {
		name  string
		cert  *tls.Certificate
		class string
	}{
		{"none", nil, "no-credential"},
		{"of Talos's own authority", &talos, "forbidden-ca"},
		{"of an authority of the same name", ptr(of(stranger, "")), "unknown-certificate"},
		{"expired", ptr(of(p.people, gatewaypki.Expired)), "expired"},
		{"a server's", ptr(of(p.people, gatewaypki.WrongUsage)), "malformed-certificate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			conf := &tls.Config{}
			if row.cert != nil {
				conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return row.cert, nil }
			}
			a := h.with(t, conf).version(t, "w1")
			refusedWith(t, a, codes.Unauthenticated, "BW-CREDENTIAL-001: "+row.class)
			if helps := row.class != "malformed-certificate"; strings.HasSuffix(a.text(), "\nbronzeward login") != helps {
				t.Errorf("that logging in helps: %v, and it says %q", helps, a.text())
			}
			if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'refuse' and class = $2", a.decisions(), row.class); n != 1 {
				t.Errorf("%d entries of class %s", n, row.class)
			}
		})
	}
	h.untouched(t, "w1")
}

func ptr[T any](v T) *T { return &v }
