package notify

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"bronzeward/gateway/control"
)

func TestWhatAnswersMean(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		header     map[string]string
		state, why string
	}{
		"200":                  {http.StatusOK, nil, control.NoticeSent, ""},
		"204":                  {http.StatusNoContent, nil, control.NoticeSent, ""},
		"302":                  {http.StatusFound, map[string]string{"Location": "/elsewhere"}, control.NoticeWaiting, "302 Found, and redirects are not followed"},
		"307 without location": {http.StatusTemporaryRedirect, nil, control.NoticeWaiting, "307"},
		"304":                  {http.StatusNotModified, nil, control.NoticeWaiting, "304"},
		"400":                  {http.StatusBadRequest, nil, control.NoticeWaiting, "400 Bad Request"},
		"404":                  {http.StatusNotFound, nil, control.NoticeWaiting, "404"},
		"410":                  {http.StatusGone, nil, control.NoticeDead, "410 Gone: it wants no more of this"},
		"429":                  {http.StatusTooManyRequests, nil, control.NoticeWaiting, "429"},
		"500":                  {http.StatusInternalServerError, nil, control.NoticeWaiting, "500"},
		"599":                  {599, nil, control.NoticeWaiting, "answered 599"},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := &answering{status: test.status, header: test.header}
			r := newRoom(t, receiver, nil)
			r.sendDue(t)
			r.wantState(t, test.state, test.why)
			if got := len(receiver.got()); got != 1 {
				t.Errorf("%d requests for one try", got)
			}
		})
	}
}

func TestRetryAfterIsHeeded(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		value string
		want  time.Duration // zero: the usual wait
	}{
		"seconds":           {"600", 10 * time.Minute},
		"a date":            {now.Add(20 * time.Minute).Format(http.TimeFormat), 20 * time.Minute},
		"less than usual":   {"1", 0},
		"a date gone by":    {now.Add(-time.Hour).Format(http.TimeFormat), 0},
		"longer than ever":  {"2000000000", DefaultMostRetry},
		"out of all bounds": {"99999999999999999999", 0},
		"negative":          {"-5", 0},
		"neither":           {"soon", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, &answering{status: 503, header: map[string]string{"Retry-After": test.value}}, func(c *Config) {
				c.Now = func() time.Time { return now }
			})
			r.sendDue(t)
			got, most := r.outbox.waits[0], DefaultFirstRetry*6/5+1
			if test.want == 0 && got > most || test.want != 0 && got != test.want {
				t.Errorf("due again in %s, want %s", got, test.want)
			}
		})
	}
}

// The guard against redirects is in the client: without it, the other address gets the notice.
func TestControlRedirectsWouldBeFollowed(t *testing.T) {
	elsewhere := make(capturing, 1)
	server := httptest.NewServer(elsewhere)
	defer server.Close()
	receiver := &answering{status: http.StatusTemporaryRedirect, header: map[string]string{"Location": server.URL}}
	r := newRoom(t, receiver, nil)
	r.sendDue(t)
	if len(elsewhere) != 0 {
		t.Error("the notice went to an address that nobody configured")
	}
	r.client.CheckRedirect = nil
	r.outbox.advance(time.Hour)
	r.sendDue(t)
	if len(elsewhere) != 1 {
		t.Error("the bad end state did not come: the test above proves nothing")
	}
}

// A receiver that hangs costs its own try, and others go on while it does.
func TestAReceiverThatHangsHoldsNothingUp(t *testing.T) {
	release, hanging := make(chan struct{}), make(chan string, 1)
	first := true
	r := newRoom(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if first { // requests come one at a time until the first one hangs
			first = false
			hanging <- r.Header.Get("Webhook-Id")
			<-release
		}
	}), func(c *Config) { c.Timeout, c.Lease = 30*time.Second, time.Hour })
	t.Cleanup(func() { close(release) })
	stop := r.run(t)
	stuck := <-hanging
	for range 3 * r.cfg.Concurrency { // many more than there are places
		n := r.outbox.add()
		r.Wake()
		if ended := <-r.outbox.ended; ended != n.ID || n.ID.String() == stuck {
			t.Fatalf("%s ended, want %s", ended, n.ID)
		}
	}
	release <- struct{}{}
	stop() // waits for the one that hung
	if id := <-r.outbox.ended; id.String() != stuck {
		t.Errorf("%s ended last", id)
	}
}

func TestATryEndsAtItsTimeout(t *testing.T) {
	for name, hang := range map[string]struct {
		handler    func(w http.ResponseWriter)
		state, why string
	}{
		"before the answer": {func(http.ResponseWriter) {}, control.NoticeWaiting, "no answer within 50ms"},
		// The status has come: the notice arrived.
		"within the answer": {func(w http.ResponseWriter) { w.WriteHeader(200); w.(http.Flusher).Flush() }, control.NoticeSent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			r := newRoom(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				hang.handler(w)
				<-release
			}), func(c *Config) { c.Timeout = 50 * time.Millisecond })
			t.Cleanup(func() { close(release) })
			r.sendDue(t)
			r.wantState(t, hang.state, hang.why)
		})
	}
}

// endless is an answer without an end, which counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) { e.read += len(p); return len(p), nil }
func (e *endless) Close() error               { return nil }

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestAnEndlessAnswerIsReadNoFurtherThanItsBound(t *testing.T) {
	r := newRoom(t, &answering{}, nil)
	body := &endless{}
	r.client.Transport = transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: body}, nil
	})
	r.sendDue(t)
	r.wantState(t, control.NoticeSent, "")
	if body.read > maxAnswer {
		t.Errorf("%d bytes were read", body.read)
	}
}

func TestFaultsOfOurOwnAreTriedAgain(t *testing.T) {
	receiver := &answering{status: 200}
	for name, test := range map[string]struct {
		change func(t *testing.T, r *room)
		why    string
		log    string
	}{
		"the change cannot be read": {func(_ *testing.T, r *room) {
			r.cfg.Describe = describe(func(context.Context, control.ChangeID) (any, error) { return nil, errors.New("the cause") })
		}, "could not be described", "the cause"},
		"it cannot be written as JSON": {func(_ *testing.T, r *room) {
			r.cfg.Describe = describe(func(context.Context, control.ChangeID) (any, error) { return make(chan int), nil })
		}, "could not be described", "chan int"},
		"reading it takes too long": {func(_ *testing.T, r *room) {
			r.cfg.Timeout = time.Millisecond
			r.cfg.Describe = describe(func(ctx context.Context, _ control.ChangeID) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
		}, "could not be described", "deadline"},
		"others can read the secret": {func(t *testing.T, r *room) {
			if err := os.Chmod(r.file, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "chmod 600", "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, receiver, nil)
			test.change(t, r)
			r.sendDue(t)
			r.wantState(t, control.NoticeWaiting, test.why)
			if !strings.Contains(r.logs.String(), test.log) {
				t.Errorf("the log does not say %q: %s", test.log, r.logs)
			}
			if len(receiver.got()) != 0 {
				t.Error("the receiver was asked all the same")
			}
		})
	}
}
