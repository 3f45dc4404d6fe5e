package identity_test

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bronzeward/gateway/identity"
)

func TestDiscoveryOverTLSWithTheIssuersOwnAuthority(t *testing.T) {
	key := newKey(t)
	keys := keySetJSON(t, publish(t, key.Public(), map[string]any{"kid": "k"}))
	evil := keySetJSON(t, publish(t, newKey(t).Public(), map[string]any{"kid": "k"}))
	for _, row := range []struct {
		name     string
		issuer   string // the path of the configured issuer
		document func(base string) string
		pinned   bool
		usable   bool
		says     string
	}{
		{"good", "", func(base string) string { return doc(base, base+"/keys") }, true, true, ""},
		{"issuer with a path", "/realms/a", func(base string) string { return doc(base+"/realms/a", base+"/keys") }, true, true, ""},
		{"issuer that ends in a slash", "/realms/b/", func(base string) string { return doc(base+"/realms/b/", base+"/keys") }, true, true, ""},
		{"authority not pinned", "", func(base string) string { return doc(base, base+"/keys") }, false, false, "certificate"},
		{"document of another issuer", "", func(base string) string { return doc("https://evil.example", base+"/keys") }, true, false, "it is for issuer"},
		{"document that adds a slash", "", func(base string) string { return doc(base+"/", base+"/keys") }, true, false, "it is for issuer"},
		{"keys over plain http elsewhere", "", func(base string) string { return doc(base, "http://evil.example/keys") }, true, false, "jwks_uri"},
		{"keys in a file", "", func(base string) string { return doc(base, "file:///etc/passwd") }, true, false, "jwks_uri"},
		{"no key address", "", func(base string) string { return doc(base, "") }, true, false, "jwks_uri"},
		{"redirected keys", "", func(base string) string { return doc(base, base+"/moved") }, true, false, "answers 302"},
		{"no JSON", "", func(string) string { return "<html>" }, true, false, "discovery document"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var base string
			mux := http.NewServeMux()
			mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keys) })
			mux.HandleFunc("/evil", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, evil) })
			mux.Handle("/moved", http.RedirectHandler("/evil", http.StatusFound))
			mux.HandleFunc(strings.TrimSuffix(row.issuer, "/")+"/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, row.document(base))
			})
			server := httptest.NewTLSServer(mux)
			defer server.Close()
			base = server.URL
			entry := identity.IssuerConfig{Issuer: base + row.issuer, Audience: []string{testAudience}}
			if row.pinned {
				entry.CACert = []*x509.Certificate{server.Certificate()}
			}
			a := start(t, identity.Config{Issuers: []identity.IssuerConfig{entry}, Now: func() time.Time { return noon }})
			health := a.Health()[0]
			if health.Usable != row.usable || !strings.Contains(health.Error, row.says) {
				t.Errorf("health %+v, want usable %v and an error with %q", health, row.usable, row.says)
			}
			_, err := a.Identify(t.Context(), bearer(signES256(t, key, "k", claimsAt(noon, map[string]any{"iss": entry.Issuer}))))
			want := identity.ClassKeysUnavailable
			if row.usable {
				want = ""
			}
			wantClass(t, err, want)
		})
	}
}

func doc(issuer, keys string) string {
	return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, keys)
}
