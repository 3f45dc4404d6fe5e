package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// stranger begins a transaction in a session of the role, which ends with the test or before.
func (w *world) stranger(t *testing.T, role string) (tx pgx.Tx, leave func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	tx, err := connect(t, w.url(t, role)).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	leave = func() { _ = tx.Rollback(ctx) }
	t.Cleanup(leave)
	return tx, leave
}

func mustExec(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func denied(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

// bothSides decides and revokes, each of which needs a side of the authority lock.
func bothSides(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Admit(t.Context(), apply(get(t, s, "w1"), boris), allow); err != nil {
		t.Errorf("deciding: %v", err)
	}
	revoked(t)(s.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke")))
}

// throughTheTable are the ways to a table's lock past the two functions. Preparing asks for
// no privilege on the table, and keeps its lock until the transaction ends.
var throughTheTable = []string{
	"lock table control_gate.authority in row share mode",
	"lock table control_gate.authority in exclusive mode",
	"lock table control_gate.authority in access share mode",
	"prepare p as select from control_gate.authority for update",
	"prepare p as delete from control_gate.authority",
	"prepare p as select from control_gate.authority",
	"create temp view v as select from control_gate.authority for update",
	"create temp table x (like control_gate.authority)",
	"drop table control_gate.authority",
	"create table control_gate.other ()",
}

// Only the gateway's role gets at the authority lock, and only through its two functions:
// whatever the auditor tries, decisions and revocations go on.
func TestTheAuthorityLockIsTheGatewaysOnly(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	refused := append([]string{"select control.lock_authority()", "select control.lock_authority_shared()"}, throughTheTable...)
	for _, sql := range refused {
		tx, _ := w.stranger(t, asAuditor)
		if _, err := tx.Exec(t.Context(), sql); !denied(err) {
			t.Errorf("the auditor's role: %s: %v, want permission denied", sql, err)
		}
	}
	for _, sql := range throughTheTable {
		tx, _ := w.stranger(t, asGateway)
		if _, err := tx.Exec(t.Context(), sql); !denied(err) {
			t.Errorf("the gateway's role: %s: %v, want permission denied", sql, err)
		}
	}
	holder, _ := w.stranger(t, asAuditor)
	for _, sql := range []string{
		"select pg_advisory_lock(4779331608118542)", "select pg_advisory_lock(4779331608118543)",
		"prepare a as delete from control.authority", "prepare b as select from control.machines for update",
		"prepare c as select from control.clusters for update", "prepare d as update control.attempts set state = state",
		"prepare e as insert into audit.entries default values", "listen bronzeward_authority",
	} {
		mustExec(t, holder, sql)
	}
	bothSides(t, s)
	w.store(t, "gw-2", nil)
}

// Controls: with an advisory lock, or with a table in a schema the auditor may use, the
// auditor holds off what the test above lets through.
func TestControlAnAuthorityLockThatAnybodyCanHold(t *testing.T) {
	rows := []struct{ name, change, hold string }{
		{
			"an advisory lock",
			`create or replace function control.lock_authority_shared() returns void language sql as $$ select pg_advisory_xact_lock_shared(4779331608118542) $$;
			create or replace function control.lock_authority() returns void language sql as $$ select pg_advisory_xact_lock(4779331608118542) $$`,
			"select pg_advisory_xact_lock(4779331608118542)",
		},
		{
			"functions anybody may execute",
			"grant execute on function control.lock_authority() to bronzeward_auditor",
			"select control.lock_authority()",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			w.exec(t, row.change)
			holder, leave := w.stranger(t, asAuditor)
			mustExec(t, holder, row.hold)
			m := get(t, s, "w1")
			decided := make(chan error, 1)
			go func() {
				_, err := s.Admit(t.Context(), apply(m, boris), allow)
				decided <- err
			}()
			w.waiting(t, 1)
			leave()
			if err := <-decided; err != nil {
				t.Errorf("after the auditor left: %v", err)
			}
		})
	}
	t.Run("a schema anybody may use", func(t *testing.T) {
		w := newWorld(t)
		s := w.house(t, 1)
		w.exec(t, "grant usage on schema control_gate to bronzeward_auditor")
		holder, leave := w.stranger(t, asAuditor)
		mustExec(t, holder, "prepare p as select from control_gate.authority for update")
		revoked := revoking(t, s)
		w.waiting(t, 1)
		leave()
		if err := <-revoked; err != nil {
			t.Errorf("after the auditor left: %v", err)
		}
	})
}

// Decisions do not wait for one another at the authority lock, and leave the server's shared
// lock table alone.
func TestTheSharedSideIsSharedAndFast(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	for range 3 {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		if _, err := s.Guard(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	n := w.count(t, `select count(*) from pg_locks where relation = 'control_gate.authority'::regclass
		and mode = 'RowShareLock' and granted and fastpath`)
	if n != 3 {
		t.Errorf("%d transactions hold the shared side by the fast path, want 3", n)
	}
}

// A stranger can hold the lock by which migrations take turns: the wait ends, and the error
// says who to end. Afterwards the connection waits as it did before.
func TestAMigrationDoesNotWaitForAStrangerForEver(t *testing.T) {
	w := newWorld(t)
	holder, leave := w.stranger(t, asAuditor)
	mustExec(t, holder, "select pg_advisory_xact_lock(4779331608118544)")
	conn := connect(t, w.url(t, "postgres"))
	if _, err := conn.Exec(t.Context(), "set lock_timeout = '200ms'"); err != nil {
		t.Fatal(err)
	}
	err := Migrate(t.Context(), conn, nil)
	for _, want := range []string{`of "test_auditor" holds the migrations' lock for longer than 200ms`, "pg_terminate_backend", "lock_timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	leave()
	if err := Migrate(t.Context(), conn, nil); err != nil {
		t.Errorf("after the stranger left: %v", err)
	}
	var bound string
	if err := conn.QueryRow(t.Context(), "select current_setting('lock_timeout')").Scan(&bound); err != nil || bound != "200ms" {
		t.Errorf("lock_timeout is %s afterwards, %v", bound, err)
	}
}

// A migration that needs a table somebody is in is bounded too, whatever ran before it.
func TestAMigrationsOwnLocksAreBounded(t *testing.T) {
	w := newWorld(t)
	holder, _ := w.stranger(t, asAuditor)
	mustExec(t, holder, "select from control.machines")
	conn := connect(t, w.url(t, "postgres"))
	if _, err := conn.Exec(t.Context(), "set lock_timeout = '200ms'"); err != nil {
		t.Fatal(err)
	}
	more := files(t)
	more[numbered(1, "more")] = migration("create table control.more ();")
	more[numbered(2, "last")] = migration("alter table control.machines add column more text;")
	err := migrateTo(t.Context(), conn, more, nil)
	if err == nil || !strings.Contains(err.Error(), "another session holds a lock that is needed for longer than 200ms") {
		t.Errorf("got %v", err)
	}
	if n := w.count(t, "select version from control.schema_version"); n != int(NewestSchema)+1 {
		t.Errorf("control is at version %d, want %d: the whole one before", n, NewestSchema+1)
	}
}
