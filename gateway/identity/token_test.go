package identity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/gateway/identity"
)

// canary is in every field of every token of the defect table that can hold it.
const canary = "CanaryQx7"

func TestGoodTokenBecomesCaller(t *testing.T) {
	key := newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), map[string]any{"kid": "k1"}))
	a := start(t, tokenConfig(p))
	token := signES256(t, key, "k1", claimsAt(noon, nil))
	want := identity.Caller{
		Issuer: testIssuer, Subject: "ada", Name: "Ada L.", Kind: identity.KindHuman,
		Groups: []string{"approvers", "operators"}, Proof: identity.ProofToken, TokenID: "t-1",
		ProofEnds: noon.Add(11 * time.Minute), ProofIssued: noon,
	}
	for name, values := range map[string][]string{
		"bearer":                    {"Bearer " + token},
		"bearer in lower case":      {"bearer " + token},
		"password of basic":         basic("ada", token),
		"user name is ignored":      basic("somebody else", token),
		"empty user name":           basic("", token),
		"basic in upper case":       {"BASIC " + strings.TrimPrefix(basic("x", token)[0], "Basic ")},
		"second time, from memory":  {"Bearer " + token},
		"third time, other scheme ": basic("x", token),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := a.Identify(context.Background(), identity.Request{Authorization: values})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAuthorizationDefects(t *testing.T) {
	key := newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), map[string]any{"kid": "k1"}))
	a := start(t, tokenConfig(p))
	good := signES256(t, key, "k1", claimsAt(noon, nil))
	parts := strings.Split(good, ".")
	const malformed = identity.ClassMalformed
	for _, row := range []struct {
		name   string
		values []string
		want   identity.Class
	}{
		{"nothing", nil, identity.ClassNoCredential},
		{"empty value", []string{""}, malformed},
		{"the same value twice", []string{"Bearer " + good, "Bearer " + good}, identity.ClassSeveralCredentials},
		{"both schemes", append(basic("ada", good), "Bearer "+good), identity.ClassSeveralCredentials},
		{"both schemes in one value", []string{"Bearer " + good + ", Bearer " + good}, malformed},
		{"scheme alone", []string{"Bearer"}, malformed},
		{"empty bearer", []string{"Bearer "}, malformed},
		{"another scheme", []string{"Digest " + good}, malformed},
		{"token without scheme", []string{good}, malformed},
		{"two spaces", []string{"Bearer  " + good}, malformed},
		{"trailing space", []string{"Bearer " + good + " "}, malformed},
		{"line break in token", []string{"Bearer " + good[:20] + "\n" + good[20:]}, malformed},
		{"NUL in token", []string{"Bearer " + good + "\x00"}, malformed},
		{"bad UTF-8", []string{"Bearer \xff\xfe"}, malformed},
		{"basic that is not base64", []string{"Basic ***"}, malformed},
		{"basic with a line break", []string{basic("a", good)[0][:30] + "\n" + basic("a", good)[0][30:]}, malformed},
		{"basic without colon", []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(good))}, malformed},
		{"basic without password", basic("ada", ""), malformed},
		{"a password that is no token", basic("ada", "correct-horse-"+canary), malformed},
		{"two parts", []string{"Bearer " + parts[0] + "." + parts[1]}, malformed},
		{"four parts", []string{"Bearer " + good + ".x"}, malformed},
		{"five parts: encrypted", []string{"Bearer a.b.c.d.e"}, malformed},
		{"only dots", []string{"Bearer .."}, malformed},
		{"padded base64url", []string{"Bearer " + parts[0] + "=." + parts[1] + "." + parts[2]}, malformed},
		{"JSON serialization", basic("a", `{"payload":"`+parts[1]+`"}`), malformed},
		{"token over 16 KiB", []string{"Bearer " + strings.Repeat("a", 16<<10+1)}, malformed},
		{"value over its limit", []string{"Bearer " + strings.Repeat("a", 1<<20)}, malformed},
		{"signature cut off", []string{"Bearer " + parts[0] + "." + parts[1] + "."}, identity.ClassBadSignature},
		{"signature shortened", []string{"Bearer " + good[:len(good)-4]}, identity.ClassBadSignature},
	} {
		t.Run(row.name, func(t *testing.T) {
			caller, err := a.Identify(context.Background(), identity.Request{Authorization: row.values})
			if got := classOf(t, err); got != row.want {
				t.Errorf("class %q, want %q (%v)", got, row.want, err)
			}
			if diff := cmp.Diff(identity.Caller{}, caller); diff != "" {
				t.Errorf("a refused call has a caller: %s", diff)
			}
			wantNoBytesOf(t, err, row.values...)
		})
	}
}

