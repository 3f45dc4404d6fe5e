package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"bronzeward/fixtures/talospki"
)

func leafFor(t testing.TB, p talospki.Pair) *x509.Certificate {
	t.Helper()

	leaf, err := p.Leaf()
	must(t, err)

	return leaf
}

func pairWith(t testing.TB, ca talospki.Pair, spec talospki.ClientSpec) talospki.Pair {
	t.Helper()

	if spec.NotAfter.IsZero() {
		spec.NotBefore, spec.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}

	pair, err := talospki.ClientWith(ca, spec)
	must(t, err)

	return pair
}

// reasonOf is the one word a credential's error says.
func reasonOf(err error) string {
	var e interface{ ReasonClass() string }
	if errors.As(err, &e) {
		return e.ReasonClass()
	}

	return ""
}

func TestACredentialThatIsNotFitIsNeverShown(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	now := time.Now()
	good := talospki.ClientSpec{Roles: []string{RoleImpersonator}}
	ca := []*x509.Certificate{leafFor(t, p.ca)}

	with := func(spec talospki.ClientSpec) tls.Certificate {
		cert, err := pairWith(t, p.ca, spec).TLS()
		must(t, err)

		return cert
	}
	caPair, err := p.ca.TLS()
	must(t, err)

	foreign := with(good)
	foreign.PrivateKey = with(good).PrivateKey
	keyless := with(good)
	keyless.PrivateKey = nil
	// A client certificate over the CA's own key.
	overCA := with(good)
	overCA.Leaf = func() *x509.Certificate { l := *overCA.Leaf; l.PublicKey = ca[0].PublicKey; return &l }()
	overCA.PrivateKey = caPair.PrivateKey

	for _, row := range []struct {
		name   string
		cert   tls.Certificate
		cas    []*x509.Certificate
		reason string
	}{
		{"good", with(good), ca, ""},
		{"good, with a second CA", with(good), append(ca, leafFor(t, newPKI(t).ca)), ""},
		{"an administrator", with(talospki.ClientSpec{Roles: []string{RoleAdmin}}), ca, ReasonRoles},
		{"an administrator too", with(talospki.ClientSpec{Roles: []string{RoleImpersonator, RoleAdmin}}), ca, ReasonRoles},
		{"a role nobody knows too", with(talospki.ClientSpec{Roles: []string{RoleImpersonator, "os:other"}}), ca, ReasonRoles},
		{"no role", with(talospki.ClientSpec{}), ca, ReasonRoles},
		{"a second usage", with(talospki.ClientSpec{Roles: good.Roles, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}), ca, ReasonUsage},
		{"no usage", with(talospki.ClientSpec{Roles: good.Roles, ExtKeyUsage: []x509.ExtKeyUsage{}}), ca, ReasonUsage},
		{"ended", with(talospki.ClientSpec{Roles: good.Roles, NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)}), ca, ReasonExpired},
		{"for later", with(talospki.ClientSpec{Roles: good.Roles, NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}), ca, ReasonNotYetValid},
		{"none", tls.Certificate{}, ca, ReasonNoCertificate},
		{"no certificate at all", tls.Certificate{Certificate: [][]byte{{1, 2, 3}}}, ca, ReasonMalformed},
		{"another's key", foreign, ca, ReasonKeyMismatch},
		{"no key", keyless, ca, ReasonKeyMismatch},
		{"the CA itself", caPair, ca, ReasonForeignKey},
		{"the CA's key", overCA, ca, ReasonForeignKey},
		{"no CA", with(good), nil, ReasonNoCA},
		{"a CA that is none", with(good), []*x509.Certificate{with(good).Leaf}, ReasonNoCA},
		{"a CA that is nothing", with(good), []*x509.Certificate{nil}, ReasonNoCA},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := CheckCredential(row.cert, row.cas, now); reasonOf(err) != row.reason || (err == nil) != (row.reason == "") {
				t.Errorf("the check says %v", err)
			}

			if row.reason == "" {
				return
			}

			before := n.accepted.Load()
			pool := poolOf(t, &held{by: map[string]Credential{"lab": {Certificate: row.cert, CAs: row.cas, Version: 7}}})

			target := n.target()
			target.Cluster = "lab"
			_, err := pool.Open(ctxFor(t), target)
			_, err2 := pool.Conn(ctxFor(t), target)
			_, _, err3 := pool.Reach(ctxFor(t), target)
			err4 := pool.Prepare(ctxFor(t), target)

			for _, err := range []error{err, err2, err3, err4} {
				if ClassOf(err) != ClassCredential || reasonOf(err) != row.reason {
					t.Errorf("error is %v", err)
				}
			}

			if got := n.accepted.Load(); got != before {
				t.Errorf("the node was dialled %d times", got-before)
			}
		})
	}
}

