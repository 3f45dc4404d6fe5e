package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"bronzeward/gateway/identity"
)

// What asks for no credential, does nothing and leaves no entry.

const (
	// readyWithin bounds one readiness check.
	readyWithin = 3 * time.Second
	// readyFor is how long a check is answered with.
	readyFor = time.Second
)

// healthz says that the process runs; it asks nothing.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"status": "ok"})
}

// limited turns an address away that asks too often.
func (d *door) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.Limiter.Allow(addressOf(r.RemoteAddr), identity.Caller{}) {
			tooManyOfAddress().write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checks keeps the last readiness check, which is made for all who ask. The zero value has
// none. Safe for concurrent use.
type checks struct {
	flights singleflight.Group
	mu      sync.Mutex // guards last
	last    check
}

// check is one answer to /readyz.
type check struct {
	began  time.Time
	status int
	body   map[string]any // not changed any more
}

// now gives the last check while it is good, or makes one.
func (k *checks) now(ctx context.Context, ready Readiness) (check, error) {
	return together(ctx, &k.flights, "", readyWithin, func(ctx context.Context) (check, error) {
		k.mu.Lock()
		defer k.mu.Unlock() // nobody else is here: it is one flight
		if !k.last.began.IsZero() && time.Since(k.last.began) < readyFor {
			return k.last, nil
		}
		one := check{began: time.Now(), status: http.StatusOK, body: map[string]any{}}
		state, problems := ready.Ready(ctx)
		maps.Copy(one.body, state)
		one.body["ready"] = len(problems) == 0
		if len(problems) > 0 {
			one.status, one.body["problems"] = http.StatusServiceUnavailable, problems
		}
		k.last = one
		return one, nil
	})
}

// readyz says whether this replica would decide a call, as a second ago at most.
func (d *door) readyz(w http.ResponseWriter, r *http.Request) {
	one, err := d.checks.now(r.Context(), d.Ready)
	if err != nil {
		d.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelWarn, "checking readiness", slog.Any("cause", err))
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "problems": []string{"readiness could not be checked"}})
		return
	}
	writeJSON(w, one.status, one.body)
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
