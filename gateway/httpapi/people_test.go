package httpapi

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/identity"
)

// csr is a certificate request as a JSON string, and csrKey its key.
var csrKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
})

var csr = func() string {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, csrKey())
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})))
	if err != nil {
		panic(err)
	}
	return string(text)
}()

func TestACertificateIsAskedForWithAKeyAndALifetime(t *testing.T) {
	w := newWorld(t)
	rec := w.do(t, request("POST", "/certificates", `{"csr":`+csr+`,"lifetime_seconds":3600}`))
	given, _ := w.last.([]any)
	key, _ := given[0].(crypto.PublicKey)
	if !csrKey().PublicKey.Equal(key) || given[1] != time.Hour {
		t.Errorf("asked for %v", given)
	}
	var got map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"certificate": "-----BEGIN CERTIFICATE-----\n", "serial": "beef", "not_after": "2026-09-01T13:00:00Z", "entry": numbered(78).String(), "clusters": []any{"berlin"},
		"identity": map[string]any{"issuer": "https://id.example", "subject": "vera", "kind": "human", "groups": []any{"operators"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoRequestForACertificateIsRefused(t *testing.T) {
	for _, row := range []struct{ name, body, detail string }{
		{"no request", `{"csr":"x"}`, "csr: the certificate request is no PEM"},
		{"a lifetime too short", `{"csr":` + csr + `,"lifetime_seconds":59}`, "lifetime_seconds is 60 to 31536000, not 59"},
		{"none at all", `{"csr":` + csr + `,"lifetime_seconds":0}`, "lifetime_seconds is 60 to 31536000, not 0"},
		{"a negative one", `{"csr":` + csr + `,"lifetime_seconds":-3600}`, "lifetime_seconds"},
		{"one too long", `{"csr":` + csr + `,"lifetime_seconds":31536001}`, "lifetime_seconds"},
		{"one beyond every number", `{"csr":` + csr + `,"lifetime_seconds":99999999999999999999}`, "lifetime_seconds"},
		{"a part of a second", `{"csr":` + csr + `,"lifetime_seconds":60.5}`, "lifetime_seconds"},
		{"without a request", `{}`, "csr"},
		{"a name beside it", `{"csr":` + csr + `,"subject":"root"}`, "it takes csr, lifetime_seconds"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			rec := w.refuses(t, request("POST", "/certificates", row.body), 400, "BW-HTTP-400")
			if !strings.Contains(rec.Body.String(), row.detail) || len(w.did) > 0 || !slices.Equal(w.entries, []string{"refused certificates.issue  BW-HTTP-400"}) {
				t.Errorf("%s, did %q, entries %q", rec.Body, w.did, w.entries)
			}
		})
	}
}

func TestADigestIsOfTheBodyByteForByte(t *testing.T) {
	w := newWorld(t)
	text := "a: \"b\"\r\n\xff\x00\n\n"
	rec := w.do(t, request("POST", "/digests", text))
	if given, _ := w.last.([]byte); string(given) != text || rec.Code != 201 {
		t.Errorf("%d, digested %q", rec.Code, given)
	}
	var got api.ComputedDigest
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := api.ComputedDigest{Digest: "hmac-sha256:k2:bb", Under: &map[string]string{"k1": "hmac-sha256:k1:aa", "k2": "hmac-sha256:k2:bb"}, Entry: numbered(79).String()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A type that a page of another site may send without asking first would let it digest in the name of whoever looks at it.
func TestADigestIsAskedForWithItsType(t *testing.T) {
	for name, kind := range map[string]string{
		"a form": "application/x-www-form-urlencoded", "plain text": "text/plain", "JSON": "application/json", "none": "", "another charset": "application/yaml; charset=latin1",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.refuses(t, request("POST", "/digests", "a: b\n", "Content-Type", kind), 415, "BW-HTTP-415")
			if len(w.did) > 0 {
				t.Errorf("did %q", w.did)
			}
		})
	}
	w := newWorld(t)
	w.refuses(t, request("POST", "/digests", "a: b\n", "Content-Encoding", "gzip"), 415, "BW-HTTP-415")
	w.refuses(t, request("POST", "/digests", ""), 400, "BW-HTTP-400")
}

func TestARepetitionOfAKeyThatIsBeingAddedIsToldSo(t *testing.T) {
	w := newWorld(t)
	w.fails = &control.ReplayedError{Receipt: receiptOf(numbered(5))}
	rec := w.refuses(t, request("POST", "/digest-keys", `{}`, "Idempotency-Key", "k"), 409, "BW-HTTP-409")
	if !strings.Contains(rec.Body.String(), "bronzeward digest-keys list") {
		t.Errorf("%s", rec.Body)
	}
}

// How to log in is told without a credential, so it names nothing of what is behind.
func TestHowToLogInNamesNoClusterAndNoMachine(t *testing.T) {
	w := newWorld(t)
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/login", nil)
	w.handler.ServeHTTP(rec, r)
	conforms(t, r, rec)
	want := `{"issuers":[{"audience":["bronzeward"],"client_id":"bronzeward","issuer":"https://id.example","scopes":["openid","profile","groups"]}],"talos_endpoints":["gate.example:50000"]}`
	if got := strings.TrimSpace(rec.Body.String()); got != want || len(w.entries) > 0 || w.looked > 0 {
		t.Errorf("got %s, entries %q, looked %d times", got, w.entries, w.looked)
	}
	cfg := w.config()
	cfg.Login = Login{}
	rec = httptest.NewRecorder()
	must(New(cfg))(t).ServeHTTP(rec, r)
	conforms(t, r, rec)
	if got := strings.TrimSpace(rec.Body.String()); got != `{"issuers":[],"talos_endpoints":[]}` {
		t.Errorf("without anything: %s", got)
	}
	w.allow = func(string, identity.Caller) bool { return false }
	rec = httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	conforms(t, r, rec)
	if rec.Code != 429 {
		t.Errorf("beyond the limit of an address: %d", rec.Code)
	}
}

// What an act fails for has its own status, and its cause stays in the log.
func TestARefusalWithACauseShowsItsSentenceAlone(t *testing.T) {
	for status, want := range map[codes.Code]int{codes.Unavailable: 503, codes.Unimplemented: 501, codes.FailedPrecondition: 409} {
		w := newWorld(t)
		w.fails = fmt.Errorf("%w: %w", refusedAct{status, numbered(6)}, errors.Join(errors.New("secret cause"), context.Canceled))
		rec := w.refuses(t, request("POST", "/certificates", `{"csr":`+csr+`}`), want, "BW-TEST-001")
		if strings.Contains(rec.Body.String(), "secret cause") || !strings.Contains(w.log.String(), "secret cause") || !strings.Contains(rec.Body.String(), "the sentence") {
			t.Errorf("%s\n%s", rec.Body, w.log)
		}
	}
}
