package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// What asks for no credential, does nothing and leaves no entry.

// readyWithin bounds one readiness check.
const readyWithin = 3 * time.Second

// healthz says that the process runs; it asks nothing.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"status": "ok"})
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
		writeJSON(w, code, state)
	}
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // the client has gone away; nobody is left to tell
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone away; nobody is left to tell
}