func TestACredentialOfPEMTextsHasNoKeyThatMustNotBeThere(t *testing.T) {
	p := newPKI(t)
	pair := pairWith(t, p.ca, talospki.ClientSpec{Roles: []string{RoleImpersonator}})
	other := pairWith(t, p.ca, talospki.ClientSpec{Roles: []string{RoleImpersonator}})
	join := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(out, p...)
		}

		return out
	}
	junk := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("junk")})

	for _, row := range []struct {
		name          string
		cert, key, ca []byte
		reason        string
		cas           int
	}{
		{"good", pair.Cert, pair.Key, p.ca.Cert, "", 1},
		{"with its chain and two CAs", join(pair.Cert, p.ca.Cert), pair.Key, join(p.ca.Cert, newPKI(t).ca.Cert), "", 2},
		{"its own key beside the certificate", join(pair.Key, pair.Cert), pair.Key, p.ca.Cert, "", 1},
		{"another's key", pair.Cert, other.Key, p.ca.Cert, ReasonKeyMismatch, 0},
		{"the CA's key beside the certificate", join(pair.Cert, p.ca.Key), pair.Key, p.ca.Cert, ReasonForeignKey, 0},
		{"the CA's key behind the key", pair.Cert, join(pair.Key, p.ca.Key), p.ca.Cert, ReasonForeignKey, 0},
		{"the CA's key beside the CA", pair.Cert, pair.Key, join(p.ca.Cert, p.ca.Key), ReasonForeignKey, 0},
		{"the CA's key in the place of the CA", pair.Cert, pair.Key, p.ca.Key, ReasonForeignKey, 0},
		{"the certificate's key beside the CA", pair.Cert, pair.Key, join(p.ca.Cert, pair.Key), ReasonForeignKey, 0},
		{"something else beside the CA", pair.Cert, pair.Key, join(p.ca.Cert, pem.EncodeToMemory(&pem.Block{Type: "X"})), ReasonMalformed, 0},
		{"no certificate", pair.Key, pair.Key, p.ca.Cert, ReasonNoCertificate, 0},
		{"no key", pair.Cert, pair.Cert, p.ca.Cert, ReasonMalformed, 0},
		{"no CA", pair.Cert, pair.Key, []byte("hello"), ReasonNoCA, 0},
		{"a certificate that is none", junk, pair.Key, p.ca.Cert, ReasonMalformed, 0},
		{"a CA that is none", pair.Cert, pair.Key, junk, ReasonMalformed, 0},
		{"nothing", nil, nil, nil, ReasonNoCertificate, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := ParseCredential(row.cert, row.key, row.ca)
			if reasonOf(err) != row.reason || (err == nil) != (row.reason == "") || len(c.CAs) != row.cas {
				t.Errorf("got %d CAs, %v", len(c.CAs), err)
			}

			if err == nil {
				must(t, CheckCredential(c.Certificate, c.CAs, time.Now()))
			}
		})
	}
}

// What may come out of a KV secret is anything; it is refused by a word, or fits together.
func FuzzParseCredential(f *testing.F) {
	ca, err := talospki.NewCA(time.Now())
	must(f, err)
	pair := pairWith(f, ca, talospki.ClientSpec{Roles: []string{RoleImpersonator}})

	f.Add(pair.Cert, pair.Key, ca.Cert)
	f.Add(pair.Cert, ca.Key, ca.Cert)
	f.Add(ca.Cert, ca.Key, ca.Cert)
	f.Add([]byte("-----BEGIN CERTIFICATE-----"), []byte("PRIVATE KEY-----"), []byte(nil))
	f.Add(pair.Cert, []byte("-----BEGIN EC PARAMETERS-----\n-----END EC PARAMETERS-----\n"+string(pair.Key)), ca.Key)

	caLeaf := leafFor(f, ca)

	f.Fuzz(func(t *testing.T, cert, key, cas []byte) {
		c, err := ParseCredential(cert, key, cas)
		if err != nil {
			if reasonOf(err) == "" {
				t.Fatalf("an error without a reason: %v", err)
			}

			return
		}

		if strings.Contains(string(cas), "PRIVATE KEY-----\n") && strings.Contains(string(cas), string(ca.Key)) {
			t.Fatal("a key stands beside the CA")
		}

		if err := CheckCredential(c.Certificate, c.CAs, time.Now()); err == nil && sameKey(c.Certificate.Leaf.PublicKey, caLeaf.PublicKey) {
			t.Fatal("the CA's key passed")
		}
	})
}
