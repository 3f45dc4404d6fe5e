package book

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/policy"
)

var shared pgtest.Shared

// TestMain keeps the machine's own settings out: its zone, and whoever runs the tests.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "BRONZEWARD_") {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(shared.Main(m))
}

// migrated is the book with a login for each role, and a stand-in for the authority row.
var migrated = pgtest.Migrated("cli_book", audit.Migrate, `create role book_gateway login in role bronzeward_gateway; create role book_auditor login in role bronzeward_auditor`)

// world is a database with a book, and what names it to commands.
type world struct {
	owner   *pgxpool.Pool
	auditor string // connection string
	book    *audit.Book
}

func newWorld(t *testing.T) *world {
	t.Helper()
	name := shared.NewDatabaseName(t, migrated)
	open := func(role string) *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), shared.Server(t).DSN(name, role))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	w := &world{owner: open("postgres"), auditor: shared.Server(t).DSN(name, "book_auditor")}
	book, err := audit.NewBook(audit.BookConfig{
		Pool: open("book_gateway"), Logger: slog.New(slog.DiscardHandler),
		Guard: func(context.Context, pgx.Tx) (int64, error) { return 7, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	w.book = book
	return w
}

// write writes an entry and its outcomes, and gives its id.
func (w *world) write(t *testing.T, e audit.Entry, outcomes ...audit.Outcome) uuid.UUID {
	t.Helper()
	receipt, err := w.book.Write(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		o.EntryID = receipt.ID
		if err := w.book.WriteOutcome(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return receipt.ID
}

// sequence gives every row that waits its place, as the sequencer does, but for the tiles.
func (w *world) sequence(t *testing.T) {
	t.Helper()
	_, err := w.owner.Exec(t.Context(), `
		insert into audit.trees (tree, epoch, origin) values (1, '018f2f6e-0000-7000-8000-00000000000e', 'bronzeward/a/b') on conflict do nothing;
		insert into audit.leaves (recorded_at, index, id, tree, source, leaf)
			select recorded_at, (select coalesce(max(index) + 1, 0) from audit.leaves) + row_number() over (order by recorded_at, id) - 1, id, 1, source, leaf
			from audit.unsequenced;
		delete from audit.unsequenced`)
	if err != nil {
		t.Fatal(err)
	}
}

// ran is what one run of a command left.
type ran struct {
	err         error
	out, errOut string
}

type noConfig struct{}

func (noConfig) AuditorURL() (string, error) { return "", nil }

// run runs one of the commands at the world's database, with nobody at a terminal.
func (w *world) run(t *testing.T, args ...string) ran {
	t.Helper()
	t.Setenv(auditorURL, w.auditor)
	return runAt(t, t.Context(), noConfig{}, cli.Console{}, args...)
}

func runAt(t *testing.T, ctx context.Context, from Settings, at cli.Console, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	if at.Out == nil {
		at.Out = &out
	}
	if at.ErrOut == nil {
		at.ErrOut = &errOut
	}
	at.Pause = time.Millisecond
	if at.In == nil {
		at.In = strings.NewReader("")
	}
	tree := &struct {
		cli.Globals
		Decisions Commands `cmd:""`
	}{Globals: cli.Globals{Console: at}}
	parser, err := kong.New(tree, kong.Name("bronzeward"), kong.Exit(func(int) {}), kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(from, (*Settings)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(append([]string{"decisions"}, args...))
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	err = parsed.Run(&tree.Globals)
	return ran{err, out.String(), errOut.String()}
}

// olga makes calls.
func olga() audit.Caller {
	return audit.Caller{
		Issuer: "https://people.example", Subject: "olga", Name: "Olga Operator", Kind: "human", Groups: []string{"operators"},
		Proof: "certificate", CertificateSerial: "4f9c",
	}
}

// call is an allowed read of worker-1.
func call(method string) audit.Entry {
	return audit.Entry{
		Kind: audit.KindRPC, Verdict: audit.Allowed, Method: "/machine.MachineService/" + method, Class: "read", Caller: olga(), ClientAddress: "10.0.0.7",
		MachineName: "worker-1", Cluster: "lab", NodeID: "n1", AuthorityVersion: 7, PolicyRevision: "a7b7", OPAVersion: "1.2.3", Instance: "g1", Count: 1,
		Facts: []byte(`{"version":1,"call":{"method":"x"}}`),
	}
}

// apply is an allowed apply that opened an attempt.
func apply() audit.Entry {
	e := call("ApplyConfiguration")
	e.Class, e.Mode, e.Digest, e.Base, e.Persistent = "apply", "no-reboot", "sha256:k0:new", "sha256:k0:old", "sha256:k0:disk"
	e.AttemptID, e.ChangeID, e.ApprovalsNeeded = uuid.MustParse("018f2f6e-0000-7000-8000-0000000000aa"), "chg_1", 2
	e.Codes, e.Reasons = []string{"BW-X-001"}, []policy.Reason{{Code: "BW-X-001", Message: "mind this", Rule: "data.bronzeward.x", Severity: "warn"}}
	e.Facts = []byte(`{"version":1,"config":{"problems":[{"kind":"invalid","line":3,"message":"odd"}],"changes":[` +
		`{"document":"v1alpha1","path":"machine.nodeLabels.zone","before":null,"after":"a"}]},"change":{"id":"chg_1","requester":{"issuer":"i","subject":"rita"},` +
		`"approvals":[{"approver":{"issuer":"i","subject":"vera"},"groups":["approvers"],"revoked":true}]}}`)
	return e
}

// steady replaces what differs at each run: ids and times.
func steady(text string, ids ...uuid.UUID) string {
	for i, id := range ids {
		text = strings.ReplaceAll(text, id.String(), "ID-"+string(rune('A'+i)))
	}
	return text
}

// same compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	want, err := os.ReadFile(path)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		err = os.WriteFile(path, []byte(got), 0o600)
		want = []byte(got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
