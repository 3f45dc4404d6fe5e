package identity_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bronzeward/gateway/identity"
)

func keyOf[K crypto.Signer](t testing.TB) func(K, error) crypto.Signer {
	return func(key K, err error) crypto.Signer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
}

func edKey(t testing.TB) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// requestOf is a certificate request of a key that says it is for somebody else.
func requestOf(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "root", Organization: []string{"os:admin"}},
		URIs:    []*url.URL{identity.IdentityURI(testIssuer, "root", identity.KindHuman)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestARequestIsTakenForItsKeyAlone(t *testing.T) {
	good := requestOf(t, newKey(t))
	block, _ := pem.Decode(good)
	forged := slices.Clone(block.Bytes)
	forged[len(forged)-1] ^= 1 // of the signature
	other := requestOf(t, newKey(t))
	// The key of one request in another one: whoever sends it does not have that key.
	stolen, _ := pem.Decode(other)
	borrowed := strings.Replace(string(block.Bytes), string(spkiOf(t, block.Bytes)), string(spkiOf(t, stolen.Bytes)), 1)
	in := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for _, row := range []struct {
		name string
		text []byte
		want string // in the error; empty is good
	}{
		{"P-256", good, ""},
		{"P-384", requestOf(t, keyOf[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))), ""},
		{"Ed25519", requestOf(t, edKey(t)), ""},
		{"RSA of 2048 bits", requestOf(t, keyOf[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))), ""},
		{"space around it", append([]byte("\n "), append(slices.Clone(good), "\n\n"...)...), ""},
		{"P-521", requestOf(t, keyOf[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))), "curve"},
		{"P-224", requestOf(t, keyOf[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))), "curve"},
		{"RSA of 1024 bits", requestOf(t, keyOf[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 1024))), "2048"},
		{"a signature that is none", in("CERTIFICATE REQUEST", forged), "not signed with its own key"},
		{"somebody else's key", in("CERTIFICATE REQUEST", []byte(borrowed)), "not signed with its own key"},
		{"nothing", nil, "no PEM"},
		{"no PEM", []byte("csr"), "no PEM"},
		{"a private key", in("PRIVATE KEY", block.Bytes), "no CERTIFICATE REQUEST"},
		{"not DER", in("CERTIFICATE REQUEST", []byte("x")), "does not read"},
		{"two of them", append(slices.Clone(good), other...), "something beside"},
		{"something before it", append([]byte("key:\n"), good...), "something beside"},
		{"too long", append(slices.Clone(good), make([]byte, 16<<10)...), "longer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			key, err := identity.ReadRequest(row.text)
			if row.want == "" && (err != nil || key == nil) || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || key != nil) {
				t.Errorf("got %v, %v; want %q", key, err, row.want)
			}
		})
	}
}

// spkiOf is the key in a certificate request's DER.
func spkiOf(t testing.TB, der []byte) []byte {
	t.Helper()
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	return request.RawSubjectPublicKeyInfo
}

func FuzzReadRequest(f *testing.F) {
	f.Add(requestOf(f, newKey(f)))
	f.Add(requestOf(f, edKey(f)))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := identity.ReadRequest(text)
		if (err == nil) != (key != nil) {
			t.Fatalf("got %v, %v", key, err)
		}
		if err != nil && (len(err.Error()) > 200 || strings.ContainsAny(err.Error(), "\r\n\x00")) {
			t.Fatalf("unsound error %q", err)
		}
	})
}

// ada is a caller as her token proves her.
func ada() identity.Caller {
	return identity.Caller{
		Issuer: testIssuer, Subject: "ada", Name: "Ada L.", Kind: identity.KindHuman, Groups: []string{"approvers", "team/a & co"}, Proof: identity.ProofToken,
	}
}

// issue signs a template with an authority.
func (a authority) issue(t testing.TB, template *x509.Certificate, key crypto.PublicKey) [][]byte {
	t.Helper()
	return [][]byte{certify(t, template, a.cert, key, a.key).Raw}
}

