package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Readiness says whether this replica would decide a call now.
type Readiness interface {
	// Ready gives what is known and the problems that keep it from deciding; none means ready.
	Ready(ctx context.Context) (state map[string]any, problems []string)
}

// Config is what Handler needs; every field is required.
type Config struct {
	Ready    Readiness
	Gatherer prometheus.Gatherer
}

// readyWithin bounds one readiness check.
const readyWithin = 3 * time.Second

// Handler is the route table.
func Handler(cfg Config) http.Handler {
	r := mux.NewRouter()
	r.Path("/healthz").Methods(http.MethodGet).HandlerFunc(healthz)
	r.Path("/readyz").Methods(http.MethodGet).HandlerFunc(readyz(cfg.Ready))
	r.Path("/metrics").Methods(http.MethodGet).Handler(promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{}))
	r.NotFoundHandler = problem(http.StatusNotFound, "BW-HTTP-404", "there is no such path; see /healthz, /readyz and /metrics")
	r.MethodNotAllowedHandler = problem(http.StatusMethodNotAllowed, "BW-HTTP-405", "this path takes GET only")
	return r
}

// healthz says that the process runs; it asks nothing.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", map[string]any{"status": "ok"})
}

func readyz(ready Readiness) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
		defer cancel()
		state, problems := ready.Ready(ctx)
		code := http.StatusOK
		state["ready"] = len(problems) == 0
		if len(problems) > 0 {
			code = http.StatusServiceUnavailable
			state["problems"] = problems
		}
		writeJSON(w, code, "application/json", state)
	}
}

// problem is an RFC 9457 problem document.
func problem(status int, code, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, status, "application/problem+json", map[string]any{
			"type": "about:blank", "title": http.StatusText(status), "status": status,
			"detail": detail, "code": code, "instance": r.URL.Path,
		})
	}
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone away; nobody is left to tell
}
