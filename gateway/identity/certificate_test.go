package identity_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/gateway/identity"
)

func certificateConfig(people ...authority) identity.Config {
	cfg := identity.Config{Now: func() time.Time { return noon }}
	for _, ca := range people {
		cfg.PeopleCAs = append(cfg.PeopleCAs, ca.cert)
	}
	return cfg
}

func TestGoodCertificateBecomesCaller(t *testing.T) {
	ca, next := newAuthority(t, "people", nil), newAuthority(t, "people 2", nil)
	a := start(t, certificateConfig(ca, next))
	between := ca.sub(t, "between")
	for name, chain := range map[string][]*x509.Certificate{
		"straight":                {ca.person(t, nil)},
		"of the next authority":   {next.person(t, nil)},
		"through an intermediate": {between.person(t, nil), between.cert},
		"with the root sent too":  {ca.person(t, nil), ca.cert},
		"serverAuth beside":       {ca.person(t, func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) })},
		"another scheme's name beside": {ca.person(t, func(c *x509.Certificate) {
			c.URIs = append(c.URIs, &url.URL{Scheme: "spiffe", Host: "x", Path: "/y"})
		})},
		"a group twice": {ca.person(t, func(c *x509.Certificate) { c.URIs = append(c.URIs, identity.GroupURI("viewers")) })},
	} {
		t.Run(name, func(t *testing.T) {
			spki := sha256.Sum256(chain[0].RawSubjectPublicKeyInfo)
			want := identity.Caller{
				Issuer: testIssuer, Subject: "ada", Name: "Ada", Kind: identity.KindHuman,
				Groups: []string{"team/a & co", "viewers"}, Proof: identity.ProofCertificate,
				ProofEnds: noon.Add(time.Hour), CertificateSerial: "bead", SPKI: hex.EncodeToString(spki[:]),
			}
			for _, round := range []string{"first", "from memory"} {
				got, err := a.Identify(context.Background(), identity.Request{TLS: shown(chain...)})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", round, diff)
				}
				got.Groups[0] = "changed by whoever received it"
			}
		})
	}
}

