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
			state := len(q["state"]) == 0 || slices.Contains(q["state"], string(c.State)) || slices.Contains(q["state"], "live") && live(&c)
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

const (
	changeOne = "chg_01kb8v6d3kfq0r8mz7n2c5w9ta"
	changeTwo = "chg_01kb8v6d3kfq0r8mz7n2c5w9tb"
	digestOne = "hmac-sha256:k1:1111"
	digestTwo = "hmac-sha256:k1:2222"
	// changeThree is not olga's.
	changeThree = "chg_01kb8v6d3kfq0r8mz7n2c5w9tc"
	digestThree = "hmac-sha256:k1:3333"
	attemptA    = "019a5c3e-7b1d-7f00-8000-00000000000a"
)

// oneChange is a change that waits for the second of two approvals.
func oneChange() api.Change {
	return api.Change{
		ID: changeOne, State: api.ChangeStateWaiting, Kind: api.Apply, Machine: "worker-1", MachineID: stubDecision, Cluster: "lab",
		Mode: "no-reboot", Digest: digestOne, Base: api.Digests{Active: "hmac-sha256:k1:0000", Persistent: "hmac-sha256:k1:0000"},
		Set: "roll out", Requester: api.Person{Issuer: stubIssuer, Subject: "\u043elga"}, CreatedAt: stubNow.Add(-3 * time.Minute),
		ApproveBy: stubNow.Add(23*time.Hour + time.Minute), DecisionID: stubDecision, Size: 1234, Sealed: true, ChangesCount: 2,
		ApprovalsNeeded: api.ApprovalsNeeded{Required: 2, Groups: []string{"approvers"}}, ApprovalsCounting: 1,
		Approvals: []api.Approval{{
			ID: "apr_01kb8v6d3kfq0r8mz7n2c5w9tc", ChangeID: changeOne, Digest: digestOne, Approver: api.Person{Issuer: stubIssuer, Subject: "vera"},
			Kind: api.Human, Groups: []string{"approvers"}, At: stubNow.Add(-time.Minute), Self: []string{"requester"},
			Notes: []string{"approver no longer in approvers"}, DecisionID: stubDecision,
		}},
		Warnings: &[]api.Finding{{Code: "BW-APPROVAL-005", Message: "approved by its own\nrequester"}},
		Discards: &[]api.ConfigChange{},
	}
}

// otherChange is of the same set, for another machine.
func otherChange() api.Change {
	c := oneChange()
	c.ID, c.Machine, c.Digest, c.Approvals, c.ApprovalsCounting, c.CreatedAt = changeTwo, "worker-2", digestTwo, []api.Approval{}, 0, c.CreatedAt.Add(time.Second)
	return c
}

// strange is a change of the same set that somebody else asked for.
func strange() api.Change {
	c := otherChange()
	c.ID, c.Machine, c.Digest, c.Requester.Subject, c.CreatedAt = changeThree, "worker-3", digestThree, "mallory", c.CreatedAt.Add(time.Second)
	return c
}

// approved is a change after its last approval.
func approved(c api.Change) api.Change {
	c.State, c.UseBy, c.ApprovalsCounting = api.ChangeStateApproved, new(stubNow.Add(59*time.Minute)), c.ApprovalsNeeded.Required
	return c
}

// diffOf is what a change would change.
func diffOf(c api.Change) api.ChangeDiff {
	return api.ChangeDiff{
		ID: c.ID, Digest: c.Digest, Base: c.Base,
		Changes: []api.ConfigChange{
			{Document: "v1alpha1", Path: "machine.nodeLabels.zone", After: "a"},
			{Document: "v1alpha1", Path: "machine.sysctls.\u0440ath", Before: 1000000, After: "fp:0123456789abcdef0123", Reboot: true},
		},
		Discards: []api.ConfigChange{{Document: "v1alpha1", Path: "machine.nodeLabels.staged", Before: true, After: nil}},
	}
}

// attempt is one sending of a change, in this state.
func attempt(c api.Change, state api.AttemptState) api.Attempt {
	return api.Attempt{
		ID: attemptA, DecisionID: stubDecision, ChangeID: c.ID, Machine: c.Machine, MachineID: c.MachineID, Cluster: c.Cluster, State: state,
		Caller: c.Requester, Mode: c.Mode, Digest: c.Digest, Base: c.Base, OpenedAt: stubNow, Instance: "gateway-1", SettleAfter: stubNow.Add(time.Minute), Read: api.Digests{},
	}
}

// applied is the answer to applying it.
func applied(c api.Change, state api.AttemptState) api.Application {
	return api.Application{Attempt: attempt(c, state), Warnings: []string{"BW-X-001: mind this"}, Message: "Applied configuration without a reboot"}
}
