package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

func TestAnETagNamesAnAnswer(t *testing.T) {
	for _, path := range []string{"/changes", "/changes/" + chg} {
		w := newWorld(t)
		tag := w.do(t, request("GET", path, nil)).Header().Get("ETag")
		if tag == "" {
			t.Fatalf("%s: no ETag", path)
		}
		for _, row := range []struct {
			name, header string
			status       int
		}{
			{"the same", tag, 304},
			{"among others", `"x", W/` + tag, 304},
			{"any", "*", 304},
			{"another", `"x"`, 200},
			{"empty", "", 200},
		} {
			t.Run(row.name, func(t *testing.T) {
				rec := w.do(t, request("GET", path, nil, "If-None-Match", row.header))
				if rec.Code != row.status || rec.Header().Get("ETag") != tag || rec.Header().Get(DecisionHeader) == "" {
					t.Errorf("got %d %v", rec.Code, rec.Header())
				}
				if rec.Code == 304 && rec.Body.Len() > 0 {
					t.Errorf("304 with a body: %s", rec.Body)
				}
			})
		}
		w.changes[0].State = control.ChangeSpent
		if rec := w.do(t, request("GET", path, nil, "If-None-Match", tag)); rec.Code != 200 || rec.Header().Get("ETag") == tag {
			t.Errorf("after it moved: %d %v", rec.Code, rec.Header())
		}
	}
}

// waiting sends a request that waits, within a bubble in which time is not the clock's.
func waiting(t *testing.T, w *world, path, prefer string) (*httptest.ResponseRecorder, *http.Request, func(), chan struct{}) {
	tag := w.do(t, request("GET", path, nil)).Header().Get("ETag")
	r := request("GET", path, nil, "If-None-Match", tag, "Prefer", prefer)
	ctx, cancel := contextOf(r)
	r = r.WithContext(ctx)
	rec, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		w.handler.ServeHTTP(rec, r)
	}()
	synctest.Wait()
	return rec, r, cancel, done
}

func TestARequestWaitsUntilSomethingMoves(t *testing.T) {
	for _, row := range []struct {
		name, prefer string
		after        time.Duration // until what happens
		happens      func(w *world, cancel func())
		status       int
		code         string
		took         time.Duration
	}{
		{"nothing moves", "wait=5", time.Hour, nil, 304, "", 5 * time.Second},
		{"at most a minute", "wait=600", time.Hour, nil, 304, "", time.Minute},
		{"among other preferences", `return=minimal; foo, Wait="3"`, time.Hour, nil, 304, "", 3 * time.Second},
		{"no number", "wait=soon", time.Hour, nil, 304, "", 0},
		{"zero", "wait=0", time.Hour, nil, 304, "", 0},
		{"it moves", "wait=60", 2500 * time.Millisecond, func(w *world, _ func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changes[0].State = control.ChangeRejected
		}, 200, "", 3 * time.Second},
		{"the client goes away", "wait=60", 2500 * time.Millisecond, func(_ *world, cancel func()) { cancel() }, 503, "BW-HTTP-503", 2500 * time.Millisecond},
		{"the server stops", "wait=60", 2500 * time.Millisecond, func(w *world, _ func()) { close(w.stop) }, 304, "", 2500 * time.Millisecond},
		{"the caller is revoked", "wait=60", 2300 * time.Millisecond, func(w *world, _ func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.revoked = append(w.revoked, control.IdentityRevocation{Person: policy.Person{Issuer: w.caller.Issuer, Subject: w.caller.Subject}})
		}, 403, "BW-IDENTITY-001", 2500 * time.Millisecond},
		{"the credential ends", "wait=60", 2300 * time.Millisecond, func(w *world, _ func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.now = w.caller.ProofEnds
		}, 401, "BW-CREDENTIAL-004", 2500 * time.Millisecond},
		{"the store goes away", "wait=60", 2500 * time.Millisecond, func(w *world, _ func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.read = control.ErrUnavailable
		}, 503, "BW-BOOK-001", 3 * time.Second},
	} {
		for _, path := range []string{"/changes?state=live&state=rejected", "/changes/" + chg} {
			t.Run(row.name+" "+path[:8], func(t *testing.T) {
				must(description())(t) // outside the bubble
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					began := time.Now()
					rec, r, cancel, done := waiting(t, w, path, row.prefer)
					defer cancel()
					if row.happens != nil {
						time.Sleep(row.after) // the bubble's time
						row.happens(w, cancel)
					}
					<-done
					conforms(t, r, rec)
					if took := time.Since(began); rec.Code != row.status || took != row.took {
						t.Errorf("got %d after %s, want %d after %s: %s", rec.Code, took, row.status, row.took, rec.Body)
					}
					if !strings.Contains(rec.Body.String(), row.code) || row.code != "" && rec.Header().Get("ETag") != "" {
						t.Errorf("body %s, %v", rec.Body, rec.Header())
					}
					if len(w.entries) != 2 {
						t.Errorf("entries %q: a wait is one", w.entries)
					}
				})
			})
		}
	}
}

