package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// by makes the caller of what is sent from now on.
func (w *world) by(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.caller.Subject = subject
}

// flight is requests that are under way until they are landed.
type flight struct {
	w       *world
	entered chan struct{} // one for each that is where it waits
	gate    chan struct{}
	landed  sync.WaitGroup
	mu      sync.Mutex // guards codes
	codes   []int
}

// takeOff makes every act and every list of changes wait where it would be done.
func takeOff(w *world) *flight {
	f := &flight{w: w, entered: make(chan struct{}), gate: make(chan struct{})}
	w.pause = func() {
		select {
		case f.entered <- struct{}{}:
			<-f.gate
		case <-f.gate:
		}
	}
	return f
}

func (f *flight) send(r *http.Request) {
	f.landed.Add(1)
	go func() {
		defer f.landed.Done()
		rec := httptest.NewRecorder()
		f.w.handler.ServeHTTP(rec, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.codes = append(f.codes, rec.Code)
	}()
	<-f.entered
}

// land lets all go on, and gives how they were answered.
func (f *flight) land() []int {
	close(f.gate)
	f.landed.Wait()
	return f.codes
}

func TestWhatOnePersonHasInFlightIsLimited(t *testing.T) {
	apply := func() *http.Request { return request("POST", "/changes/"+chg+"/applications", `{}`) }
	read := func() *http.Request { return request("GET", "/changes", nil) }
	for _, row := range []struct {
		name, word string
		most       int
		one        func() *http.Request
		status     int
	}{
		{"acts", "acts", 4, apply, 201},
		{"requests", "requests", 64, read, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			f := takeOff(w)
			for range row.most {
				f.send(row.one())
			}
			before := len(w.entries)
			r := row.one()
			r.RemoteAddr = "198.51.100.9:1" // the person counts, not the address
			rec := w.refuses(t, r, 429, "BW-LIMIT-002")
			if got := rec.Header().Get("Retry-After"); got != "1" {
				t.Errorf("Retry-After %q", got)
			}
			if diff := cmp.Diff([]string{"stranger 198.51.100.9 BW-LIMIT-002 " + row.word}, w.entries[before:]); diff != "" {
				t.Errorf("entries: %s", diff)
			}
			w.by("otto") // somebody else is not kept out
			f.send(row.one())
			w.by("vera")
			if row.word == "acts" { // nor the same person from looking
				f.send(read())
			}
			for _, code := range f.land() {
				if code != row.status && code != 200 {
					t.Errorf("in flight: got %d", code)
				}
			}
			// What has ended is not counted any more.
			if rec := w.do(t, row.one()); rec.Code != row.status {
				t.Errorf("after all have landed: got %d %s", rec.Code, rec.Body)
			}
		})
	}
}

// panicking is a house in which rejecting goes wrong.
type panicking struct{ Verdicts }

func (panicking) Reject(context.Context, identity.Actor, control.ChangeID, string, *control.Once) (control.Change, error) {
	panic("ouch")
}

func TestWhatFailsIsNotCountedAnyMore(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	cfg.Verdicts = panicking{w.house}
	w.handler = must(New(cfg))(t)
	for range 2 * holdingLimits[holdsAct].most {
		w.refuses(t, request("POST", "/changes/"+chg+"/rejections", `{"reason":"no"}`), 500, "BW-HTTP-500")
		w.refuses(t, request("POST", "/changes/"+chg+"/rejections", `{`), 400, "BW-HTTP-400")
	}
}

// upload is a proposal whose body has begun to arrive and does not end until it is told.
type upload struct {
	rec  *httptest.ResponseRecorder
	body *io.PipeWriter
	done chan struct{}
}

func (w *world) upload(t *testing.T) *upload {
	in, out := io.Pipe()
	u := &upload{rec: httptest.NewRecorder(), body: out, done: make(chan struct{})}
	r := request("POST", "/changes", in)
	r.ContentLength = largeBody
	go func() {
		defer close(u.done)
		w.handler.ServeHTTP(u.rec, r)
	}()
	// It returns when the byte is read, so when the upload has room.
	must(out.Write([]byte("{")))(t)
	return u
}

func (u *upload) end() {
	_ = u.body.CloseWithError(io.ErrUnexpectedEOF)
	<-u.done
}

func TestLargeBodiesOfOnePersonAreLimitedAndLeaveRoomForOthers(t *testing.T) {
	w := newWorld(t)
	uploads := []*upload{w.upload(t), w.upload(t)}
	before := len(w.entries)
	r := request("POST", "/changes", spaces{})
	r.ContentLength = -1 // it may become a large one
	w.refuses(t, r, 429, "BW-LIMIT-002")
	if diff := cmp.Diff([]string{"stranger 192.0.2.7 BW-LIMIT-002 large bodies"}, w.entries[before:]); diff != "" {
		t.Errorf("entries: %s", diff)
	}
	small := `{"machine":"worker-1","configuration":"` + strings.Repeat("a", mediumBody-100) + `","mode":"no-reboot"}`
	if rec := w.do(t, request("POST", "/changes", small)); rec.Code != http.StatusCreated {
		t.Errorf("a smaller one got %d %s", rec.Code, rec.Body)
	}
	// Room for four persons: each of these returns only when it has its room.
	for _, name := range []string{"otto", "anna", "ida"} {
		w.by(name)
		uploads = append(uploads, w.upload(t), w.upload(t))
	}
	for _, u := range uploads {
		u.end()
		if u.rec.Code != 400 {
			t.Errorf("an upload that breaks off got %d %s", u.rec.Code, u.rec.Body)
		}
	}
	w.by("vera")
	w.upload(t).end() // and again, once they have ended
}

// Whatever is taken and given back, nobody has more than the most, and who has nothing is
// forgotten: people who came once must not fill the memory.
func TestLimitsCountWhatIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, held := newLimits(), map[policy.Person][kindsOfHolding]int{}
		people := rapid.SampledFrom([]policy.Person{{Issuer: "a", Subject: "bc"}, {Issuer: "ab", Subject: "c"}, {Subject: "abc"}})
		kinds := rapid.Custom(func(t *rapid.T) holding { return holding(rapid.IntRange(0, int(kindsOfHolding)-1).Draw(t, "kind")) })
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				who, k := people.Draw(t, "who"), kinds.Draw(t, "kind")
				has := held[who]
				if took := l.take(who, k); took != (has[k] < holdingLimits[k].most) {
					t.Fatalf("with %d %s: took %v", has[k], holdingLimits[k].word, took)
				} else if took {
					has[k]++
					held[who] = has
				}
			},
			"give": func(t *rapid.T) {
				who, k := people.Draw(t, "who"), kinds.Draw(t, "kind")
				if has := held[who]; has[k] > 0 {
					l.give(who, k)
					has[k]--
					held[who] = has
				}
			},
			"": func(t *rapid.T) {
				for who, has := range held {
					if kept := l.people[who] != nil; kept != (has != [kindsOfHolding]int{}) {
						t.Fatalf("%v has %v and is remembered: %v", who, has, kept)
					}
				}
			},
		})
	})
}
