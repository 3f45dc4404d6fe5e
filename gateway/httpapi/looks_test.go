package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"

	"bronzeward/gateway/control"
)

// queries is how often the store is read in ten seconds in which so many wait for the paths,
// turn by turn, who came at different times.
func queries(t *testing.T, paths ...string) (looked int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var recs []*httptest.ResponseRecorder
		var ended []chan struct{}
		for i := range 64 {
			w.by("viewer " + strconv.Itoa(i/8))
			rec, _, cancel, done := waiting(t, w, paths[i%len(paths)], "wait=60")
			defer cancel()
			recs, ended = append(recs, rec), append(ended, done)
			time.Sleep(7 * time.Millisecond) // the bubble's time
		}
		time.Sleep(2 * time.Second)
		before := w.looks()
		time.Sleep(10 * time.Second)
		looked = w.looks() - before

		// All of them see what moves.
		w.mu.Lock()
		w.changes[0].State = control.ChangeRejected
		w.mu.Unlock()
		moved := time.Now()
		for i, done := range ended {
			<-done
			if recs[i].Code != http.StatusOK || !strings.Contains(recs[i].Body.String(), `"state":"rejected"`) {
				t.Errorf("waiter %d got %d %s", i, recs[i].Code, recs[i].Body)
			}
		}
		if took := time.Since(moved); took > lookEvery {
			t.Errorf("it took %s until the last one saw it", took)
		}
		if left := len(w.entries); left != 2*64 {
			t.Errorf("%d entries, of 64 looks and 64 waits", left)
		}
	})
	return looked
}

func TestThoseWhoWaitForTheSameThingLookTogether(t *testing.T) {
	if n := queries(t, "/changes?limit=5"); n < 9 || n > 10 {
		t.Errorf("64 waiters for one list looked %d times in ten seconds", n)
	}
	if n := queries(t, "/changes/"+chg); n < 9 || n > 10 {
		t.Errorf("64 waiters for one change looked %d times in ten seconds", n)
	}
	// The control: another filter is another look, however alike.
	if n := queries(t, "/changes?limit=5", "/changes?limit=6", "/changes?set=5", "/changes?set=5%22"); n < 36 || n > 40 {
		t.Errorf("64 waiters for four lists looked %d times in ten seconds", n)
	}
}

func TestNothingIsKeptOfThoseWhoHaveGone(t *testing.T) {
	l := newLooks()
	early, late := seen{began: begin, tag: "early"}, seen{began: begin.Add(1), tag: "late"}
	one, two := l.join("k", late), l.join("k", early)
	if s, ok := l.newer("k", early); !ok || s.tag != "late" {
		t.Errorf("the newest that was seen is %+v", s)
	}
	one()
	if _, ok := l.newer("k", late); ok || len(l.all) != 1 {
		t.Errorf("%d kept", len(l.all))
	}
	two()
	l.tell("k", late)
	if len(l.all) != 0 {
		t.Errorf("%d kept", len(l.all))
	}
}

// answering is a look that says how often it was made, once it may.
func answering(n *atomic.Int32, gate chan struct{}) look {
	return func(context.Context) (answer, error) {
		made := n.Add(1)
		if gate != nil {
			<-gate
		}
		return func(w http.ResponseWriter) error {
			_, err := fmt.Fprint(w, made)
			return err
		}, nil
	}
}

// A look that began before what a request has seen would show it the past.
func TestALookThatBeganEarlierIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n, gate := newLooks(), &atomic.Int32{}, make(chan struct{})
		slow := seen{began: time.Now().Add(-lookEvery)}
		defer l.join("k", slow)()
		first := make(chan seen, 1)
		go func() { first <- must(l.next(t.Context(), "k", slow, answering(n, gate)))(t) }()
		time.Sleep(time.Second) // the bubble's time

		fresh := seen{began: time.Now()}
		defer l.join("k", fresh)()
		time.Sleep(lookEvery)
		second := make(chan seen, 1)
		go func() { second <- must(l.next(t.Context(), "k", fresh, answering(n, nil)))(t) }()
		synctest.Wait()
		close(gate)
		<-first
		if got := <-second; !got.began.After(fresh.began) || got.kept.body.String() != "2" {
			t.Errorf("got look %s, begun %s after what was seen", got.kept.body.String(), got.began.Sub(fresh.began))
		}
	})
}

func TestWhatIsDoneTogetherOutlivesWhoBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flights singleflight.Group
		gate, made := make(chan struct{}), 0
		do := func(ctx context.Context) (int, error) {
			made++
			select {
			case <-gate:
				return 4711, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		ask := func(ctx context.Context) chan string {
			got := make(chan string, 1)
			go func() {
				n, err := together(ctx, &flights, "k", time.Minute, do)
				got <- fmt.Sprint(n, err)
			}()
			synctest.Wait()
			return got
		}
		ctx, leave := context.WithCancel(t.Context())
		first := ask(ctx)
		second := ask(t.Context())
		leave()
		if got := <-first; got != "0 context canceled" {
			t.Errorf("who left got %s", got)
		}
		close(gate)
		if got := <-second; got != "4711 <nil>" || made != 1 {
			t.Errorf("who stayed got %s; done %d times", got, made)
		}
		// It ends by itself, though nobody waits any more.
		gate = make(chan struct{})
		third := ask(t.Context())
		if got := <-third; got != "0 "+context.DeadlineExceeded.Error() {
			t.Errorf("what takes too long gives %s", got)
		}
	})
}

func TestAPanicTogetherEndsTheRequestsAlone(t *testing.T) {
	var flights singleflight.Group
	_, err := together(t.Context(), &flights, "k", time.Minute, func(context.Context) (int, error) { panic("ouch") })
	if err == nil || !strings.Contains(err.Error(), "looks_test.go") || strings.Contains(err.Error(), "ouch") || problemOf(err).status != 500 {
		t.Errorf("%v", err)
	}
	gone := errors.New("gone")
	if _, err := together(t.Context(), &flights, "k", time.Minute, func(context.Context) (int, error) { return 0, gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}
