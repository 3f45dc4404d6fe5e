package identity_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jws"
	"go.uber.org/goleak"

	"bronzeward/gateway/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testIssuer   = "https://idp.example"
	testAudience = "bronzeward"
	testKeys     = "https://idp.example/keys"
)

// noon is when the world of most tests stands still.
var noon = time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)

// fakeIDP is an issuer's HTTP side as a RoundTripper, so that tests need no socket and can run in a synctest bubble.
type fakeIDP struct {
	mu      sync.Mutex
	answers map[string]string // by URL; absent answers 404
	away    bool
	slow    time.Duration
	fetches int
}

func (p *fakeIDP) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.fetches++
	answer, ok := p.answers[r.URL.String()]
	away, slow := p.away, p.slow
	p.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if away {
		return nil, errors.New("connection refused")
	}
	status := http.StatusOK
	if !ok {
		status = http.StatusNotFound
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader([]byte(answer))),
	}, nil
}

func (p *fakeIDP) set(change func(*fakeIDP)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *fakeIDP) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// serve makes the issuer publish these keys.
func (p *fakeIDP) serve(t testing.TB, keys ...any) {
	t.Helper()
	p.set(func(p *fakeIDP) {
		if p.answers == nil {
			p.answers = make(map[string]string)
		}
		p.answers[testKeys] = keySetJSON(t, keys...)
	})
}

func keySetJSON(t testing.TB, keys ...any) string {
	t.Helper()
	if keys == nil {
		keys = []any{}
	}
	document, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// publish is the JWK of a key (private ones included, which is a defect) with members set or, when nil, removed.
func publish(t testing.TB, key any, members map[string]any) map[string]any {
	t.Helper()
	parsed, err := jwk.FromRaw(key)
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	result := make(map[string]any)
	if err := json.Unmarshal(document, &result); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		if value == nil {
			delete(result, name)
			continue
		}
		result[name] = value
	}
	return result
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// claimsAt are the claims of a good token issued at a time, with members set or, when nil, removed.
func claimsAt(issued time.Time, members map[string]any) map[string]any {
	result := map[string]any{
		"iss": testIssuer, "sub": "ada", "aud": testAudience, "jti": "t-1", "preferred_username": "Ada L.",
		"groups": []string{"operators", "approvers"},
		"iat":    issued.Unix(), "nbf": issued.Unix(), "exp": issued.Add(10 * time.Minute).Unix(),
	}
	for name, value := range members {
		if value == nil {
			delete(result, name)
			continue
		}
		result[name] = value
	}
	return result
}

// sign makes a compact token of exactly this header and payload, whatever they say.
func sign(t testing.TB, alg string, key any, header, payload string) string {
	t.Helper()
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	signer, err := jws.NewSigner(jwa.SignatureAlgorithm(alg))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign([]byte(input), key)
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// signES256 makes an ordinary token.
func signES256(t testing.TB, key *ecdsa.PrivateKey, kid string, claims map[string]any) string {
	t.Helper()
	header := map[string]any{"alg": "ES256", "typ": "JWT"}
	if kid != "" {
		header["kid"] = kid
	}
	return sign(t, "ES256", key, mustJSON(t, header), mustJSON(t, claims))
}

func mustJSON(t testing.TB, value any) string {
	t.Helper()
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

func basic(user, password string) []string {
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

// authority is a certificate authority for tests.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t testing.TB, name string, change func(*x509.Certificate)) authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: noon.Add(-24 * time.Hour), NotAfter: noon.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	return authority{cert: certify(t, template, template, key.Public(), key), key: key}
}

// sub makes an intermediate authority.
func (a authority) sub(t testing.TB, name string) authority {
	t.Helper()
	key := newKey(t)
	template := *a.cert
	template.Subject, template.SerialNumber = pkix.Name{CommonName: name}, big.NewInt(2)
	template.RawSubject, template.SubjectKeyId, template.AuthorityKeyId = nil, nil, nil
	return authority{cert: certify(t, &template, a.cert, key.Public(), a.key), key: key}
}

// person makes a good client certificate, changed by change.
func (a authority) person(t testing.TB, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	return a.personWith(t, newKey(t).Public(), change)
}

func (a authority) personWith(t testing.TB, public any, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0xbead), Subject: pkix.Name{CommonName: "Ada"},
		NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{
			identity.IdentityURI(testIssuer, "ada", identity.KindHuman),
			identity.GroupURI("viewers"), identity.GroupURI("team/a & co"),
		},
	}
	if change != nil {
		change(template)
	}
	return certify(t, template, a.cert, public, a.key)
}

func certify(t testing.TB, template, parent *x509.Certificate, public any, key crypto.Signer) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func shown(chain ...*x509.Certificate) *tls.ConnectionState {
	return &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: chain}
}

// start makes an Authenticator that is closed with the test.
func start(t testing.TB, cfg identity.Config) *identity.Authenticator {
	t.Helper()
	a, err := identity.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// tokenConfig trusts testIssuer, whose HTTP side is p, at noon.
func tokenConfig(p *fakeIDP) identity.Config {
	return identity.Config{
		Issuers:    []identity.IssuerConfig{{Issuer: testIssuer, Audience: []string{testAudience}, JWKSURL: testKeys}},
		Now:        func() time.Time { return noon },
		HTTPClient: &http.Client{Transport: p},
	}
}

// classOf is the class a call is refused with; empty when it is not.
func classOf(t testing.TB, err error) identity.Class {
	t.Helper()
	if err == nil {
		return ""
	}
	var refusal *identity.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("Identify returned %T, want *Refusal", err)
	}
	if refusal.Message == "" {
		t.Error("a refusal without a message")
	}
	return refusal.Class
}

func bearer(token string) identity.Request {
	return identity.Request{Authorization: []string{"Bearer " + token}}
}

// tryCertify is certify for templates that X.509 may not take; nil then.
func tryCertify(template *x509.Certificate, ca authority, public any) *x509.Certificate {
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.cert, public, ca.key)
	if err != nil {
		return nil
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil
	}
	return cert
}
