package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"bronzeward/gateway/control"
)

// The waits grow threefold from ten seconds to two hours, each within a fifth of that, and the
// twelfth try is the last. The clock is the outbox's.
func TestTriesComeFurtherApartAndEnd(t *testing.T) {
	receiver := &answering{status: http.StatusBadGateway}
	r := newRoom(t, receiver, nil)
	expected := []time.Duration{
		10 * time.Second, 30 * time.Second, 90 * time.Second, 270 * time.Second, 810 * time.Second, 2430 * time.Second,
		2 * time.Hour, 2 * time.Hour, 2 * time.Hour, 2 * time.Hour, 2 * time.Hour,
	}
	for i, want := range expected {
		r.sendDue(t)
		wait := r.outbox.waits[i]
		if wait < want*4/5 || wait > want*6/5+1 {
			t.Errorf("after try %d it waits %s, want %s and a fifth more or less", i+1, wait, want)
		}
		r.outbox.advance(wait - 1)
		if r.sendDue(t) != 0 {
			t.Fatalf("after try %d it is due too early", i+1)
		}
		r.outbox.advance(1)
	}
	r.sendDue(t)
	r.wantState(t, control.NoticeDead, "tried 12 times; at last: the receiver answered 502")
	r.outbox.advance(1000 * time.Hour)
	if r.sendDue(t) != 0 || len(receiver.got()) != DefaultMaxTries {
		t.Errorf("%d requests", len(receiver.got()))
	}
	if last := r.outbox.waits[6:]; slices.Max(last) == slices.Min(last) {
		t.Error("waits of one length do not vary")
	}
	wantResults(t, r, map[string]float64{"failed": 11, "dead": 1})
}

func wantResults(t testing.TB, r *room, want map[string]float64) {
	t.Helper()
	for _, result := range []string{"sent", "failed", "dead", "overtaken"} {
		if got := testutil.ToFloat64(r.metrics.total.WithLabelValues(result)); got != want[result] {
			t.Errorf("%s is %v, want %v", result, got, want[result])
		}
	}
}

// A change that stopped waiting is not announced.
func TestAnOvertakenChangeIsNotAnnounced(t *testing.T) {
	receiver := &answering{status: 200}
	r := newRoom(t, receiver, func(c *Config) {
		c.Describe = describe(func(context.Context, control.ChangeID) (any, error) {
			return nil, fmt.Errorf("it was cancelled: %w", ErrNotWaiting)
		})
	})
	r.sendDue(t)
	r.wantState(t, control.NoticeDead, "the change is no longer waiting")
	if len(receiver.got()) != 0 {
		t.Error("approvers were told of it")
	}
	wantResults(t, r, map[string]float64{"overtaken": 1})
}

// Between sending and writing it down a process may die: the notice is claimed again when its
// lease ends, and comes with the same id, so that the receiver can tell.
func TestACrashAfterSendingRepeatsTheNoticeUnderItsId(t *testing.T) {
	receiver := &answering{status: 200}
	r := newRoom(t, receiver, nil)
	r.outbox.lost = true // the outcome never arrives
	r.sendDue(t)
	r.outbox.lost = false
	r.wantState(t, control.NoticeWaiting, "")
	if r.sendDue(t) != 0 {
		t.Error("it is claimed while its lease runs")
	}
	r.outbox.advance(DefaultLease)
	if r.sendDue(t) != 1 {
		t.Fatal("it is not claimed when its lease has ended")
	}
	r.wantState(t, control.NoticeSent, "")
	if ids := receiver.got(); len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("the receiver got %v", ids)
	}
}

// A notice that kills whoever sends it is given up, without another try.
func TestANoticeWhoseSendersAllDiedIsDead(t *testing.T) {
	receiver := &answering{status: 200}
	r := newRoom(t, receiver, nil)
	for range DefaultMaxTries {
		if claimed, err := r.claim(t.Context(), 1); err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		r.outbox.advance(DefaultLease)
	}
	r.sendDue(t)
	r.wantState(t, control.NoticeDead, "the last of 12 tries never ended")
	if len(receiver.got()) != 0 {
		t.Error("it was sent once more")
	}
}

// A try that outlived its lease neither puts off nor ends the one that has the notice now.
func TestALateOutcomeChangesNothing(t *testing.T) {
	for _, status := range []int{http.StatusGone, http.StatusInternalServerError} {
		var second []control.Notice
		var r *room
		r = newRoom(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			r.outbox.advance(DefaultLease) // this process was paused
			second, _ = r.claim(context.Background(), 1)
			w.WriteHeader(status)
		}), nil)
		r.sendDue(t)
		n := r.outbox.only(t)
		if len(second) != 1 || n.State != control.NoticeWaiting || n.Error != "" || !n.NextAt.Equal(second[0].NextAt) {
			t.Errorf("%d: the notice is %+v", status, n)
		}
	}
}

func TestRunSendsWhatComesWhenWokenAndWhenPolling(t *testing.T) {
	for name, every := range map[string]time.Duration{"woken": time.Hour, "polling": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			receiver := &answering{status: 200}
			r := newRoom(t, receiver, func(c *Config) { c.PollEvery, c.Concurrency = every, 2 })
			stop := r.run(t)
			<-r.outbox.ended // what was due when it started
			want := map[uuid.UUID]bool{}
			for range 20 {
				want[r.outbox.add().ID] = true
			}
			if name == "woken" {
				r.Wake()
			}
			for range 20 {
				delete(want, <-r.outbox.ended)
			}
			stop()
			if len(want) != 0 || len(receiver.got()) != 21 {
				t.Errorf("%d were not sent, %d requests", len(want), len(receiver.got()))
			}
		})
	}
}

// Stopping waits for the try under way and writes its outcome down, so that nobody repeats it.
func TestStoppingLetsATryEnd(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	r := newRoom(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	<-arrived
	cancel()
	select {
	case <-done:
		t.Error("Run returned while a try was under way")
	default:
	}
	close(release)
	<-done
	r.wantState(t, control.NoticeSent, "")
}

// While the database is away there is one line about it, not one per poll.
func TestAnOutageOfTheOutboxIsToldOnce(t *testing.T) {
	r := newRoom(t, &answering{status: 200}, nil)
	failing := false
	for range 3 {
		r.tell(t.Context(), &failing, errors.New("the database is away"))
	}
	for range 2 {
		r.tell(t.Context(), &failing, nil)
	}
	if got := strings.Count(r.logs.String(), "\n"); got != 2 {
		t.Errorf("%d lines:\n%s", got, r.logs)
	}
}

func TestTheMetricsFollowTheOutbox(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRoom(t, &answering{status: http.StatusGone}, func(c *Config) { c.Registry = registry })
	r.sendDue(t)
	r.outbox.add()
	want := `
# HELP bronzeward_notices Notices to approvers that wait to be sent or are dead, by state; the same on every replica.
# TYPE bronzeward_notices gauge
bronzeward_notices{state="dead"} 1
bronzeward_notices{state="waiting"} 1
# HELP bronzeward_notices_total Tries to tell approvers of a waiting change, by result.
# TYPE bronzeward_notices_total counter
bronzeward_notices_total{result="dead"} 1
bronzeward_notices_total{result="failed"} 0
bronzeward_notices_total{result="overtaken"} 0
bronzeward_notices_total{result="sent"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	r.outbox.down = errors.New("away")
	if n, err := testutil.GatherAndCount(registry, "bronzeward_notices"); err != nil || n != 0 {
		t.Errorf("without a database: %d, %v", n, err)
	}
}