func TestWaitingLooksOnceASecondAndNotWithoutAnETag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, _, cancel, done := waiting(t, w, "/changes", "wait=10")
		defer cancel()
		<-done
		if looks := w.looked - 1; looks < 10 || looks > 12 {
			t.Errorf("%d looks in ten seconds", looks)
		}
	})
	w := newWorld(t)
	if rec := w.do(t, request("GET", "/changes", nil, "Prefer", "wait=60")); rec.Code != 200 || rec.Header().Get("Preference-Applied") != "" {
		t.Errorf("got %d %v", rec.Code, rec.Header())
	}
}

func TestOnlySoManyRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ended []chan struct{}
		for i := range mostWaiting {
			w.by("viewer " + strconv.Itoa(i/holdingLimits[holdsWait].most))
			_, _, cancel, done := waiting(t, w, "/changes", "wait=60")
			defer cancel()
			ended = append(ended, done)
		}
		w.by("vera")
		began := time.Now()
		rec, _, cancel, done := waiting(t, w, "/changes", "wait=60")
		defer cancel()
		<-done
		if rec.Code != 304 || time.Since(began) != 0 {
			t.Errorf("one more got %d after %s", rec.Code, time.Since(began))
		}
		close(w.stop)
		for _, done := range ended {
			<-done
		}
	})
}

func TestOnePersonWaitsForSoMuchAndLeavesRoomForOthers(t *testing.T) {
	must(description())(t) // outside the bubble
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ended []chan struct{}
		for i := range 8 {
			_, _, cancel, done := waiting(t, w, []string{"/changes", "/changes/" + chg}[i%2], "wait=60")
			defer cancel()
			ended = append(ended, done)
		}
		before, looked := len(w.entries), w.looked
		rec := w.refuses(t, request("GET", "/changes", nil, "If-None-Match", "*", "Prefer", "wait=60"), 429, "BW-LIMIT-002")
		if rec.Header().Get("Retry-After") != "1" || w.looked != looked {
			t.Errorf("%v, looked %d times", rec.Header(), w.looked-looked)
		}
		if diff := cmp.Diff([]string{"stranger 192.0.2.7 BW-LIMIT-002 waits"}, w.entries[before:]); diff != "" {
			t.Errorf("entries: %s", diff)
		}
		if rec := w.do(t, request("GET", "/changes", nil, "If-None-Match", "*")); rec.Code != 304 {
			t.Errorf("without waiting: got %d %s", rec.Code, rec.Body)
		}
		w.by("otto")
		_, _, cancel, done := waiting(t, w, "/changes", "wait=60")
		defer cancel()
		select {
		case <-done:
			t.Error("somebody else did not get to wait")
		default:
		}
		close(w.stop)
		for _, done := range append(ended, done) {
			<-done
		}
	})
}
