package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/gateway/httpapi/api"
)

// stub is a gateway's HTTP side of which a test says what it answers.
type stub struct {
	*httptest.Server
	mux    *http.ServeMux
	people *gatewaypki.Authority
	// ca is the file that vouches for it; certificate and key are olga's.
	ca, certificate, key string

	mu   sync.Mutex // guards seen
	seen []request
}

// request is one that came.
type request struct {
	method, path, query string
	header              http.Header
	body                string
	// who is the subject of the client certificate shown, empty without one.
	who string
}

// stubNow is what the stub's clock says, so that spans of time are the same at every run.
var stubNow = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // constant

const (
	stubDecision = "019a5c3e-7b1d-7f00-8000-0123456789ab"
	stubIssuer   = "https://people.example"
)

// newStub starts a stub, and says by the environment that it and olga's certificate are to
// be used.
func newStub(t *testing.T) *stub {
	t.Helper()
	folder := t.TempDir()
	server, err := gatewaypki.New(gatewaypki.Config{Name: "server CA"})
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{mux: http.NewServeMux()}
	if s.people, err = gatewaypki.New(gatewaypki.Config{Name: "people CA"}); err != nil {
		t.Fatal(err)
	}
	pair, err := server.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	served, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := server.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if s.ca, _, err = authority.Write(folder, "server-ca"); err != nil {
		t.Fatal(err)
	}
	s.certificate, s.key = s.person(t, "olga")
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{served}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Setenv("BRONZEWARD_SERVER", s.URL)
	t.Setenv("BRONZEWARD_SERVER_CA", s.ca)
	t.Setenv("BRONZEWARD_CERTIFICATE", s.certificate)
	t.Setenv("BRONZEWARD_KEY", s.key)
	return s
}

// person makes somebody's certificate and gives its files.
func (s *stub) person(t *testing.T, subject string) (certificate, key string) {
	t.Helper()
	pair, err := s.people.Person(gatewaypki.Person{Issuer: stubIssuer, Subject: subject, Kind: "human", Groups: []string{"approvers"}})
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err = pair.Write(t.TempDir(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func (s *stub) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body)) // for the handler: the newest request may be another's
	one := request{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery, header: r.Header.Clone(), body: string(body)}
	for _, certificate := range r.TLS.PeerCertificates {
		for _, name := range certificate.URIs {
			one.who += name.Query().Get("subject")
		}
	}
	s.mu.Lock()
	s.seen = append(s.seen, one)
	s.mu.Unlock()
	w.Header().Set("Date", stubNow.Format(http.TimeFormat))
	w.Header().Set("Bronzeward-Decision", stubDecision)
	s.mux.ServeHTTP(w, r)
}

// requests are those that came so far.
func (s *stub) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.seen...)
}

// on answers requests that match a pattern of net/http's mux, each time with the next of
// these answers; the last one stays.
func (s *stub) on(pattern string, answers ...http.HandlerFunc) {
	var mu sync.Mutex
	n := 0
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		next(w, r)
	})
}

// gives answers with a value of package api.
func gives(status int, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
}

// lists answers GET /changes with those of these, newest first, that its query asks for by
// state and requester.
func lists(changes ...api.Change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, out := r.URL.Query(), []api.Change{}
		for _, c := range changes {
			state := len(q["state"]) == 0 || slices.Contains(q["state"], string(c.State)) || slices.Contains(q["state"], "live") && (c.State == api.ChangeStateWaiting || c.State == api.ChangeStateApproved)
			if state && (!q.Has("requester") || q.Get("requester") == c.Requester.Subject && q.Get("requester_issuer") == c.Requester.Issuer) {
				out = append(out, c)
			}
		}
		gives(http.StatusOK, api.ChangeList{Items: out})(w, r)
	}
}

// tagged answers with a value and its ETag.
func tagged(tag string, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		gives(http.StatusOK, value)(w, r)
	}
}

// same answers that nothing moved.
func same304(tag string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", tag)
		w.WriteHeader(http.StatusNotModified)
	}
}

// refuses answers with a problem document.
func refuses(status int, code, detail, hint string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := api.Problem{
			Type: api.AboutBlank, Title: http.StatusText(status), Status: status, Detail: detail, Code: code,
			Instance: r.URL.Path, Decision: new(stubDecision),
		}
		if hint != "" {
			p.Hint = &hint
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(p)
	}
}

// breaksOff ends the connection in the middle of an answer.
func breaksOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte("{"))
	panic(http.ErrAbortHandler)
}

// posted are the bodies that came to a path, read strictly.
func posted[T any](t *testing.T, s *stub, path string) []T {
	t.Helper()
	var out []T
	for _, r := range s.requests() {
		if r.method != http.MethodPost || r.path != path {
			continue
		}
		var one T
		decoder := json.NewDecoder(strings.NewReader(r.body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}
