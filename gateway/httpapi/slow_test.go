package httpapi

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bronzeward/policy"
)

// everyByte is the pace of a trickle, at which no byte arrives just when a deadline ends.
const everyByte = 700 * time.Millisecond

// trickle is a body that arrives byte by byte until it is closed.
type trickle struct {
	left   string
	once   sync.Once
	closed chan struct{}
}

func (b *trickle) Read(p []byte) (int, error) {
	if b.left == "" {
		return 0, io.EOF
	}
	select {
	case <-time.After(everyByte): // the bubble's time
	case <-b.closed:
		return 0, io.ErrClosedPipe
	}
	n := copy(p[:1], b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *trickle) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// spread is a body that takes so many of everyByte, if its text is not longer.
func spread(text string, bytes int) string { return text + strings.Repeat(" ", bytes-len(text)) }

func TestABodyHasSoLongToArrive(t *testing.T) {
	reject, submit := `{"reason":"no"}`, `{"machine":"worker-1","configuration":"a","mode":"no-reboot"}`
	for _, row := range []struct {
		name, target, body string
		status             int
		took               time.Duration
	}{
		{"in nine seconds", "/identity-revocations", spread(`{}`, 13), 400, 13 * everyByte}, // it lacks members
		{"in fifteen seconds", "/changes/" + chg + "/rejections", spread(reject, 22), 400, smallWithin},
		{"a list of machines, in fifteen seconds", "/machines", spread(`{}`, 22), 400, smallWithin},
		{"a proposal, in eighty seconds", "/changes", spread(submit, 114), 201, 114 * everyByte},
		{"a proposal, in a hundred seconds", "/changes", spread(submit, 143), 400, largeWithin},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				client, end := overPipes(w.handler)
				defer end()
				body := &trickle{left: row.body, closed: make(chan struct{})}
				defer body.Close()
				r := request("POST", "http://door"+row.target, body)
				r.RequestURI, r.ContentLength = "", int64(len(row.body))
				began := time.Now()
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if took := time.Since(began); resp.StatusCode != row.status || took != row.took {
					t.Errorf("got %d after %s, want %d after %s", resp.StatusCode, took, row.status, row.took)
				}
				if done := len(w.did) > 0; done != (row.status == 201) {
					t.Errorf("did %q", w.did)
				}
			})
		})
	}
}

// Whoever is refused and sends no body does not keep the connection.
func TestARefusalDoesNotWaitForABodyNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.denies["changes.submit"] = deniedAct{[]policy.Reason{deny("BW-ACT-003", "no role")}}
		client, end := overPipes(w.handler)
		defer end()
		never, stop := io.Pipe()
		defer stop.Close()
		r := request("POST", "http://door/changes", never)
		r.RequestURI, r.ContentLength = "", 1000
		began := time.Now()
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if took := time.Since(began); resp.StatusCode != http.StatusForbidden || took > restWithin {
			t.Errorf("got %d after %s", resp.StatusCode, took)
		}
	})
}
