package house

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/gateway/control"
)

// migratedBook is the migrated schema with a login for each role.
var migratedBook = pgtest.Migrated("house_book", func(ctx context.Context, conn *pgx.Conn) error { return control.Migrate(ctx, conn, nil) }, `create role gateway login in role bronzeward_gateway; create role auditor login in role bronzeward_auditor`)

// What serve does before it opens a listener: it refuses a book in which nothing could be recorded, or that could be
// rewritten, and says what to do.
func TestServeRefusesABookThatCannotBeKept(t *testing.T) {
	var postgres pgtest.Shared
	t.Cleanup(func() {
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	const drop = `do $$ declare part text; begin
		for part in select inhrelid::regclass::text from pg_inherits where inhparent = 'audit.entries'::regclass loop execute 'drop table ' || part; end loop; end $$;`
	const noMaking = "revoke execute on function audit.ensure_partitions(integer) from bronzeward_gateway;"
	for _, row := range []struct{ name, change, says string }{
		{"whole", "", ""},
		{"no month, and it can be made", drop, ""},
		{"no month, and it cannot be made", drop + noMaking, "no partition for this month"},
		{"months, and none can be made", noMaking, ""},
		{"a default partition", "create table audit.entries_rest partition of audit.entries default", "is a default partition"},
		{"a trigger is off", "alter table audit.entries disable trigger entries_no_truncate", "TRUNCATE of audit.entries"},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := postgres.NewDatabaseName(t, migratedBook)
			as := func(role string) *pgxpool.Pool {
				pool, err := pgxpool.New(t.Context(), postgres.Server(t).DSN(name, role))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(pool.Close)
				return pool
			}
			if _, err := as("postgres").Exec(t.Context(), row.change); err != nil {
				t.Fatal(err)
			}
			months, err := prepareBook(t.Context(), as("gateway"), slog.New(slog.DiscardHandler))
			if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want %q", err, row.says)
			}
			if err != nil {
				return
			}
			if w := months.Warnings(time.Now()); len(w) != 0 {
				t.Errorf("warnings: %v", w)
			}
			for later, says := range map[int]string{2: "for 1 more months", 3: "for 0 more months", 4: "nothing can be recorded"} {
				now := time.Now().UTC()
				w := months.Warnings(time.Date(now.Year(), now.Month()+time.Month(later), 1, 0, 0, 0, 0, time.UTC))
				if len(w) != 1 || !strings.Contains(w[0], says) {
					t.Errorf("%d months on: %v", later, w)
				}
			}
		})
	}
}
