package identity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jws"

	"bronzeward/gateway/identity"
)

func TestCertificateAndTokenMustNameTheSamePerson(t *testing.T) {
	ca, key := newAuthority(t, "people", nil), newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), nil))
	cfg := tokenConfig(p)
	cfg.PeopleCAs = []*x509.Certificate{ca.cert}
	a := start(t, cfg)
	named := func(issuer, subject string, kind identity.Kind) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.URIs[0] = identity.IdentityURI(issuer, subject, kind) }
	}
	ada := named(testIssuer, "ada", identity.KindHuman)
	for _, row := range []struct {
		name   string
		cert   func(*x509.Certificate)
		claims map[string]any
		want   identity.Class
		groups []string
	}{
		{"same person, the token's groups", ada, nil, "", []string{"approvers", "operators"}},
		{"same person, token without groups", ada, map[string]any{"groups": nil}, "", []string{"team/a & co", "viewers"}},
		{"same person, token with an empty list", ada, map[string]any{"groups": []string{}}, "", nil},
		{"another subject", named(testIssuer, "bob", identity.KindHuman), nil, identity.ClassConflictingIdentities, nil},
		{"subject in another case", named(testIssuer, "Ada", identity.KindHuman), nil, identity.ClassConflictingIdentities, nil},
		{"another issuer", named("https://other.example", "ada", identity.KindHuman), nil, identity.ClassConflictingIdentities, nil},
		{"another kind", named(testIssuer, "ada", identity.KindAutomation), nil, identity.ClassConflictingIdentities, nil},
		{"expired certificate beside a good token", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) }, nil, identity.ClassExpired, nil},
		{"good certificate beside an expired token", ada, map[string]any{"iat": noon.Unix() - 500, "nbf": nil, "exp": noon.Unix() - 400}, identity.ClassExpired, nil},
		{"good certificate beside a token for another", ada, map[string]any{"aud": "x"}, identity.ClassWrongAudience, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			token := signES256(t, key, "", claimsAt(noon, row.claims))
			request := identity.Request{TLS: shown(ca.person(t, row.cert)), Authorization: basic("ada", token)}
			caller, err := a.Identify(context.Background(), request)
			wantClass(t, err, row.want)
			if err != nil {
				return
			}
			if caller.Proof != identity.ProofBoth || caller.CertificateSerial != "bead" || caller.SPKI == "" || caller.TokenID != "t-1" {
				t.Errorf("not both proofs: %+v", caller)
			}
			if len(caller.Groups)+len(row.groups) > 0 {
				if diff := cmp.Diff(row.groups, caller.Groups); diff != "" {
					t.Error(diff)
				}
			}
			if want := noon.Add(11 * time.Minute); !caller.ProofEnds.Equal(want) {
				t.Errorf("proof ends %v, want the token's %v", caller.ProofEnds, want)
			}
		})
	}

	t.Run("the certificate ends first", func(t *testing.T) {
		cert := ca.person(t, func(c *x509.Certificate) { c.NotAfter = noon.Add(time.Minute) })
		caller, err := a.Identify(context.Background(), identity.Request{
			TLS: shown(cert), Authorization: basic("", signES256(t, key, "", claimsAt(noon, nil))),
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := noon.Add(time.Minute); !caller.ProofEnds.Equal(want) {
			t.Errorf("proof ends %v, want %v", caller.ProofEnds, want)
		}
	})
	t.Run("a stranger's certificate beside a good token", func(t *testing.T) {
		_, err := a.Identify(context.Background(), identity.Request{
			TLS:           shown(newAuthority(t, "x", nil).person(t, nil)),
			Authorization: basic("", signES256(t, key, "", claimsAt(noon, nil))),
		})
		wantClass(t, err, identity.ClassUnknownCertificate)
	})
}

func TestDenyListRefusesTheProven(t *testing.T) {
	ca, key := newAuthority(t, "people", nil), newKey(t)
	cert := ca.person(t, nil)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), nil))
	base := tokenConfig(p)
	base.PeopleCAs = []*x509.Certificate{ca.cert}
	token := basic("", signES256(t, key, "", claimsAt(noon, nil)))
	byToken, byCert := identity.Request{Authorization: token}, identity.Request{TLS: shown(cert)}
	both := identity.Request{TLS: shown(cert), Authorization: token}
	first, err := start(t, base).Identify(context.Background(), byCert)
	if err != nil {
		t.Fatal(err)
	}
	const denied = identity.ClassDenyListed
	for _, row := range []struct {
		name                  string
		rule                  *identity.DenyRule
		token, cert, together identity.Class
	}{
		{"control: no rule", nil, "", "", ""},
		{"the person", &identity.DenyRule{Issuer: testIssuer, Subject: "ada"}, denied, denied, denied},
		{"everybody of the issuer", &identity.DenyRule{Issuer: testIssuer}, denied, denied, denied},
		{"one token", &identity.DenyRule{TokenID: "t-1"}, denied, "", denied},
		{"one key", &identity.DenyRule{SPKI: first.SPKI}, "", denied, denied},
		{"one key in upper case", &identity.DenyRule{SPKI: strings.ToUpper(first.SPKI)}, "", denied, denied},
		{"somebody else", &identity.DenyRule{Issuer: testIssuer, Subject: "bob"}, "", "", ""},
		{"the same subject elsewhere", &identity.DenyRule{Issuer: "https://other.example", Subject: "ada"}, "", "", ""},
		{"all fields of a rule must match", &identity.DenyRule{Issuer: testIssuer, Subject: "ada", TokenID: "t-2"}, "", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := base
			if row.rule != nil {
				cfg.DenyList = []identity.DenyRule{{TokenID: "another"}, *row.rule}
			}
			a := start(t, cfg)
			for name, call := range map[string]struct {
				request identity.Request
				want    identity.Class
			}{"token": {byToken, row.token}, "certificate": {byCert, row.cert}, "both": {both, row.together}} {
				for range 2 {
					caller, err := a.Identify(context.Background(), call.request)
					if got := classOf(t, err); got != call.want {
						t.Errorf("%s: class %q, want %q", name, got, call.want)
					}
					if caller.Subject != "ada" {
						t.Errorf("%s: the caller is not named: %+v", name, caller)
					}
				}
			}
		})
	}
	t.Run("a bad credential of a denied person is only bad", func(t *testing.T) {
		cfg := base
		cfg.DenyList = []identity.DenyRule{{Issuer: testIssuer, Subject: "ada"}}
		caller, err := start(t, cfg).Identify(context.Background(), bearer(signES256(t, newKey(t), "", claimsAt(noon, nil))))
		wantClass(t, err, identity.ClassBadSignature)
		if caller.Subject != "" {
			t.Error("an unproven caller is named")
		}
	})
}