func TestCertificateDefects(t *testing.T) {
	ca, talos, stranger := newAuthority(t, "people", nil), newAuthority(t, "talos", nil), newAuthority(t, "people", nil)
	ended := newAuthority(t, "ended", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Minute) })
	cfg := certificateConfig(ca, ended)
	talosEnded := newAuthority(t, "talos of old", func(c *x509.Certificate) { c.NotAfter = noon.Add(-2 * time.Hour) })
	cfg.ForbiddenCAs = []*x509.Certificate{talos.cert, talosEnded.cert}
	a := start(t, cfg)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	between, talosBetween := ca.sub(t, "between"), talos.sub(t, "talos between")
	// Talos's key certified by our authority: whoever holds Talos's key would be anybody.
	crossed := authority{cert: ca.personWith(t, talos.cert.PublicKey, func(c *x509.Certificate) {
		*c = x509.Certificate{
			SerialNumber: c.SerialNumber, Subject: talos.cert.Subject, NotBefore: c.NotBefore, NotAfter: c.NotAfter,
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
	}), key: talos.key}

	uris := func(texts ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.URIs = nil
			for _, text := range texts {
				u, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				c.URIs = append(c.URIs, u)
			}
		}
	}
	const ok = "bronzeward://identity?issuer=https%3A%2F%2Fidp.example&subject=ada&kind=human"
	const malformed = identity.ClassMalformedCertificate
	one := func(c *x509.Certificate) []*x509.Certificate { return []*x509.Certificate{c} }
	for _, row := range []struct {
		name  string
		chain []*x509.Certificate
		want  identity.Class
	}{
		{"good control", one(ca.person(t, uris(ok))), ""},
		{"no certificate", nil, identity.ClassNoCredential},
		{"of a stranger that has the same name", one(stranger.person(t, nil)), identity.ClassUnknownCertificate},
		{"of a stranger who sends his root along", []*x509.Certificate{stranger.person(t, nil), stranger.cert}, identity.ClassUnknownCertificate},
		{"intermediate not sent", one(between.person(t, nil)), identity.ClassUnknownCertificate},
		{"Talos's", one(talos.person(t, nil)), identity.ClassForbiddenCA},
		{"Talos's, expired", one(talos.person(t, func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Minute) })), identity.ClassForbiddenCA},
		{"Talos's through an intermediate", []*x509.Certificate{talosBetween.person(t, nil), talosBetween.cert}, identity.ClassForbiddenCA},
		{"Talos's, of an authority that ended", one(talosEnded.person(t, nil)), identity.ClassForbiddenCA},
		{"Talos's authority itself", one(talos.cert), identity.ClassForbiddenCA},
		{"Talos's, cross-signed by ours", []*x509.Certificate{crossed.person(t, nil), crossed.cert}, identity.ClassForbiddenCA},
		{"our authority itself", one(ca.cert), malformed},
		{"five certificates", []*x509.Certificate{ca.person(t, nil), ca.cert, ca.cert, ca.cert, ca.cert}, malformed},
		{"expired", one(ca.person(t, func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) })), identity.ClassExpired},
		{"ends now", one(ca.person(t, func(c *x509.Certificate) { c.NotAfter = noon })), identity.ClassExpired},
		{"ends in a second", one(ca.person(t, func(c *x509.Certificate) { c.NotAfter = noon.Add(time.Second) })), ""},
		{"begins now", one(ca.person(t, func(c *x509.Certificate) { c.NotBefore = noon })), ""},
		{"begins in a second", one(ca.person(t, func(c *x509.Certificate) { c.NotBefore = noon.Add(time.Second) })), identity.ClassNotYetValid},
		{"expired and a stranger's", one(stranger.person(t, func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) })), identity.ClassUnknownCertificate},
		{"its authority ended", one(ended.person(t, nil)), identity.ClassExpired},
		{"for servers", one(ca.person(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), malformed},
		{"for anything", one(ca.person(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} })), malformed},
		{"for clients and anything", one(ca.person(t, func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageAny) })), malformed},
		{"without extended usage", one(ca.person(t, func(c *x509.Certificate) { c.ExtKeyUsage = nil })), malformed},
		{"key usage without signatures", one(ca.person(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment })), malformed},
		{"an authority with a person's names", one(ca.person(t, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })), malformed},
		{"RSA of 1024 bits", one(ca.personWith(t, weak.Public(), nil)), malformed},

		{"no names", one(ca.person(t, uris())), malformed},
		{"only a group", one(ca.person(t, uris("bronzeward://group/a"))), malformed},
		{"two identities", one(ca.person(t, uris(ok, strings.Replace(ok, "ada", "bob", 1)))), malformed},
		{"the same identity twice", one(ca.person(t, uris(ok, ok))), malformed},
		{"unknown name of ours", one(ca.person(t, uris(ok, "bronzeward://role/admin"))), malformed},
		{"unknown name of ours in upper case", one(ca.person(t, uris(ok, "BRONZEWARD://role/admin"))), malformed},
		{"name of ours without slashes", one(ca.person(t, uris(ok, "bronzeward:group/a"))), malformed},
		{"name of ours without host", one(ca.person(t, uris(ok, "bronzeward:///group/a"))), malformed},
		{"host in upper case", one(ca.person(t, uris(strings.Replace(ok, "identity", "Identity", 1)))), malformed},
		{"user in the name", one(ca.person(t, uris(strings.Replace(ok, "//", "//x@", 1)))), malformed},
		{"port in the name", one(ca.person(t, uris(strings.Replace(ok, "identity?", "identity:1?", 1)))), malformed},
		{"path in the name", one(ca.person(t, uris(strings.Replace(ok, "identity?", "identity/?", 1)))), malformed},
		{"fragment in the name", one(ca.person(t, uris(ok+"#x"))), malformed},
		{"no issuer", one(ca.person(t, uris("bronzeward://identity?subject=ada&kind=human"))), malformed},
		{"empty issuer", one(ca.person(t, uris("bronzeward://identity?issuer=&subject=ada&kind=human"))), malformed},
		{"no subject", one(ca.person(t, uris("bronzeward://identity?issuer=i&kind=human"))), malformed},
		{"empty subject", one(ca.person(t, uris("bronzeward://identity?issuer=i&subject=&kind=human"))), malformed},
		{"subject with NUL", one(ca.person(t, uris("bronzeward://identity?issuer=i&subject=a%00&kind=human"))), malformed},
		{"subject with bad UTF-8", one(ca.person(t, uris("bronzeward://identity?issuer=i&subject=a%ff&kind=human"))), malformed},
		{"subject of 1001 bytes", one(ca.person(t, uris("bronzeward://identity?issuer=i&kind=human&subject="+strings.Repeat("a", 1001)))), malformed},
		{"subject twice", one(ca.person(t, uris(ok+"&subject=bob"))), malformed},
		{"no kind", one(ca.person(t, uris("bronzeward://identity?issuer=i&subject=ada"))), malformed},
		{"unknown kind", one(ca.person(t, uris("bronzeward://identity?issuer=i&subject=ada&kind=robot"))), malformed},
		{"a parameter more", one(ca.person(t, uris(ok+"&group=a"))), malformed},
		{"a broken escape", one(ca.person(t, uris(ok+"&x=%zz"))), malformed},
		{"a semicolon", one(ca.person(t, uris(ok+";x=y"))), malformed},
		{"group without name", one(ca.person(t, uris(ok, "bronzeward://group/"))), malformed},
		{"group without slash", one(ca.person(t, uris(ok, "bronzeward://group"))), malformed},
		{"group with a bare slash", one(ca.person(t, uris(ok, "bronzeward://group/a/b"))), malformed},
		{"group with a query", one(ca.person(t, uris(ok, "bronzeward://group/a?b"))), malformed},
		{"group with an empty query", one(ca.person(t, uris(ok, "bronzeward://group/a?"))), malformed},
		{"group with a line break", one(ca.person(t, uris(ok, "bronzeward://group/a%0Ab"))), malformed},
	} {
		t.Run(row.name, func(t *testing.T) {
			for range 2 {
				_, err := a.Identify(context.Background(), identity.Request{TLS: shown(row.chain...)})
				wantClass(t, err, row.want)
			}
		})
	}
}

