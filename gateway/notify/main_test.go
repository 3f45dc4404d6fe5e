package notify

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/gateway/control"
)

var shared17 pgtest.Shared

func TestMain(m *testing.M) { os.Exit(shared17.Main(m)) }

// describe is a Describer.
type describe func(ctx context.Context, id control.ChangeID) (any, error)

func (d describe) Describe(ctx context.Context, id control.ChangeID) (any, error) { return d(ctx, id) }

// itsID describes a change by its id.
func itsID(_ context.Context, id control.ChangeID) (any, error) {
	return map[string]string{"id": id.String()}, nil
}

// room is a sender, its outbox and its log.
type room struct {
	*Sender
	outbox *outbox
	logs   *lockedBuffer
	secret string // the first line of the file
	file   string
}

// newRoom makes a sender of one due notice to the receiver.
func newRoom(t testing.TB, receiver http.Handler, change func(*Config)) *room {
	t.Helper()
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	r := &room{outbox: newOutbox(1), logs: &lockedBuffer{}, secret: newSecret(t)}
	r.file = secretFile(t, r.secret+"\n", 0o600)
	cfg := Config{
		URL: server.URL, SecretFile: r.file, Outbox: r.outbox, Counter: r.outbox, Describe: describe(itsID),
		Timeout: 5 * time.Second, PollEvery: time.Hour, Now: time.Now, Registry: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Sender = s
	t.Cleanup(s.client.CloseIdleConnections)
	return r
}

// sendDue makes one try of each notice that is due and waits for them; it says how many.
func (r *room) sendDue(t testing.TB) int {
	t.Helper()
	claimed, err := r.claim(t.Context(), r.cfg.Concurrency)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for _, n := range claimed {
		group.Go(func() { r.handle(t.Context(), n) })
	}
	group.Wait()
	return len(claimed)
}

// run runs the sender until the returned function is called, which waits for its end.
func (r *room) run(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// wantState checks the one notice.
func (r *room) wantState(t testing.TB, state, why string) {
	t.Helper()
	n := r.outbox.only(t)
	if n.State != state || !strings.Contains(n.Error, why) || why == "" && n.Error != "" {
		t.Fatalf("the notice is %s (%q), want %s (%q)", n.State, n.Error, state, why)
	}
}

// answering is a receiver that answers with a status and counts what it gets.
type answering struct {
	status int
	header map[string]string

	mu  sync.Mutex // guards ids
	ids []string
}

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.ids = append(a.ids, r.Header.Get("Webhook-Id"))
	a.mu.Unlock()
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
}

func (a *answering) got() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.ids...)
}

func newSecret(t testing.TB) string {
	t.Helper()
	key := make([]byte, 32)
	rand.Read(key)
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

func secretFile(t testing.TB, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webhook-secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
