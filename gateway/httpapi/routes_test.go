package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type readiness []string

func (r readiness) Ready(context.Context) (map[string]any, []string) {
	return map[string]any{"instance": "gateway-1"}, r
}

func TestTheRoutesAnswerAsTheirReadersExpect(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "bronzeward_test", Help: "A test's."}))
	for _, row := range []struct {
		name, method, path string
		problems           readiness
		status             int
		contentType, holds string
	}{
		{"alive", http.MethodGet, "/healthz", nil, 200, "application/json", `"status":"ok"`},
		{"alive though not ready", http.MethodGet, "/healthz", readiness{"no policy is live"}, 200, "application/json", `"status":"ok"`},
		{"ready", http.MethodGet, "/readyz", nil, 200, "application/json", `"ready":true`},
		{"not ready, and why", http.MethodGet, "/readyz", readiness{"no policy is live"}, 503, "application/json", `"problems":["no policy is live"]`},
		{"metrics", http.MethodGet, "/metrics", nil, 200, "text/plain", "bronzeward_test 0"},
		{"no such path", http.MethodGet, "/changes", nil, 404, "application/problem+json", `"code":"BW-HTTP-404"`},
		{"a path with dots", http.MethodGet, "/metrics/../secret", nil, 301, "", ""},
		{"another method", http.MethodPost, "/readyz", nil, 405, "application/problem+json", `"code":"BW-HTTP-405"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Handler(Config{Ready: row.problems, Gatherer: registry}).ServeHTTP(w, httptest.NewRequest(row.method, row.path, nil))
			if w.Code != row.status || !strings.HasPrefix(w.Header().Get("Content-Type"), row.contentType) || !strings.Contains(w.Body.String(), row.holds) {
				t.Errorf("got %d, %s, %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
		})
	}
}

// RFC 9457, section 3.1: what a problem document says of itself.
func TestAProblemIsAWholeProblemDocument(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(Config{Ready: readiness(nil), Gatherer: prometheus.NewRegistry()}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/nowhere", nil))
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"type": "about:blank", "title": "Not Found", "status": 404.0, "instance": "/nowhere"} {
		if doc[key] != want {
			t.Errorf("%s is %v, want %v", key, doc[key], want)
		}
	}
	if detail, _ := doc["detail"].(string); detail == "" {
		t.Error("it has no detail")
	}
}