func TestCertificateIsNotBelievedBeforeTheHandshakeEnds(t *testing.T) {
	ca := newAuthority(t, "people", nil)
	a := start(t, certificateConfig(ca))
	_, err := a.Identify(context.Background(), identity.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{ca.person(t, nil)}}})
	wantClass(t, err, identity.ClassUnknownCertificate)
}

func TestRememberedCertificateEndsWithItsTime(t *testing.T) {
	ca := newAuthority(t, "people", nil)
	cfg := certificateConfig(ca)
	now := noon
	cfg.Now = func() time.Time { return now }
	a := start(t, cfg)
	request := identity.Request{TLS: shown(ca.person(t, nil))}
	caller, err := a.Identify(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	now = caller.ProofEnds.Add(-1)
	if _, err := a.Identify(context.Background(), request); err != nil {
		t.Error(err)
	}
	now = caller.ProofEnds
	_, err = a.Identify(context.Background(), request)
	wantClass(t, err, identity.ClassExpired)
}

func TestProofEndsWithTheShortestOfTheChain(t *testing.T) {
	ca := newAuthority(t, "people", func(c *x509.Certificate) { c.NotAfter = noon.Add(10 * time.Minute) })
	caller, err := start(t, certificateConfig(ca)).Identify(context.Background(), identity.Request{TLS: shown(ca.person(t, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if want := noon.Add(10 * time.Minute); !caller.ProofEnds.Equal(want) {
		t.Errorf("proof ends at %v, want %v", caller.ProofEnds, want)
	}
}

func TestWithoutAuthoritiesNoCertificateIsAccepted(t *testing.T) {
	p := &fakeIDP{}
	key := newKey(t)
	p.serve(t, publish(t, key.Public(), nil))
	a := start(t, tokenConfig(p))
	_, err := a.Identify(context.Background(), identity.Request{TLS: shown(newAuthority(t, "people", nil).person(t, nil))})
	wantClass(t, err, identity.ClassUnknownCertificate)
}
