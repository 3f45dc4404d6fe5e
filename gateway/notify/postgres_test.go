package notify

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/fixtures/postgres"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/gateway/control"
)

const asGateway = "notify_gateway"

// migrated is the template: the schemas and the gateway's login.
var migrated = pgtest.Migrated("notify_room", func(ctx context.Context, conn *pgx.Conn) error { return control.Migrate(ctx, conn, nil) }, "create role "+asGateway+" login in role bronzeward_gateway")

// world is a database with notices in it and any number of replicas.
type world struct {
	name string
}

func newWorld(t testing.TB, notices int) *world {
	t.Helper()
	w := &world{name: shared17.NewDatabaseName(t, migrated)}
	// The changes they are about are not what is tested here.
	w.exec(t, `insert into control.notices (id, change_id) select gen_random_uuid(), gen_random_uuid() from generate_series(1, $1)`, notices)
	return w
}

// exec changes the database behind everybody's back, constraints aside.
func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, shared17.Server(t).DSN(w.name, postgres.Superuser))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// replica is a store and a sender of its own.
func (w *world) replica(t testing.TB, instance, url string) (*control.Store, *Sender) {
	t.Helper()
	store, err := control.Open(t.Context(), control.Config{
		URL: shared17.Server(t).DSN(w.name, asGateway), Instance: instance, Logger: slog.New(slog.DiscardHandler), PollEvery: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	s, err := New(Config{
		URL: url, SecretFile: secretFile(t, newSecret(t), 0o600), Outbox: store, Counter: store, Describe: describe(itsID),
		PollEvery: 5 * time.Millisecond, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return store, s
}

// tally is a receiver that counts by id, and tells of each request when it has ended.
type tally struct {
	mu      sync.Mutex // guards what follows
	inside  map[string]bool
	count   map[string]int
	overlap bool
	got     chan string
}

func newTally() *tally {
	return &tally{inside: map[string]bool{}, count: map[string]int{}, got: make(chan string, 1000)}
}

func (c *tally) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Webhook-Id")
	c.mu.Lock()
	c.overlap = c.overlap || c.inside[id]
	c.inside[id] = true
	c.count[id]++
	c.mu.Unlock()
	c.got <- id
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inside, id)
}

// Whatever number of replicas looks at one outbox, each notice goes out once.
func TestTwoSendersSendEachNoticeOnce(t *testing.T) {
	const notices = 60
	w, receiver := newWorld(t, notices), newTally()
	server := httptest.NewServer(receiver)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var store *control.Store
	for _, instance := range []string{"gw-1", "gw-2"} {
		s, sender := w.replica(t, instance, server.URL)
		store = s
		running.Go(func() { sender.Run(ctx) })
	}
	for range notices {
		<-receiver.got
	}
	cancel()
	running.Wait() // the outcomes are written
	counts, err := store.NoticeCounts(t.Context())
	if err != nil || counts[control.NoticeWaiting] != 0 || counts[control.NoticeDead] != 0 {
		t.Errorf("left are %v, %v", counts, err)
	}
	if len(receiver.count) != notices || len(receiver.got) != 0 || receiver.overlap {
		t.Errorf("%d ids, %d requests too many, overlap %t", len(receiver.count), len(receiver.got), receiver.overlap)
	}
}

// A replica that dies between claim and outcome only delays: the other one sends the notice
// when the lease has ended, under its id.
func TestAnotherReplicaSendsWhatADeadOneClaimed(t *testing.T) {
	w, receiver := newWorld(t, 1), newTally()
	server := httptest.NewServer(receiver)
	defer server.Close()
	dead, _ := w.replica(t, "gw-1", server.URL)
	claimed, err := dead.ClaimNotices(t.Context(), 10, time.Hour)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	store, sender := w.replica(t, "gw-2", server.URL)
	if left, err := sender.claim(t.Context(), 10); err != nil || len(left) != 0 {
		t.Fatalf("while the lease runs: %d, %v", len(left), err)
	}
	w.exec(t, "update control.notices set next_at = next_at - interval '1 hour'")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		sender.Run(ctx)
	}()
	if id := <-receiver.got; id != claimed[0].ID.String() {
		t.Errorf("sent %s, want %s", id, claimed[0].ID)
	}
	cancel()
	<-done
	all, err := store.Notices(t.Context(), control.NoticeFilter{})
	if err != nil || len(all) != 1 || all[0].State != control.NoticeSent || all[0].Tries != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// Dead letters are listed with the reason.
func TestDeadNoticesAreListed(t *testing.T) {
	w := newWorld(t, 3)
	server := httptest.NewServer(&answering{status: http.StatusGone})
	defer server.Close()
	store, sender := w.replica(t, "gw-1", server.URL)
	claimed, err := sender.claim(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := map[uuid.UUID]bool{}
	for _, n := range claimed {
		sender.handle(t.Context(), n)
		want[n.ID] = true
	}
	dead, err := store.Notices(t.Context(), control.NoticeFilter{Dead: true})
	if err != nil || len(dead) != 2 {
		t.Fatalf("%d are dead, %v", len(dead), err)
	}
	for _, n := range dead {
		if !want[n.ID] || n.EndedAt == nil || n.Error != "the receiver answered 410 Gone: it wants no more of this" {
			t.Errorf("got %+v", n)
		}
	}
}