// wantNoBytesOf fails when the error, or any cause below it, has the canary or a run of eight bytes of a credential.
func wantNoBytesOf(t *testing.T, err error, credentials ...string) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		text := err.Error()
		if strings.Contains(text, canary) {
			t.Errorf("the canary is in %q", text)
		}
		for _, credential := range credentials {
			for _, part := range strings.FieldsFunc(credential, func(r rune) bool { return r == '.' || r == ' ' || r == ':' }) {
				for i := 0; i+8 <= len(part) && i < 4096; i++ {
					if part[:8] != "aaaaaaaa" && strings.Contains(text, part[i:i+8]) {
						t.Fatalf("%q of the credential is in %q", part[i:i+8], text)
					}
				}
			}
		}
	}
}

func TestTokenDefects(t *testing.T) {
	key, stranger := newKey(t), newKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &fakeIDP{}
	p.serve(t,
		publish(t, key.Public(), map[string]any{"kid": "k1"}),
		publish(t, rsaKey.Public(), map[string]any{"kid": "r1", "alg": "RS256"}))
	a := start(t, tokenConfig(p))

	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	none := func(alg string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+alg+`","kid":"k1"}`)) + "." +
			base64.RawURLEncoding.EncodeToString([]byte(mustJSON(t, claimsAt(noon, nil)))) + "."
	}
	with := func(members map[string]any) string {
		if _, ok := members["jti"]; !ok {
			members["jti"] = canary
		}
		members["note"] = canary
		return signES256(t, key, "k1", claimsAt(noon, members))
	}
	// headed and said sign exactly this text.
	goodClaims := mustJSON(t, claimsAt(noon, map[string]any{"note": canary}))
	headed := func(header string) string { return sign(t, "ES256", key, header, goodClaims) }
	said := func(payload string) string { return sign(t, "ES256", key, `{"alg":"ES256","kid":"k1"}`, payload) }
	withoutBrace := strings.TrimSuffix(goodClaims, "}")

	const malformed = identity.ClassMalformed
	for _, row := range []struct {
		name  string
		token string
		want  identity.Class
	}{
		{"good control", with(map[string]any{}), ""},
		{"good control by hand", headed(`{"alg":"ES256","kid":"k1"}`), ""},
		{"access token type", headed(`{"alg":"ES256","kid":"k1","typ":"at+JWT"}`), ""},
		{"no nbf", with(map[string]any{"nbf": nil}), ""},
		{"dates with fractions", with(map[string]any{"iat": float64(noon.Unix()) - 0.5}), ""},

		{"algorithm none", none("none"), identity.ClassAlgorithm},
		{"algorithm None", none("None"), identity.ClassAlgorithm},
		{"no algorithm", headed(`{"kid":"k1"}`), identity.ClassAlgorithm},
		{"algorithm twice", headed(`{"alg":"none","alg":"ES256","kid":"k1"}`), malformed},
		{"algorithm of wrong type", headed(`{"alg":["ES256"],"kid":"k1"}`), malformed},
		{"alg in another case is not alg", headed(`{"ALG":"ES256","kid":"k1"}`), identity.ClassAlgorithm},
		{"HS256 keyed with the public key in PEM", sign(t, "HS256", publicPEM, `{"alg":"HS256","kid":"r1"}`, goodClaims), identity.ClassAlgorithm},
		{"HS256 keyed with the public key in DER", sign(t, "HS256", der, `{"alg":"HS256","kid":"r1"}`, goodClaims), identity.ClassAlgorithm},
		{"RSA signature said to be of the EC key", sign(t, "RS256", rsaKey, `{"alg":"RS256","kid":"k1"}`, goodClaims), identity.ClassAlgorithm},
		{"PS256 with a key published for RS256", sign(t, "PS256", rsaKey, `{"alg":"PS256","kid":"r1"}`, goodClaims), identity.ClassAlgorithm},
		{"EC signature said to be RSA", sign(t, "ES256", key, `{"alg":"RS256","kid":"r1"}`, goodClaims), identity.ClassBadSignature},
		{"ES384 said of a P-256 key", headed(`{"alg":"ES384","kid":"k1"}`), identity.ClassAlgorithm},

		{"signed by a stranger", signES256(t, stranger, "k1", claimsAt(noon, nil)), identity.ClassBadSignature},
		{"claims swapped under a signature", swapClaims(t, with(map[string]any{}), claimsAt(noon, map[string]any{"sub": "root"})), identity.ClassBadSignature},
		{"no kid while two keys are published", signES256(t, key, "", claimsAt(noon, nil)), malformed},
		{"unknown kid", signES256(t, key, "k9"+canary, claimsAt(noon, nil)), identity.ClassUnknownKey},
		{"kid that walks paths", signES256(t, key, "../../../../etc/"+canary, claimsAt(noon, nil)), identity.ClassUnknownKey},
		{"kid that is a URL", signES256(t, key, "https://evil.example/"+canary, claimsAt(noon, nil)), identity.ClassUnknownKey},
		{"kid with NUL", signES256(t, key, "k1\x00", claimsAt(noon, nil)), malformed},
		{"kid of 2000 bytes", signES256(t, key, strings.Repeat("k", 2000), claimsAt(noon, nil)), malformed},
		{"kid of wrong type", headed(`{"alg":"ES256","kid":1}`), malformed},
		{"kid null", headed(`{"alg":"ES256","kid":null}`), malformed},
		{"its own key in the header", headed(`{"alg":"ES256","kid":"k1","jwk":{}}`), malformed},
		{"a key address in the header", headed(`{"alg":"ES256","kid":"k1","jku":"https://evil.example"}`), malformed},
		{"a certificate address in the header", headed(`{"alg":"ES256","kid":"k1","x5u":"https://evil.example"}`), malformed},
		{"critical extension", headed(`{"alg":"ES256","kid":"k1","crit":["exp"]}`), malformed},
		{"payload not encoded", headed(`{"alg":"ES256","kid":"k1","b64":false}`), malformed},
		{"logout token", headed(`{"alg":"ES256","kid":"k1","typ":"logout+jwt"}`), malformed},
		{"header that is a list", headed(`["ES256"]`), malformed},
		{"header with a tail", headed(`{"alg":"ES256","kid":"k1"}{}`), malformed},

		{"no issuer", with(map[string]any{"iss": nil}), malformed},
		{"empty issuer", with(map[string]any{"iss": ""}), malformed},
		{"unknown issuer", with(map[string]any{"iss": "https://evil.example"}), identity.ClassUnknownIssuer},
		{"unknown issuer that is a secret", with(map[string]any{"iss": canary}), identity.ClassUnknownIssuer},
		{"unknown issuer with a password", with(map[string]any{"iss": "https://ada:" + canary + "@idp.example"}), identity.ClassUnknownIssuer},
		{"issuer with a slash more", with(map[string]any{"iss": testIssuer + "/"}), identity.ClassUnknownIssuer},
		{"issuer in another case", with(map[string]any{"iss": "https://IDP.example"}), identity.ClassUnknownIssuer},
		{"issuer as a list", with(map[string]any{"iss": []string{testIssuer}}), malformed},

		{"no audience", with(map[string]any{"aud": nil}), identity.ClassWrongAudience},
		{"wrong audience", with(map[string]any{"aud": "kubernetes"}), identity.ClassWrongAudience},
		{"audience in another case", with(map[string]any{"aud": "Bronzeward"}), identity.ClassWrongAudience},
		{"empty audience list", with(map[string]any{"aud": []string{}}), identity.ClassWrongAudience},
		{"audience is a number", with(map[string]any{"aud": 7}), malformed},
		{"audience null", said(withoutBraceSet(t, "aud", "null")), malformed},
		{"one of several audiences is ours", with(map[string]any{"aud": []string{"other", testAudience}}), ""},

		{"no subject", with(map[string]any{"sub": nil}), malformed},
		{"Sub is not sub", with(map[string]any{"sub": nil, "Sub": "ada"}), malformed},
		{"empty subject", with(map[string]any{"sub": ""}), malformed},
		{"subject of spaces", with(map[string]any{"sub": "  "}), malformed},
		{"subject with a trailing space", with(map[string]any{"sub": "ada "}), malformed},
		{"subject with NUL", with(map[string]any{"sub": "ada\x00"}), malformed},
		{"subject with a line break", with(map[string]any{"sub": "ada\nroot"}), malformed},
		{"subject with a right-to-left override", with(map[string]any{"sub": "ada\u202e"}), malformed},
		{"subject with a zero-width space", with(map[string]any{"sub": "a\u200bda"}), malformed},
		{"subject with half a surrogate", said(strings.Replace(goodClaims, `"ada"`, `"ada\ud800"`, 1)), malformed},
		{"subject with bad UTF-8", said(strings.Replace(goodClaims, `"ada"`, "\"ada\xff\"", 1)), malformed},
		{"subject of 1000 bytes", with(map[string]any{"sub": strings.Repeat("a", 1000)}), ""},
		{"subject of 1001 bytes", with(map[string]any{"sub": strings.Repeat("a", 1001)}), malformed},
		{"subject is a number", with(map[string]any{"sub": 7}), malformed},
		{"subject null", said(withoutBraceSet(t, "sub", "null")), malformed},
		{"subject twice", said(withoutBrace + `,"sub":"root"}`), malformed},
		{"subject twice, once in escapes", said(withoutBrace + `,"s\u0075b":"root"}`), malformed},
		{"a name twice deep inside", said(withoutBrace + `,"x":{"y":[{"z":1,"z":2}]}}`), malformed},
		{"claims nested deeply", said(withoutBrace + `,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`), malformed},
		{"claims with a tail", said(goodClaims + "x"), malformed},
		{"claims that are a list", said(`[]`), malformed},
		{"claims that are null", said(`null`), malformed},
		{"claims that are empty", said(``), malformed},
		{"claims cut off", said(withoutBrace), malformed},

		{"token id of wrong type", with(map[string]any{"jti": 7}), malformed},
		{"empty token id", with(map[string]any{"jti": ""}), malformed},
		{"groups that are a map", with(map[string]any{"groups": map[string]any{}}), malformed},
		{"groups with a number", with(map[string]any{"groups": []any{"a", 7}}), malformed},
		{"groups with null", with(map[string]any{"groups": []any{nil}}), malformed},
		{"groups null", said(withoutBraceSet(t, "groups", "null")), malformed},
		{"an empty group", with(map[string]any{"groups": []string{""}}), malformed},
		{"more than 1000 groups", with(map[string]any{"groups": strings.Split(strings.Repeat("g,", 1000)+"g", ",")}), malformed},
		{"kind nobody knows", with(map[string]any{"bronzeward_kind": "robot" + canary}), malformed},
		{"kind of wrong type", with(map[string]any{"bronzeward_kind": true}), malformed},
		{"bound to a key", with(map[string]any{"cnf": map[string]any{"jkt": canary}}), malformed},

		{"no end", with(map[string]any{"exp": nil}), malformed},
		{"no issue time", with(map[string]any{"iat": nil}), malformed},
		{"end as a string", with(map[string]any{"exp": "9999999999"}), malformed},
		{"end null", said(withoutBraceSet(t, "exp", "null")), malformed},
		{"end negative", with(map[string]any{"exp": -1}), malformed},
		{"end beyond any calendar", said(withoutBraceSet(t, "exp", "1e300")), malformed},
		{"end before issue", with(map[string]any{"iat": noon.Unix(), "exp": noon.Unix() - 1}), malformed},
		{"ends as it is issued", with(map[string]any{"iat": noon.Unix(), "exp": noon.Unix()}), malformed},
		{"start as a string", with(map[string]any{"nbf": "0"}), malformed},
		{"expired", with(map[string]any{"iat": noon.Add(-time.Hour).Unix(), "nbf": nil, "exp": noon.Add(-time.Hour + time.Minute).Unix()}), identity.ClassExpired},
		{"not yet valid", with(map[string]any{"nbf": noon.Add(5 * time.Minute).Unix()}), identity.ClassNotYetValid},
		{"issued in the future", with(map[string]any{"iat": noon.Add(5 * time.Minute).Unix(), "nbf": nil}), identity.ClassNotYetValid},
		{"lives too long", with(map[string]any{"exp": noon.Add(time.Hour).Unix()}), identity.ClassLifetime},
		{"lives exactly long enough", with(map[string]any{"exp": noon.Add(15 * time.Minute).Unix()}), ""},
		{"lives a second too long", with(map[string]any{"exp": noon.Add(15*time.Minute + time.Second).Unix()}), identity.ClassLifetime},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := a.Identify(context.Background(), bearer(row.token))
			if got := classOf(t, err); got != row.want {
				t.Errorf("class %q, want %q (%v)", got, row.want, err)
			}
			wantNoBytesOf(t, err, row.token)
			// Once more: what the caches keep must not change the answer.
			_, err = a.Identify(context.Background(), bearer(row.token))
			if got := classOf(t, err); got != row.want {
				t.Errorf("second time: class %q, want %q (%v)", got, row.want, err)
			}
		})
	}
}

