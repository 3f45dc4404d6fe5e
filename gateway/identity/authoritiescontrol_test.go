package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// swapping is a source of one authority that a test takes away.
type swapping struct{ people []*x509.Certificate }

func (s *swapping) People() []*x509.Certificate    { return s.people }
func (s *swapping) Forbidden() []*x509.Certificate { return nil }

// Control for the memory of certificates: when what is remembered is not tied to the authorities that proved it, the certificate of an
// authority that was dropped is taken for as long as it is remembered.
func TestControlAMemoryThatIsNotTiedToItsAuthorities(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := func(template, parent *x509.Certificate) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	now := time.Now()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "people"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca := made(root, root)
	leaf := made(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{IdentityURI("https://idp.example", "ada", KindHuman)},
	}, ca)
	for _, guarded := range []bool{true, false} {
		source := &swapping{people: []*x509.Certificate{ca}}
		a, err := New(t.Context(), Config{Authorities: source})
		if err != nil {
			t.Fatal(err)
		}
		shown := Request{TLS: &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: []*x509.Certificate{leaf}}}
		if _, err := a.Identify(t.Context(), shown); err != nil {
			t.Fatal(err)
		}
		source.people = nil
		if !guarded {
			remembered, _ := a.certificates.Get(sha256.Sum256(leaf.Raw))
			remembered.by = a.authorities()
		}
		if _, err := a.Identify(t.Context(), shown); (err == nil) == guarded {
			t.Errorf("guarded %t: %v", guarded, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