func template(t testing.TB, c identity.Caller, lifetime time.Duration) *x509.Certificate {
	t.Helper()
	serial, err := identity.NewSerial()
	if err != nil {
		t.Fatal(err)
	}
	out, err := identity.CertificateTemplate(c, serial, noon, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is issued is the same person to Identify, for every person there may be.
func TestACertificateIssuedIsTheSamePerson(t *testing.T) {
	ca := newAuthority(t, "people", nil)
	a := start(t, certificateConfig(ca))
	key := newKey(t)
	person := func(c identity.Caller) {
		made := template(t, c, time.Hour)
		issued, err := identity.CheckIssued(ca.issue(t, made, key.Public()), made, key.Public())
		if err != nil {
			t.Fatal(err)
		}
		block, rest := pem.Decode([]byte(issued.PEM))
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil || len(rest) > 0 {
			t.Fatal(err, rest)
		}
		got, err := a.Identify(context.Background(), identity.Request{TLS: shown(leaf)})
		if err != nil {
			t.Fatal(err)
		}
		want := c
		want.Proof, want.ProofEnds, want.CertificateSerial, want.SPKI = identity.ProofCertificate, issued.NotAfter, issued.Serial, issued.SPKI
		if diff := cmp.Diff(want, got); diff != "" || !issued.NotAfter.Equal(noon.Add(time.Hour)) {
			t.Fatalf("ends %v: %s", issued.NotAfter, diff)
		}
	}
	person(ada())
	automation := ada()
	automation.Kind, automation.Groups = identity.KindAutomation, nil
	person(automation)
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("aZ0 ./%?#&=+:@\"'<>\\éß中")), 1, 20, -1).Filter(func(s string) bool { return strings.TrimSpace(s) == s && s != "" })
	rapid.Check(t, func(t *rapid.T) {
		c := ada()
		c.Subject, c.Issuer = letters.Draw(t, "subject"), letters.Draw(t, "issuer")
		c.Groups = rapid.SliceOfNDistinct(letters, 0, 5, rapid.ID).Draw(t, "groups")
		slices.Sort(c.Groups)
		if len(c.Groups) == 0 {
			c.Groups = nil
		}
		person(c)
	})
}

func TestACertificateSaysNoMoreThanItMust(t *testing.T) {
	ca, key := newAuthority(t, "people", nil), newKey(t)
	serials := map[string]bool{}
	for range 64 {
		made := template(t, ada(), 8*time.Hour)
		leaf, err := x509.ParseCertificate(ca.issue(t, made, key.Public())[0])
		if err != nil {
			t.Fatal(err)
		}
		serials[leaf.SerialNumber.Text(16)] = true
		if leaf.SerialNumber.Sign() <= 0 || leaf.SerialNumber.BitLen() > 128 {
			t.Fatalf("serial %x", leaf.SerialNumber)
		}
		if leaf.IsCA || !leaf.BasicConstraintsValid || leaf.KeyUsage != x509.KeyUsageDigitalSignature || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
			t.Fatalf("CA %t, usages %v %v", leaf.IsCA, leaf.KeyUsage, leaf.ExtKeyUsage)
		}
		if leaf.Subject.String() != "CN=Ada L." || !leaf.NotBefore.Equal(noon.Add(-time.Minute)) || !leaf.NotAfter.Equal(noon.Add(8*time.Hour)) {
			t.Fatalf("%s, %v to %v", leaf.Subject, leaf.NotBefore, leaf.NotAfter)
		}
	}
	if len(serials) != 64 {
		t.Errorf("%d serials of 64 certificates", len(serials))
	}
}

func TestNoCertificateIsMadeForWhom(t *testing.T) {
	many := func(n, size int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%04d%s", i, strings.Repeat("g", size)))
		}
		return out
	}
	for _, row := range []struct {
		name     string
		change   func(*identity.Caller)
		lifetime time.Duration
		want     error // nil is any error; errGood is none
	}{
		{"a token, the control", func(*identity.Caller) {}, time.Hour, errGood},
		{"both", func(c *identity.Caller) { c.Proof = identity.ProofBoth }, time.Hour, errGood},
		{"two hundred groups", func(c *identity.Caller) { c.Groups = many(200, 100) }, time.Hour, errGood},
		{"a certificate alone", func(c *identity.Caller) { c.Proof = identity.ProofCertificate }, time.Hour, nil},
		{"groups of a certificate", func(c *identity.Caller) { c.Proof, c.CertificateGroups = identity.ProofBoth, true }, time.Hour, nil},
		{"no time", func(*identity.Caller) {}, 0, nil},
		{"more than a day", func(*identity.Caller) {}, 24*time.Hour + 1, nil},
		{"more groups than fit", func(c *identity.Caller) { c.Groups = many(1000, 100) }, time.Hour, identity.ErrNames},
		{"a group too long", func(c *identity.Caller) { c.Groups = many(1, 1000) }, time.Hour, identity.ErrNames},
		{"nobody", func(c *identity.Caller) { c.Subject = "" }, time.Hour, identity.ErrNames},
		{"of no kind", func(c *identity.Caller) { c.Kind = "" }, time.Hour, identity.ErrNames},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := ada()
			row.change(&c)
			made, err := identity.CertificateTemplate(c, big.NewInt(7), noon, row.lifetime)
			if row.want == errGood { //nolint:errorlint // the very value
				if err != nil || made == nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if made != nil || err == nil || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("got %v, %v; want %v", made, err, row.want)
			}
		})
	}
}

var errGood = errors.New("good")

