package tree

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"bronzeward/audit"
	"bronzeward/fixtures/postgres/pgtest"
)

var shared pgtest.Shared

// TestMain is also the sequencer that TestKilledSequencer starts as a process of its own.
func TestMain(m *testing.M) {
	if point := os.Getenv(killPoint); point != "" {
		os.Exit(sequencerProcess(point, os.Getenv("BRONZEWARD_TEST_DSN")))
	}
	os.Exit(shared.Main(m))
}

var (
	installation = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	firstEpoch   = uuid.MustParse("5b0f8f5e-1111-4111-8111-111111111111")
	secondEpoch  = uuid.MustParse("5b0f8f5e-2222-4222-8222-222222222222")
)

// book is the template: the migrated schema, a stand-in for the installation's row, and a login for each role.
var book = pgtest.Migrated("tree_book", audit.Migrate, `
		create role test_gateway login in role bronzeward_gateway;
		create role test_auditor login in role bronzeward_auditor;
		create table public.installation (id uuid not null, epoch uuid not null);
		insert into public.installation values ('`+installation.String()+`', '`+firstEpoch.String()+`');
		grant select on public.installation to bronzeward_gateway;`)

// readEpoch stands in for what reads gateway/control's row.
func readEpoch(ctx context.Context, conn *pgx.Conn) (installation, epoch uuid.UUID, err error) {
	err = conn.QueryRow(ctx, "select id, epoch from public.installation").Scan(&installation, &epoch)
	return installation, epoch, err
}

// database is a test's own database, with a pool per role.
type database struct {
	server  *pgtest.Shared
	name    string
	owner   *pgxpool.Pool // superuser
	gateway *pgxpool.Pool
	auditor *pgxpool.Pool
}

func newDatabase(t testing.TB) database {
	t.Helper()
	return newDatabaseOn(t, &shared)
}

func newDatabaseOn(t testing.TB, server *pgtest.Shared) database {
	t.Helper()
	db := database{server: server, name: server.NewDatabaseName(t, book)}
	db.owner, db.gateway, db.auditor = db.connect(t, "postgres"), db.connect(t, "test_gateway"), db.connect(t, "test_auditor")
	return db
}

func (db database) connect(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.server.Server(t).DSN(db.name, role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// config is of a sequencer on db that waits hardly at all and signs whatever grew.
func config(t testing.TB, db database, signer Signer) Config {
	t.Helper()
	dsn := db.server.Server(t).DSN(db.name, "test_gateway")
	return Config{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn) },
		Epoch:   readEpoch, Signer: signer,
		Poll: time.Millisecond, RetryEvery: time.Millisecond, CheckpointEvery: time.Nanosecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// running is a sequencer that runs until the test ends, or until stop.
func running(t testing.TB, cfg Config) (q *Sequencer, stop func()) {
	t.Helper()
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return q, stop
}

// held is a session that has the lock and has loaded; the test drives it.
func held(t testing.TB, cfg Config) *session {
	t.Helper()
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := q.cfg.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &session{q: q, conn: conn}
	t.Cleanup(func() { s.end(); conn.Close(context.Background()) })
	eventually(t, "the lock is free", func() bool { // the server notices the end of the session before a moment later
		ok, err := q.tryLock(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
	if err := s.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// drain gives every row that is seen its place.
func drain(t testing.TB, s *session) {
	t.Helper()
	s.nextLook = time.Time{}
	for more := true; more; {
		var err error
		if more, err = s.sequence(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// sign has the session check and sign what is next, and returns what the Status then says.
func sign(t testing.TB, s *session) Status {
	t.Helper()
	s.nextSign = time.Time{}
	s.checkpoint(t.Context())
	if s.answers != nil {
		s.signed(t.Context(), <-s.answers)
	}
	return s.q.Status()
}

// fill inserts so many small entries as the gateway does: committed, waiting for a place.
func fill(t testing.TB, db database, n int) {
	t.Helper()
	if _, err := db.owner.Exec(context.WithoutCancel(t.Context()), fillSQL, n); err != nil {
		t.Fatal(err)
	}
}

const fillSQL = `with row as (
	insert into audit.entries (id, kind, verdict, authority_version, count, record)
	select gen_random_uuid(), 'system', 'allow', 7, 1, convert_to('{"n":' || n || '}', 'UTF8') from generate_series(1, $1::int) n
	returning recorded_at, id, leaf)
	insert into audit.unsequenced (recorded_at, id, source, leaf) select recorded_at, id, 'entry', leaf from row`

// write appends an entry with so many outcomes, in one transaction.
func write(t testing.TB, db database, outcomes int) audit.Receipt {
	t.Helper()
	tx, err := db.gateway.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	r, err := audit.Append(t.Context(), tx, audit.Entry{
		Kind: audit.KindRPC, Verdict: audit.Allowed, Method: "/machine.MachineService/Version", Class: "read",
		Caller: audit.Caller{Issuer: "https://id.example", Subject: "u-4711", Name: "olga <o@example>"}, Detail: "a sentence", Count: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range outcomes {
		if _, err := audit.AppendOutcome(t.Context(), tx, audit.Outcome{EntryID: r.ID, Kind: audit.OutcomeAnswered, Code: "OK"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// count is how many a query of one number says.
func count(t testing.TB, db database, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := db.owner.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// change runs statements as the superuser.
func change(t testing.TB, db database, sql string, args ...any) {
	t.Helper()
	if _, err := db.owner.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for i := 0; !ok(); i++ {
		if i > 20_000 {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// localSigner stands in for OpenBao: a key with versions.
type localSigner struct {
	mu       sync.Mutex
	keys     []ed25519.PrivateKey // guarded by mu, as all
	err      error                // what both methods answer
	hang     chan struct{}        // what Sign waits for, if set
	signed   int
	onTheWay chan struct{} // told of every Sign that hangs
}

var errAway = errors.New("OpenBao is away")

func newSigner(versions int) *localSigner {
	s := &localSigner{}
	for range versions {
		s.rotate()
	}
	return s
}

func (s *localSigner) rotate() {
	seed := bytes.Repeat([]byte{byte(len(s.keys) + 1)}, ed25519.SeedSize)
	s.keys = append(s.keys, ed25519.NewKeyFromSeed(seed))
}

func (s *localSigner) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *localSigner) Sign(ctx context.Context, message []byte) ([]byte, int, error) {
	s.mu.Lock()
	hang, onTheWay := s.hang, s.onTheWay
	s.mu.Unlock()
	if hang != nil {
		onTheWay <- struct{}{}
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, 0, s.err
	}
	s.signed++
	return ed25519.Sign(s.keys[len(s.keys)-1], message), len(s.keys), nil
}

func (s *localSigner) PublicKeys(context.Context) (map[int]ed25519.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	out := map[int]ed25519.PublicKey{}
	for i, k := range s.keys {
		out[i+1] = k.Public().(ed25519.PublicKey)
	}
	return out, nil
}

// file is the public key file of all versions.
func (s *localSigner) file(t testing.TB) []byte {
	t.Helper()
	file := []byte("# keys of the book\n\n")
	for _, k := range s.keys {
		line, err := VerifierKey(k.Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		file = append(append(file, line...), '\n')
	}
	return file
}

func (s *localSigner) verifiers(t testing.TB) note.Verifiers {
	t.Helper()
	v, err := ParseKeys(s.file(t))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
