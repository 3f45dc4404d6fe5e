package identity_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"bronzeward/gateway/identity"
)

// wantSoundCaller holds what every accepted Caller must be, whatever was sent.
func wantSoundCaller(t *testing.T, caller identity.Caller) {
	t.Helper()
	for _, text := range append([]string{caller.Issuer, caller.Subject}, caller.Groups...) {
		if text == "" || len(text) > 1100 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\r\n\ufffd") {
			t.Errorf("unsound text %q", text)
		}
	}
	if caller.Kind != identity.KindHuman && caller.Kind != identity.KindAutomation {
		t.Errorf("unsound kind %q", caller.Kind)
	}
	if !caller.ProofEnds.After(noon) {
		t.Errorf("accepted at %v, ends %v", noon, caller.ProofEnds)
	}
}

func wantSoundRefusal(t *testing.T, err error) {
	t.Helper()
	var refusal *identity.Refusal
	if !errors.As(err, &refusal) || refusal.Class == "" || refusal.Message == "" {
		t.Errorf("unsound refusal %v", err)
		return
	}
	if !utf8.ValidString(refusal.Message) || strings.ContainsAny(refusal.Message, "\x00\r\n") || len(refusal.Message) > 300 {
		t.Errorf("unsound message %q", refusal.Message)
	}
}

// Random authorization values never prove anybody: none of them is signed with a published key.
func FuzzAuthorization(f *testing.F) {
	key := newKey(f)
	p := &fakeIDP{}
	p.serve(f, publish(f, key.Public(), map[string]any{"kid": "k"}))
	a := start(f, tokenConfig(p))
	stranger := signES256(f, newKey(f), "k", claimsAt(noon, nil))
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(stranger, ".")[1] + "."
	for _, seed := range []string{
		"", "Bearer", "Bearer ", "Basic Og==", "Basic \xff", "Bearer " + stranger, basic("", stranger)[0], "Bearer " + none,
		"Bearer " + stranger + ", Bearer " + stranger, "Bearer ....", "Bearer bnVsbA.bnVsbA.", "basic eDp5", "Bearer e30.e30.AA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		_, err := a.Identify(context.Background(), identity.Request{Authorization: []string{value}})
		if err == nil {
			t.Fatalf("%q proves somebody", value)
		}
		wantSoundRefusal(t, err)
	})
}

// Random headers and claims under a good signature: refused, or a sound Caller. No panic in either.
func FuzzSignedToken(f *testing.F) {
	key := newKey(f)
	p := &fakeIDP{}
	p.serve(f, publish(f, key.Public(), map[string]any{"kid": "k"}))
	a := start(f, tokenConfig(p))
	good := mustJSON(f, claimsAt(noon, nil))
	f.Add(`{"alg":"ES256","kid":"k"}`, good)
	f.Add(`{"alg":"ES256"}`, strings.Replace(good, "ada", `\ud800`, 1))
	f.Add(`{"alg":"ES256","alg":"none"}`, good)
	f.Add(`{"alg":"ES256"}`, strings.Replace(good, `"exp":`, `"exp":1e400,"x":`, 1))
	f.Add(`[`, `{"iss":"https://idp.example"`)
	f.Add(`{"alg":"ES256"}`, strings.Repeat("[", 5000))
	f.Fuzz(func(t *testing.T, header, claims string) {
		caller, err := a.Identify(context.Background(), bearer(sign(t, "ES256", key, header, claims)))
		if err != nil {
			wantSoundRefusal(t, err)
			return
		}
		wantSoundCaller(t, caller)
	})
}

// Random URIs in a certificate of ours: refused, or a sound Caller that the URIs written back name again.
func FuzzCertificateURIs(f *testing.F) {
	ca := newAuthority(f, "people", nil)
	a := start(f, certificateConfig(ca))
	public := newKey(f).Public()
	f.Add(identity.IdentityURI("https://idp.example", "ada", identity.KindHuman).String(), identity.GroupURI("a/b c%").String())
	f.Add("bronzeward://identity?issuer=i&subject=%00&kind=human", "bronzeward://group/%ff")
	f.Add("bronzeward://identity?issuer=i&subject=s&kind=automation", "bronzeward:///group/a")
	f.Add("spiffe://x/y", "bronzeward://identity?issuer=i&subject=s&kind=human")
	f.Fuzz(func(t *testing.T, first, second string) {
		var uris []*url.URL
		for _, text := range []string{first, second} {
			if u, err := url.Parse(text); err == nil {
				uris = append(uris, u)
			}
		}
		cert := tryPerson(t, ca, public, uris)
		if cert == nil {
			return
		}
		caller, err := a.Identify(context.Background(), identity.Request{TLS: shown(cert)})
		if err != nil {
			wantSoundRefusal(t, err)
			return
		}
		wantSoundCaller(t, caller)
		again := []*url.URL{identity.IdentityURI(caller.Issuer, caller.Subject, caller.Kind)}
		for _, group := range caller.Groups {
			again = append(again, identity.GroupURI(group))
		}
		cert = tryPerson(t, ca, public, again)
		if cert == nil {
			t.Fatalf("the URIs written for %+v make no certificate", caller)
		}
		back, err := a.Identify(context.Background(), identity.Request{TLS: shown(cert)})
		if err != nil || back.Issuer != caller.Issuer || back.Subject != caller.Subject || len(back.Groups) != len(caller.Groups) {
			t.Errorf("%+v came back as %+v, %v", caller, back, err)
		}
	})
}

// tryPerson makes a certificate with these URIs, or nil where X.509 itself does not take them.
func tryPerson(t *testing.T, ca authority, public any, uris []*url.URL) (cert *x509.Certificate) {
	t.Helper()
	template := *ca.person(t, nil)
	template.URIs, template.ExtraExtensions, template.Extensions = uris, nil, nil
	return tryCertify(&template, ca, public)
}

// Random key set documents: an error or at least one key, and no panic.
func FuzzKeySetDocument(f *testing.F) {
	key := newKey(f)
	f.Add(keySetJSON(f, publish(f, key.Public(), nil)))
	f.Add(keySetJSON(f, publish(f, key, nil)))
	f.Add(`{"keys":[{"kty":"oct","k":"AA"},{"kty":"OKP","crv":"X25519","x":"AA"},{"kty":"RSA","n":"","e":"AQAB"}]}`)
	f.Add(`{"keys":[null,1,"x",[],{}]}`)
	f.Add(`{"keys":`)
	f.Fuzz(func(t *testing.T, document string) {
		p := &fakeIDP{answers: map[string]string{testKeys: document}}
		a := start(t, tokenConfig(p))
		health := a.Health()[0]
		if health.Usable != (health.Keys > 0) || health.Usable == (health.Error != "") {
			t.Errorf("health %+v", health)
		}
	})
}