func TestRememberedTokenEndsWithItsTime(t *testing.T) {
	key := newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), nil))
	cfg := tokenConfig(p)
	now := noon
	cfg.Now = func() time.Time { return now }
	a := start(t, cfg)
	token := signES256(t, key, "", claimsAt(noon, nil))
	caller, err := a.Identify(context.Background(), bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		at   time.Time
		want identity.Class
	}{
		{caller.ProofEnds.Add(-1), ""},
		{caller.ProofEnds, identity.ClassExpired},
		{noon.Add(-2 * time.Minute), identity.ClassNotYetValid},
		{noon, ""},
	} {
		now = row.at
		_, err := a.Identify(context.Background(), bearer(token))
		wantClass(t, err, row.want)
	}
}

func TestClassesTellWhoseFaultItIs(t *testing.T) {
	for class, want := range map[identity.Class][2]bool{
		identity.ClassExpired: {false, false}, identity.ClassMalformed: {false, false},
		identity.ClassKeysUnavailable: {true, false}, identity.ClassDenyListed: {false, true},
	} {
		if got := [2]bool{class.Unavailable(), class.Denied()}; got != want {
			t.Errorf("%s: unavailable, denied = %v, want %v", class, got, want)
		}
	}
}

// A handshake that requests certificates without judging them lets every one through to Identify, which gives the reason.
func TestOverARealHandshake(t *testing.T) {
	ca, talos := newAuthority(t, "people", nil), newAuthority(t, "talos", nil)
	cfg := certificateConfig(ca)
	cfg.ForbiddenCAs = []*x509.Certificate{talos.cert}
	a := start(t, cfg)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := a.Identify(r.Context(), identity.Request{TLS: r.TLS, Authorization: r.Header.Values("Authorization")})
		if err != nil {
			http.Error(w, string(classOf(t, err)), http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(caller.Subject))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	defer server.Close()
	for name, row := range map[string]struct {
		from *authority
		want string
	}{"ours": {&ca, "ada"}, "Talos's": {&talos, "forbidden-ca\n"}, "none": {nil, "no-credential\n"}} {
		t.Run(name, func(t *testing.T) {
			transport := server.Client().Transport.(*http.Transport).Clone()
			defer transport.CloseIdleConnections()
			if row.from != nil {
				key := newKey(t)
				cert := row.from.personWith(t, key.Public(), nil)
				transport.TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
			}
			response, err := (&http.Client{Transport: transport}).Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var body strings.Builder
			if err := response.Write(&body); err != nil {
				t.Fatal(err)
			}
			if _, got, _ := strings.Cut(body.String(), "\r\n\r\n"); got != row.want {
				t.Errorf("answer %q, want %q", got, row.want)
			}
		})
	}
}

// Controls: with the guard taken away where it lives, the bad end is reached, so the tests above do test the guard.

func TestControlWithoutForbiddenCAsTheCrossSignedCertificateIsAccepted(t *testing.T) {
	ca, talos := newAuthority(t, "people", nil), newAuthority(t, "talos", nil)
	crossed := authority{key: talos.key, cert: ca.personWith(t, talos.cert.PublicKey, func(c *x509.Certificate) {
		*c = x509.Certificate{
			SerialNumber: c.SerialNumber, Subject: talos.cert.Subject, NotBefore: c.NotBefore, NotAfter: c.NotAfter,
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
	})}
	caller, err := start(t, certificateConfig(ca)).Identify(context.Background(),
		identity.Request{TLS: shown(crossed.person(t, nil), crossed.cert)})
	if err != nil || caller.Subject != "ada" {
		t.Errorf("caller %+v, error %v; want it accepted", caller, err)
	}
}

func TestControlTheConfusedTokenVerifiesWhereHMACIsAllowed(t *testing.T) {
	key := newKey(t)
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	token := sign(t, "HS256", public, `{"alg":"HS256"}`, mustJSON(t, claimsAt(noon, nil)))
	if _, err := jws.Verify([]byte(token), jws.WithKey(jwa.HS256, public)); err != nil {
		t.Errorf("the forged token of the defect table would fail anyway: %v", err)
	}
}