// Whoever signs is not believed: each way to sign something else is found. The first row is the control.
func TestWhatWasSignedIsHeldAgainstWhatWasToBe(t *testing.T) {
	ca, stranger, key := newAuthority(t, "people", nil), newAuthority(t, "stranger", nil), newKey(t)
	for _, row := range []struct {
		name, want string
		change     func(*x509.Certificate)
		chain      func([][]byte) [][]byte
		key        crypto.PublicKey
	}{
		{name: "as it was to be"},
		{name: "with its authority", chain: func(c [][]byte) [][]byte { return append(c, ca.cert.Raw) }},
		{name: "shorter", change: func(c *x509.Certificate) { c.NotAfter = noon.Add(time.Minute) }},
		{name: "nothing", want: "0 certificates", chain: func([][]byte) [][]byte { return nil }},
		{name: "five", want: "5 certificates", chain: func(c [][]byte) [][]byte { return append(c, c[0], c[0], c[0], c[0]) }},
		{name: "no DER", want: "parse", chain: func([][]byte) [][]byte { return [][]byte{[]byte("x")} }},
		{name: "another's authority", want: "next certificate", chain: func(c [][]byte) [][]byte { return append(c, stranger.cert.Raw) }},
		{name: "for another key", want: "another key", key: newKey(t).Public()},
		{name: "another serial", want: "another serial", change: func(c *x509.Certificate) { c.SerialNumber = big.NewInt(1) }},
		{name: "longer", want: "for longer", change: func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Second) }},
		{name: "earlier", want: "for longer", change: func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(-time.Second) }},
		{name: "another person", want: "somebody else", change: func(c *x509.Certificate) {
			c.URIs = []*url.URL{identity.IdentityURI(testIssuer, "root", identity.KindHuman)}
		}},
		{name: "a group more", want: "somebody else", change: func(c *x509.Certificate) { c.URIs = append(slices.Clone(c.URIs), identity.GroupURI("root")) }},
		{name: "a host", want: "somebody else", change: func(c *x509.Certificate) { c.DNSNames = []string{"gate.example"} }},
		{name: "an organization", want: "another subject", change: func(c *x509.Certificate) { c.Subject.Organization = []string{"os:admin"} }},
		{name: "an authority", want: "authority", change: func(c *x509.Certificate) { c.IsCA = true }},
		{name: "for servers too", want: "other uses", change: func(c *x509.Certificate) {
			c.ExtKeyUsage = append(slices.Clone(c.ExtKeyUsage), x509.ExtKeyUsageServerAuth)
		}},
		{name: "for signing certificates", want: "other uses", change: func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign }},
	} {
		t.Run(row.name, func(t *testing.T) {
			made := template(t, ada(), time.Hour)
			signed := *made
			if row.change != nil {
				row.change(&signed)
			}
			public := row.key
			if public == nil {
				public = key.Public()
			}
			chain := ca.issue(t, &signed, public)
			if row.chain != nil {
				chain = row.chain(chain)
			}
			issued, err := identity.CheckIssued(chain, made, key.Public())
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || issued.PEM != "") {
				t.Errorf("got %+v, %v; want %q", issued, err, row.want)
			}
		})
	}
	// A chain is as good as what ends first in it.
	made := template(t, ada(), time.Hour)
	soon := newAuthority(t, "people", func(c *x509.Certificate) { c.NotAfter = noon.Add(10 * time.Minute) })
	issued, err := identity.CheckIssued(append(soon.issue(t, made, key.Public()), soon.cert.Raw), made, key.Public())
	if err != nil || !issued.NotAfter.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("ends %v, %v", issued.NotAfter, err)
	}
}

// A certificate whose groups came of an older certificate must not be renewed with them: a token without the claim would
// keep somebody in a group for ever.
func TestBothProofsTellWhoseGroupsTheyAre(t *testing.T) {
	ca, key := newAuthority(t, "people", nil), newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), map[string]any{"kid": "k"}))
	cfg := tokenConfig(p)
	cfg.PeopleCAs = []*x509.Certificate{ca.cert}
	a := start(t, cfg)
	for _, row := range []struct {
		name   string
		groups any
		want   bool
	}{{"the token's", []string{"viewers"}, false}, {"the token's, none", []string{}, false}, {"the certificate's", nil, true}} {
		t.Run(row.name, func(t *testing.T) {
			got, err := a.Identify(context.Background(), identity.Request{
				TLS:           &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: []*x509.Certificate{ca.person(t, nil)}},
				Authorization: []string{"Bearer " + signES256(t, key, "k", claimsAt(noon, map[string]any{"groups": row.groups}))},
			})
			if err != nil || got.Proof != identity.ProofBoth || got.CertificateGroups != row.want {
				t.Errorf("got %+v, %v; want %t", got, err, row.want)
			}
		})
	}
}
