package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"bronzeward/gateway/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a door whose house is a stub, and the description its answers are held against.
type world struct {
	*house
	handler http.Handler
	log     *lockedBuffer
	stop    chan struct{}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{house: newHouse(), log: &lockedBuffer{}, stop: make(chan struct{})}
	w.handler = must(New(w.config()))(t)
	return w
}

func (w *world) config() Config {
	h := w.house
	return Config{
		Identity: h, Limiter: h, Book: h, Authority: h, Digester: digests{},
		Proposals: h, Settlements: h, Verdicts: h, Revokes: h, Inventory: h, Closings: h, Recoveries: h, Laws: h, LawHistory: h, Observer: h, Accounts: h,
		Certificates: h, Digests: h, DigestKeys: h, Login: Login{
			Issuers: []LoginIssuer{{Issuer: "https://id.example", ClientID: "bronzeward", Audience: []string{"bronzeward"}}}, TalosEndpoints: []string{"gate.example:50000"},
		},
		Changes: h, Machines: h, Drifts: h, History: h, Attempts: h, Revocations: h, Notices: h,
		Decisions: h, Order: h, Checkpoints: h, Prover: h,
		Ready: readiness(nil), Gatherer: prometheus.NewRegistry(), Stopping: w.stop,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}
}

// request is one that the stub's caller makes; headers are name, value, name, value.
func request(method, target string, body any, headers ...string) *http.Request {
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	case io.Reader:
		reader = body
	}
	r := httptest.NewRequest(method, target, reader)
	r.RemoteAddr = "192.0.2.7:4711"
	r.Header.Set("Authorization", "Bearer "+secretToken)
	if body != nil {
		r.Header.Set("Content-Type", typeOf(target))
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// typeOf is what a request to this target sends.
func typeOf(target string) string {
	switch target {
	case "/digests":
		return "application/yaml"
	case "/policies":
		return gzipType
	}
	return "application/json"
}

// secretToken must never come back, in whatever way.
const secretToken = "eyJ-the-token-of-vera"

// do sends the request and holds the answer against openapi.yaml.
func (w *world) do(t testing.TB, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	conforms(t, r, rec)
	return rec
}

// refuses sends the request and expects a problem of this status and code.
func (w *world) refuses(t testing.TB, r *http.Request, status int, code string) *httptest.ResponseRecorder {
	t.Helper()
	rec := w.do(t, r)
	if rec.Code != status || !strings.Contains(rec.Body.String(), `"code":"`+code+`"`) {
		t.Errorf("%s %s: got %d %s, want %d %s", r.Method, r.URL.Path, rec.Code, rec.Body, status, code)
	}
	return rec
}

// description is openapi.yaml, read once.
var description = sync.OnceValues(func() (routers.Router, error) {
	// It names the YAML of itself, which the validator has no decoder for.
	openapi3filter.RegisterBodyDecoder("application/yaml", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder(gzipType, openapi3filter.FileBodyDecoder)
	openapi3filter.RegisterBodyDecoder(linesType, func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		lines := []any{}
		for dec := json.NewDecoder(body); ; {
			var line any
			if err := dec.Decode(&line); errors.Is(err, io.EOF) {
				return lines, nil
			} else if err != nil {
				return nil, err
			}
			lines = append(lines, line)
		}
	})
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// inputOf finds what openapi.yaml says of a request; null when it names no such path.
func inputOf(t testing.TB, r *http.Request) *openapi3filter.RequestValidationInput {
	t.Helper()
	router := must(description())(t)
	route, params, err := router.FindRoute(r)
	if err != nil {
		return nil
	}
	return &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true,
		},
	}
}

// conforms holds an answer against openapi.yaml: status, headers, content type and body.
func conforms(t testing.TB, r *http.Request, rec *httptest.ResponseRecorder) {
	t.Helper()
	if strings.Contains(rec.Body.String(), secretToken) {
		t.Errorf("%s %s: the token came back", r.Method, r.URL.Path)
	}
	input := inputOf(t, r)
	if input == nil {
		return
	}
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: rec.Code, Header: rec.Result().Header,
		Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())), Options: input.Options,
	})
	if err != nil {
		t.Errorf("%s %s answered %d against openapi.yaml: %v\n%s", r.Method, r.URL.Path, rec.Code, err, rec.Body)
	}
}

// takes holds a request against openapi.yaml, and gives it with its body whole again.
func takes(t testing.TB, r *http.Request) *http.Request {
	t.Helper()
	var text []byte
	if r.Body != nil {
		text = must(io.ReadAll(r.Body))(t)
		r.Body = io.NopCloser(bytes.NewReader(text))
	}
	if err := openapi3filter.ValidateRequest(context.Background(), inputOf(t, r)); err != nil {
		t.Errorf("%s %s is not as openapi.yaml says: %v", r.Method, r.URL.Path, err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return r
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

type readiness []string

func (r readiness) Ready(context.Context) (map[string]any, []string) {
	return map[string]any{"instance": "gateway-1"}, r
}

// digests are keyed by nothing and long enough to be told from the text.
type digests struct{}

func (digests) Digest(text []byte) string { return fmt.Sprintf("test:%d:%q", len(text), text) }

func (d digests) Same(text []byte, digest string) (bool, error) {
	if !strings.HasPrefix(digest, "test:") {
		return false, errors.New("of another key")
	}
	return d.Digest(text) == digest, nil
}

// vera is the caller unless a test says otherwise.
func vera() identity.Caller {
	return identity.Caller{
		Issuer: "https://id.example", Subject: "vera", Name: "Vera", Kind: identity.KindHuman, Groups: []string{"operators"},
		Proof: identity.ProofToken, ProofEnds: begin.Add(time.Hour),
	}
}

var begin = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func numbered(n int) uuid.UUID {
	return uuid.UUID{0: 0x01, 1: 0x90, 6: 0x70, 8: 0x80, 15: byte(n), 14: byte(n >> 8)}
}

// lockedBuffer is the log, safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
