package clitest

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

// Stub is a gateway's HTTP side of which a test says what it answers.
type Stub struct {
	*httptest.Server
	Mux    *http.ServeMux
	People *gatewaypki.Authority
	// CA is the file that vouches for it; Certificate and Key are olga's.
	CA, Certificate, Key string

	mu   sync.Mutex // guards seen
	seen []request
}

// request is one that came.
type request struct {
	Method, Path, Query string
	Header              http.Header
	Body                string
	// Who is the subject of the client certificate shown, empty without one.
	Who string
}

// StubNow is what the stub's clock says, so that spans of time are the same at every run.
var StubNow = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // constant

// What a stub says of itself: the entry that every request leaves in the book, and the issuer of its people.
const (
	StubDecision = "019a5c3e-7b1d-7f00-8000-0123456789ab"
	StubIssuer   = "https://people.example"
)

// NewStub starts a stub, and says by the environment that it and olga's certificate are to
// be used.
func NewStub(t *testing.T) *Stub {
	t.Helper()
	folder := t.TempDir()
	server, err := gatewaypki.New(gatewaypki.Config{Name: "server CA"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Stub{Mux: http.NewServeMux()}
	if s.People, err = gatewaypki.New(gatewaypki.Config{Name: "people CA"}); err != nil {
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
	if s.CA, _, err = authority.Write(folder, "server-ca"); err != nil {
		t.Fatal(err)
	}
	s.Certificate, s.Key = s.Person(t, "olga")
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{served}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Setenv("BRONZEWARD_SERVER", s.URL)
	t.Setenv("BRONZEWARD_SERVER_CA", s.CA)
	t.Setenv("BRONZEWARD_CERTIFICATE", s.Certificate)
	t.Setenv("BRONZEWARD_KEY", s.Key)
	return s
}

// Person makes somebody's certificate and gives its files.
func (s *Stub) Person(t *testing.T, subject string) (certificate, key string) {
	t.Helper()
	pair, err := s.People.Person(gatewaypki.Person{Issuer: StubIssuer, Subject: subject, Kind: "human", Groups: []string{"approvers"}})
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err = pair.Write(t.TempDir(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func (s *Stub) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body)) // for the handler: the newest request may be another's
	one := request{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: string(body)}
	for _, certificate := range r.TLS.PeerCertificates {
		for _, name := range certificate.URIs {
			one.Who += name.Query().Get("subject")
		}
	}
	s.mu.Lock()
	s.seen = append(s.seen, one)
	s.mu.Unlock()
	w.Header().Set("Date", StubNow.Format(http.TimeFormat))
	w.Header().Set("Bronzeward-Decision", StubDecision)
	s.Mux.ServeHTTP(w, r)
}

// Requests are those that came so far.
func (s *Stub) Requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.seen...)
}

// On answers requests that match a pattern of net/http's mux, each time with the next of
// these answers; the last one stays.
func (s *Stub) On(pattern string, answers ...http.HandlerFunc) {
	var mu sync.Mutex
	n := 0
	s.Mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		next(w, r)
	})
}

// Gives answers with a value of package api.
func Gives(status int, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
}

// Lists answers GET /changes with those of these, newest first, that its query asks for by
// state and requester.
func Lists(changes ...api.Change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, out := r.URL.Query(), []api.Change{}
		for _, c := range changes {
			state := len(q["state"]) == 0 || slices.Contains(q["state"], string(c.State)) || slices.Contains(q["state"], "live") && (c.State == api.ChangeStateWaiting || c.State == api.ChangeStateApproved)
			if state && (!q.Has("requester") || q.Get("requester") == c.Requester.Subject && q.Get("requester_issuer") == c.Requester.Issuer) {
				out = append(out, c)
			}
		}
		Gives(http.StatusOK, api.ChangeList{Items: out})(w, r)
	}
}

// Tagged answers with a value and its ETag.
func Tagged(tag string, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		Gives(http.StatusOK, value)(w, r)
	}
}

// same answers that nothing moved.
func Same304(tag string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", tag)
		w.WriteHeader(http.StatusNotModified)
	}
}

// Refuses answers with a problem document.
func Refuses(status int, code, detail, hint string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := api.Problem{
			Type: api.AboutBlank, Title: http.StatusText(status), Status: status, Detail: detail, Code: code,
			Instance: r.URL.Path, Decision: new(StubDecision),
		}
		if hint != "" {
			p.Hint = &hint
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(p)
	}
}

// BreaksOff ends the connection in the middle of an answer.
func BreaksOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte("{"))
	panic(http.ErrAbortHandler)
}

// Posted are the bodies that came to a path, read strictly.
func Posted[T any](t *testing.T, s *Stub, path string) []T {
	t.Helper()
	var out []T
	for _, r := range s.Requests() {
		if r.Method != http.MethodPost || r.Path != path {
			continue
		}
		var one T
		decoder := json.NewDecoder(strings.NewReader(r.Body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}
