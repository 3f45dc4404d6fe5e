package law

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

var shared pgtest.Shared

// withDatabase runs the tests beside a PostgreSQL.
type withDatabase struct{ m *testing.M }

func (w withDatabase) Run() int { return shared.Main(w.m) }

func TestMain(m *testing.M) { clitest.Main(withDatabase{m}) }

// migrated is the whole database of a house, with a login for each role.
var migrated = pgtest.Migrated("law_past", func(ctx context.Context, conn *pgx.Conn) error { return control.Migrate(ctx, conn, nil) }, `create role law_gateway login in role bronzeward_gateway; create role law_auditor login in role bronzeward_auditor`)

// world is a book and the laws it was made by.
type world struct {
	owner   *pgxpool.Pool
	auditor string // connection string
	book    *audit.Book
}

func newWorld(t testing.TB) *world {
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
	w := &world{owner: open("postgres"), auditor: shared.Server(t).DSN(name, "law_auditor")}
	var err error
	w.book, err = audit.NewBook(audit.BookConfig{
		Pool: open("law_gateway"), Logger: slog.New(slog.DiscardHandler), Guard: func(context.Context, pgx.Tx) (int64, error) { return 7, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.book.Close)
	return w
}

// save keeps a law, and makes it live.
func (w *world) save(t testing.TB, b *policy.Bundle) {
	t.Helper()
	if _, err := w.owner.Exec(t.Context(), `insert into control.bundles (revision, content, entry_id) values ($1, $2, gen_random_uuid())`, b.Revision(), b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.owner.Exec(t.Context(), `update control.live_bundle set revision = $1, counter = counter + 1`, b.Revision()); err != nil {
		t.Fatal(err)
	}
}

// write writes an entry, and gives its id.
func (w *world) write(t testing.TB, e audit.Entry) string {
	t.Helper()
	e.AuthorityVersion = 7
	receipt, err := w.book.Write(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID.String()
}

type noConfig struct{}

func (noConfig) AuditorURL() (string, error) { return "", nil }

// ran is what one run of a command left.
type ran struct {
	err         error
	out, errOut string
}

// run runs one of the commands with the auditor's login, and nobody at a terminal.
func (w *world) run(t *testing.T, args ...string) ran {
	t.Helper()
	t.Setenv("BRONZEWARD_AUDITOR_URL", w.auditor)
	var out, errOut bytes.Buffer
	tree := &struct {
		cli.Globals
		Policy Commands `cmd:""`
	}{Globals: cli.Globals{Console: cli.Console{Out: &out, ErrOut: &errOut, In: strings.NewReader(""), Pause: time.Millisecond}}}
	parser, err := kong.New(tree, kong.Name("bronzeward"), kong.Exit(func(int) {}), kong.BindTo(t.Context(), (*context.Context)(nil)),
		kong.BindTo(noConfig{}, (*book.Settings)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(append([]string{"policy"}, args...))
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	err = parsed.Run(&tree.Globals)
	return ran{err, out.String(), errOut.String()}
}