// withoutBraceSet is a good payload in which one member has this raw JSON.
func withoutBraceSet(t *testing.T, name, raw string) string {
	t.Helper()
	rest := strings.TrimPrefix(mustJSON(t, claimsAt(noon, map[string]any{name: nil})), "{")
	return `{"` + name + `":` + raw + `,` + rest
}

func swapClaims(t *testing.T, token string, claims map[string]any) string {
	t.Helper()
	parts := strings.Split(token, ".")
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(mustJSON(t, claims)))
	return strings.Join(parts, ".")
}

func TestLifetimeRefusalNamesTheLifeAndTheSetting(t *testing.T) {
	key := newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), nil))
	a := start(t, tokenConfig(p))
	_, err := a.Identify(context.Background(), bearer(signES256(t, key, "", claimsAt(noon, map[string]any{"exp": noon.Add(time.Hour).Unix()}))))
	want := "lifetime: the token lives 1h0m0s, longer than identity.max_token_lifetime (15m0s)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestClockSkewBoundaries(t *testing.T) {
	key := newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), nil))
	at := func(seconds int) int64 { return noon.Add(time.Duration(seconds) * time.Second).Unix() }
	for _, row := range []struct {
		name string
		skew time.Duration
		set  map[string]any
		want identity.Class
	}{
		{"exp one second inside the skew", 0, map[string]any{"iat": at(-300), "nbf": nil, "exp": at(-59)}, ""},
		{"exp at the end of the skew", 0, map[string]any{"iat": at(-300), "nbf": nil, "exp": at(-60)}, identity.ClassExpired},
		{"nbf at the end of the skew", 0, map[string]any{"nbf": at(60)}, ""},
		{"nbf one second beyond", 0, map[string]any{"nbf": at(61)}, identity.ClassNotYetValid},
		{"iat at the end of the skew", 0, map[string]any{"iat": at(60), "nbf": nil}, ""},
		{"iat one second beyond", 0, map[string]any{"iat": at(61), "nbf": nil}, identity.ClassNotYetValid},
		{"skew of a second: exp now", time.Second, map[string]any{"iat": at(-300), "nbf": nil, "exp": at(0)}, ""},
		{"skew of a second: exp a second ago", time.Second, map[string]any{"iat": at(-300), "nbf": nil, "exp": at(-1)}, identity.ClassExpired},
		{"skew of five minutes: exp 299 s ago", 5 * time.Minute, map[string]any{"iat": at(-600), "nbf": nil, "exp": at(-299)}, ""},
		{"skew of five minutes: exp 300 s ago", 5 * time.Minute, map[string]any{"iat": at(-600), "nbf": nil, "exp": at(-300)}, identity.ClassExpired},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := tokenConfig(p)
			cfg.ClockSkew = row.skew
			caller, err := start(t, cfg).Identify(context.Background(), bearer(signES256(t, key, "", claimsAt(noon, row.set))))
			if got := classOf(t, err); got != row.want {
				t.Errorf("class %q, want %q", got, row.want)
			}
			if err == nil && !caller.ProofEnds.After(noon) {
				t.Errorf("accepted at %v although the proof ends at %v", noon, caller.ProofEnds)
			}
		})
	}
}

