package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/gateway/identity"
)

func TestWhatIsOpenIsLimitedByAddressWhereItCostsSomething(t *testing.T) {
	for _, row := range []struct {
		path  string
		asked int
		code  int
	}{
		{"/healthz", 0, 200},
		{"/openapi.yaml", 0, 200},
		{"/readyz", 1, 429},
		{"/metrics", 1, 429},
	} {
		t.Run(row.path, func(t *testing.T) {
			w := newWorld(t)
			var asked []string
			w.allow = func(address string, c identity.Caller) bool {
				if !cmp.Equal(c, identity.Caller{}) {
					t.Errorf("asked for %+v", c)
				}
				asked = append(asked, address)
				return false
			}
			rec := w.do(t, request("GET", row.path, nil))
			if rec.Code != row.code || len(asked) != row.asked || row.asked > 0 && asked[0] != "192.0.2.7" {
				t.Errorf("got %d %s, asked for %q", rec.Code, rec.Body, asked)
			}
			if row.code == 429 && (rec.Header().Get("Retry-After") != "1" || !strings.Contains(rec.Body.String(), "BW-LIMIT-001")) {
				t.Errorf("%v %s", rec.Header(), rec.Body)
			}
			if len(w.entries) > 0 {
				t.Errorf("entries %q", w.entries)
			}
		})
	}
}

// checking is readiness that counts how often it is checked, and what it finds.
type checking struct {
	n    atomic.Int32
	gate chan struct{}
}

func (c *checking) Ready(context.Context) (map[string]any, []string) {
	n := c.n.Add(1)
	if c.gate != nil {
		<-c.gate
	}
	if n%2 == 0 {
		return map[string]any{"n": n}, []string{"even"}
	}
	return map[string]any{"n": n}, nil
}

func TestReadinessIsCheckedOnceASecondForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), &checking{}
		cfg := w.config()
		cfg.Ready = c
		w.handler = must(New(cfg))(t)
		ask := func() int {
			rec := httptest.NewRecorder()
			w.handler.ServeHTTP(rec, request("GET", "/readyz", nil))
			return rec.Code
		}
		for second := range 4 {
			want := []int{http.StatusOK, http.StatusServiceUnavailable}[second%2]
			for range 100 {
				if got := ask(); got != want {
					t.Fatalf("in second %d: got %d, want %d", second, got, want)
				}
			}
			if n := c.n.Load(); int(n) != second+1 {
				t.Errorf("after %d s: checked %d times", second, n)
			}
			time.Sleep(readyFor) // the bubble's time
		}

		c.gate = make(chan struct{})
		codes := make(chan int, 100)
		for range cap(codes) {
			go func() { codes <- ask() }()
		}
		synctest.Wait()
		close(c.gate)
		for range cap(codes) {
			if got := <-codes; got != http.StatusOK {
				t.Errorf("at once: got %d", got)
			}
		}
		if n := c.n.Load(); n != 5 {
			t.Errorf("a hundred at once: checked %d times", n-4)
		}
	})
}

// ouch panics when it is checked.
type ouch struct{}

func (ouch) Ready(context.Context) (map[string]any, []string) { panic("secret cause") }

func TestAReadinessThatCannotBeCheckedIsNotReady(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	cfg.Ready = ouch{}
	w.handler = must(New(cfg))(t)
	rec := w.do(t, request("GET", "/readyz", nil))
	if rec.Code != 503 || strings.Contains(rec.Body.String()+w.log.String(), "secret cause") || !strings.Contains(w.log.String(), "ready_test.go") {
		t.Errorf("got %d %s; log %s", rec.Code, rec.Body, w.log)
	}
}
