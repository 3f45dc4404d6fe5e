package audit

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/policy"
)

var shared pgtest.Shared

// TestMain is also the writer that TestKilledWriter starts as a process of its own.
func TestMain(m *testing.M) {
	if point := os.Getenv(writerPoint); point != "" {
		os.Exit(writer(point, os.Getenv("BRONZEWARD_TEST_DSN")))
	}
	os.Exit(shared.Main(m))
}

// book is the template: the migrated schema, a stand-in for the authority row, and a login for each role.
var book = pgtest.Migrated("audit_book", Migrate, `
		create role test_gateway login in role bronzeward_gateway;
		create role test_auditor login in role bronzeward_auditor;
		create table public.authority (version bigint not null);
		insert into public.authority values (7);
		grant select on public.authority to bronzeward_gateway;`)

const (
	asGateway = "test_gateway"
	asAuditor = "test_auditor"
)

// authority is the version in the template.
const authority = 7

const authorityLock = 0x42

// guard does what gateway/control's does, in one message of two statements.
func guard(ctx context.Context, tx pgx.Tx) (int64, error) {
	var b pgx.Batch
	b.Queue("select pg_advisory_xact_lock_shared($1)", authorityLock)
	var version int64
	b.Queue("select version from public.authority").QueryRow(func(row pgx.Row) error { return row.Scan(&version) })
	err := tx.SendBatch(ctx, &b).Close()
	return version, err
}

// database is a test's own database, with a pool per role.
type database struct {
	name    string
	owner   *pgxpool.Pool // superuser
	gateway *pgxpool.Pool
}

func newDatabase(t testing.TB) database {
	t.Helper()
	name := shared.NewDatabaseName(t, book)
	return database{name: name, owner: connect(t, name, "postgres"), gateway: connect(t, name, asGateway)}
}

func connect(t testing.TB, name, role string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), shared.Server(t).DSN(name, role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// newBook is a Book on the gateway's pool, closed when the test ends. change may be nil.
func newBook(t testing.TB, db database, change func(*BookConfig)) *Book {
	t.Helper()
	cfg := BookConfig{Pool: db.gateway, Guard: guard, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	b, err := NewBook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// count is how many rows a query of one number says.
func count(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func newID(t testing.TB) uuid.UUID {
	t.Helper()
	u, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// readEntry is an allowed Version call as the gateway records it.
func readEntry() Entry {
	return Entry{
		Kind: KindRPC, Verdict: Allowed, Method: "/machine.MachineService/Version", Class: "read",
		Caller: Caller{
			Issuer: "https://id.example", Subject: "u-4711", Name: "olga", Kind: "human", Groups: []string{"operators", "staff"},
			Proof: "token", TokenID: "jti-0001",
		},
		ClientAddress: "10.5.0.17", MachineID: uuid.MustParse("018f2f6e-0000-7000-8000-000000000001"), MachineName: "worker-1",
		Cluster: "lab", NodeID: "n0d3", Epoch: uuid.MustParse("5b0f8f5e-1111-4111-8111-111111111111"),
		AuthorityVersion: authority, PolicyRevision: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		OPAVersion: "1.22.4", Codes: []string{}, Count: 1, Instance: "gw-1",
		At: time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC),
		Facts: []byte(`{"version":1,"call":{"method":"/machine.MachineService/Version","class":"read","stream":false,"mode":"",` +
			`"mode_given":false,"dry_run":false,"try_timeout_seconds":0,"size":0,"resource":null,"path":"","service":"","targets":1,` +
			`"cluster":""},"caller":{"issuer":"https://id.example","subject":"u-4711","kind":"human","groups":["operators","staff"],` +
			`"proof":"token","proof_ends":"2026-05-04T03:17:01Z","revoked":false},"machine":{"name":"worker-1","cluster":"lab",` +
			`"role":"worker","labels":{},"pinned":true},"evidence":null,"config":null,"change":null,"holds":[],"now":"2026-05-04T03:02:01Z"}`),
	}
}

// deniedApply is a refused apply, with every field that an entry can have.
func deniedApply() Entry {
	e := readEntry()
	e.Verdict, e.Method, e.Class, e.Mode, e.DryRun = Denied, "/machine.MachineService/ApplyConfiguration", "apply", "no-reboot", true
	e.Caller.CertificateSerial, e.Caller.SPKI, e.Caller.Proof = "0a:0b", "b64spki", "certificate+token"
	e.Digest, e.Base, e.Persistent = "hmac-sha256:k1:aa", "hmac-sha256:k1:bb", "hmac-sha256:k1:cc"
	e.ChangeID, e.AttemptID = "ch-1", uuid.MustParse("018f2f6e-0000-7000-8000-0000000000aa")
	e.Reasons = []policy.Reason{{
		Code: "BW-CONFIG-004", Message: `key "machine.install" may not change`, Rule: "config.install",
		Severity: policy.SeverityDeny, Hint: "ask",
	}}
	e.Codes = []string{"BW-CONFIG-004"}
	e.ApprovalsNeeded, e.Detail = 1, "a sentence"
	return e
}

// lines is a logger whose text a test can read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