func TestEveryAsymmetricAlgorithmVerifies(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve := func(c elliptic.Curve) *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	p256, p384, p521 := newKey(t), curve(elliptic.P384()), curve(elliptic.P521())
	p := &fakeIDP{}
	p.serve(t,
		publish(t, rsaKey.Public(), map[string]any{"kid": "rsa"}), publish(t, edKey.Public(), map[string]any{"kid": "ed"}),
		publish(t, p256.Public(), map[string]any{"kid": "p256"}), publish(t, p384.Public(), map[string]any{"kid": "p384"}),
		publish(t, p521.Public(), map[string]any{"kid": "p521"}))
	all, narrow := tokenConfig(p), tokenConfig(p)
	narrow.Issuers[0].Algorithms = []string{"RS512"}
	anyAlg, onlyRS512 := start(t, all), start(t, narrow)
	for _, row := range []struct {
		alg, kid string
		key      any
	}{
		{"RS256", "rsa", rsaKey},
		{"RS384", "rsa", rsaKey},
		{"RS512", "rsa", rsaKey},
		{"PS256", "rsa", rsaKey},
		{"PS384", "rsa", rsaKey},
		{"PS512", "rsa", rsaKey},
		{"ES256", "p256", p256},
		{"ES384", "p384", p384},
		{"ES512", "p521", p521},
		{"EdDSA", "ed", edKey},
	} {
		t.Run(row.alg, func(t *testing.T) {
			token := sign(t, row.alg, row.key, `{"alg":"`+row.alg+`","kid":"`+row.kid+`"}`, mustJSON(t, claimsAt(noon, nil)))
			if _, err := anyAlg.Identify(context.Background(), bearer(token)); err != nil {
				t.Error(err)
			}
			want := identity.ClassAlgorithm
			if row.alg == "RS512" {
				want = ""
			}
			if _, err := onlyRS512.Identify(context.Background(), bearer(token)); classOf(t, err) != want {
				t.Errorf("with RS512 alone: %v, want class %q", err, want)
			}
		})
	}
}

func TestKindAndGroupsFollowTheIssuersEntry(t *testing.T) {
	key := newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, key.Public(), nil))
	for _, row := range []struct {
		name   string
		entry  func(*identity.IssuerConfig)
		claims map[string]any
		kind   identity.Kind
		groups []string
		shown  string
	}{
		{"nothing said is human", func(*identity.IssuerConfig) {}, map[string]any{"groups": nil}, identity.KindHuman, nil, "Ada L."},
		{"the claim says human", func(*identity.IssuerConfig) {}, map[string]any{"bronzeward_kind": "human", "groups": "one"}, identity.KindHuman, []string{"one"}, "Ada L."},
		{"the claim says automation", func(*identity.IssuerConfig) {}, map[string]any{"bronzeward_kind": "automation", "groups": []string{"b", "a", "b"}}, identity.KindAutomation, []string{"a", "b"}, "Ada L."},
		{"the entry says automation and the claim cannot undo it", func(c *identity.IssuerConfig) { c.Kind = identity.KindAutomation }, map[string]any{"bronzeward_kind": "human", "groups": []string{}}, identity.KindAutomation, nil, "Ada L."},
		{"an entry that says human does not undo the claim", func(c *identity.IssuerConfig) { c.Kind = identity.KindHuman }, map[string]any{"bronzeward_kind": "automation", "groups": nil}, identity.KindAutomation, nil, "Ada L."},
		{"another kind claim", func(c *identity.IssuerConfig) { c.KindClaim = "who" }, map[string]any{"who": "automation", "bronzeward_kind": "nonsense", "groups": nil}, identity.KindAutomation, nil, "Ada L."},
		{"a claim by its value", func(c *identity.IssuerConfig) {
			c.AutomationWhen = []identity.ClaimMatch{{Claim: "idtyp", Value: "app"}}
		}, map[string]any{"idtyp": "app", "groups": nil}, identity.KindAutomation, nil, "Ada L."},
		{"a claim by another value", func(c *identity.IssuerConfig) {
			c.AutomationWhen = []identity.ClaimMatch{{Claim: "idtyp", Value: "app"}}
		}, map[string]any{"idtyp": "user", "groups": nil}, identity.KindHuman, nil, "Ada L."},
		{"prefix and another claim", func(c *identity.IssuerConfig) { c.GroupsClaim, c.GroupPrefix = "https://x/roles", "ci:" }, map[string]any{"https://x/roles": []string{"approvers"}}, identity.KindHuman, []string{"ci:approvers"}, "Ada L."},
		{"another name claim", func(c *identity.IssuerConfig) { c.NameClaim = "upn" }, map[string]any{"upn": "ada\u202e\n@x", "groups": nil}, identity.KindHuman, nil, "ada@x"},
		{"a name of wrong type is no name", func(c *identity.IssuerConfig) { c.NameClaim = "upn" }, map[string]any{"upn": 7, "groups": nil}, identity.KindHuman, nil, ""},
		{"mail when there is no user name", func(*identity.IssuerConfig) {}, map[string]any{"preferred_username": nil, "email": "ada@x", "groups": nil}, identity.KindHuman, nil, "ada@x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := tokenConfig(p)
			row.entry(&cfg.Issuers[0])
			caller, err := start(t, cfg).Identify(context.Background(), bearer(signES256(t, key, "", claimsAt(noon, row.claims))))
			if err != nil {
				t.Fatal(err)
			}
			if caller.Kind != row.kind || caller.Name != row.shown {
				t.Errorf("kind %q name %q, want %q %q", caller.Kind, caller.Name, row.kind, row.shown)
			}
			if len(caller.Groups)+len(row.groups) > 0 {
				if diff := cmp.Diff(row.groups, caller.Groups); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}
