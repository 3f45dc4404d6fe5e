package control

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/postgres/pgtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// files are the migrations, in a form a test can change.
func files(t *testing.T) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	names, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = &fstest.MapFile{Data: text}
	}
	return out
}

// numbered is the name of the migration so many after the newest.
func numbered(after int32, name string) string {
	return fmt.Sprintf("%03d_%s.sql", NewestSchema+after, name)
}

func migration(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(sql)} }

func TestTwoMigrationsAtOnceRunEachOnce(t *testing.T) {
	dsn := shared17.NewDatabase(t, pgtest.Template{})
	var (
		mu   sync.Mutex
		ran  = map[string]int{}
		wg   sync.WaitGroup
		errs [3]error
	)
	for i := range errs {
		conn := connect(t, dsn)
		wg.Go(func() {
			errs[i] = Migrate(t.Context(), conn, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				ran[name]++
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	for name := range files(t) {
		if ran["control/"+name] != 1 {
			t.Errorf("%s ran %d times", name, ran["control/"+name])
		}
	}
	conn := connect(t, dsn)
	if err := CheckSchema(t.Context(), conn); err != nil {
		t.Error(err)
	}
	var installations int
	if err := conn.QueryRow(t.Context(), "select count(*) from control.installation").Scan(&installations); err != nil || installations != 1 {
		t.Errorf("%d installations, %v", installations, err)
	}
}

func TestSchemasThisBinaryDoesNotServe(t *testing.T) {
	rows := []struct {
		name   string
		change string
		says   string
	}{
		{"the newest migration is missing", "update control.schema_version set version = 2", "run `bronzeward migrate`"},
		{"a newer one has run", fmt.Sprintf("update control.schema_version set version = %d", NewestSchema+1), "start the newer binary"},
		{"one has changed", "update control.schema_checksums set sha256 = repeat('0', 64) where version = 2", "002_attempts.sql is not the one that was run"},
		{"one has no checksum", "delete from control.schema_checksums where version = 1", "001_intent.sql"},
		{"there is no schema", "drop schema control cascade", "run `bronzeward migrate`"},
		{"the book's is changed", "update audit.schema_checksums set sha256 = sha256('') where version = 1", "not the one that made this schema"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			if err := CheckSchema(t.Context(), w.root); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			w.exec(t, row.change)
			_, err := Open(t.Context(), Config{URL: w.url(t, asGateway), Instance: "gw", Logger: discard()})
			wantErr(t, err, ErrSchema)
			if !strings.Contains(err.Error(), row.says) {
				t.Errorf("the error does not say %q: %v", row.says, err)
			}
		})
	}
}

func TestMigrateRefusesAChangedMigration(t *testing.T) {
	w := newWorld(t)
	conn := connect(t, w.url(t, "postgres"))
	changed := files(t)
	changed["002_attempts.sql"].Data = append(changed["002_attempts.sql"].Data, "\n-- changed\n"...)
	wantErr(t, migrateTo(t.Context(), conn, changed, nil), ErrSchema)

	fewer := files(t)
	delete(fewer, "014_prepared.sql")
	wantErr(t, migrateTo(t.Context(), conn, fewer, nil), ErrSchema)
}

// A migration that fails leaves the schema at the whole version before it, and the next run goes on.
func TestAFailedMigrationLeavesTheVersionBefore(t *testing.T) {
	w := newWorld(t)
	conn := connect(t, w.url(t, "postgres"))
	more, next := files(t), numbered(1, "more")
	more[next] = migration("create table control.more (); select 1 / 0;")
	if err := migrateTo(t.Context(), conn, more, nil); err == nil {
		t.Fatal("a failing migration passed")
	}
	if err := CheckSchema(t.Context(), conn); err != nil {
		t.Errorf("after the failure: %v", err)
	}
	more[next].Data = []byte("create table control.more ();")
	if err := migrateTo(t.Context(), conn, more, nil); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "select count(*) from control.schema_checksums where version = $1", NewestSchema+1); n != 1 {
		t.Error("the new migration has no checksum")
	}
}

// What the gateway's role may not do, by grants and, for the owner's own hand, by triggers.
func TestTheGatewaysRoleOwnsAndDeletesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	revoked(t)(s.RevokeIdentity(t.Context(), boris, "left", by(admin, "identities.revoke")))
	owned := w.count(t, `select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname in ('control', 'control_gate', 'audit') and pg_get_userbyid(c.relowner) <> 'bronzeward_owner'`)
	if owned != 0 {
		t.Errorf("%d relations are not bronzeward_owner's", owned)
	}
	for _, sql := range []string{
		"delete from control.identity_revocations", "update control.identity_revocations set subject = 'x'",
		"truncate control.identity_revocations", "delete from control.attempts", "delete from control.machines",
		"update control.bundles set content = ''", "delete from control.bundle_activations",
		"update control.bundle_signatures set counter = 0", "delete from control.bundle_approvals", "delete from control.replicas",
		"alter table control.bundle_activations disable trigger all", "drop function control.bundle_agreed(text)",
		"update control.attempts set credential_version = 10",
		"update control.machines set cluster = 'x'", "update control.attempts set digest = 'x'",
		"update control.installation set epoch = gen_random_uuid()", "update control.schema_checksums set sha256 = ''",
		"drop index control.attempts_one_held_per_machine", "alter table control.attempts disable trigger all",
		"create or replace function control.lock_authority_shared() returns void language sql as 'select null::void'",
		"alter function control.lock_authority() security invoker",
		"update control.changes set digest = 'x'", "delete from control.approvals", "update control.approvals set digest = 'x'",
		"delete from control.approval_revocations", "delete from control.changes", "delete from control.change_states",
		"update control.change_reviews set changes = '[]'", "update control.sealed_bytes set sealed = ''",
		"insert into control.change_steps (change_id, state, at, issuer, subject, reason, overtaken_by) select id, 'waiting', now(), '', '', '', '' from control.changes",
		"drop index control.attempts_spend_once", "alter table control.change_states disable trigger all",
		"update control.live_bundle set counter = 0", "update control.machines set serial = 1",
	} {
		if _, err := s.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("the gateway's role may: %s", sql)
		}
		if _, err := connect(t, w.url(t, asAuditor)).Exec(t.Context(), sql); err == nil {
			t.Errorf("the auditor's role may: %s", sql)
		}
	}
	for _, sql := range []string{
		"delete from control.identity_revocations", "update control.bundles set content = ''", "truncate control.attempts cascade",
	} {
		if _, err := w.root.Exec(t.Context(), sql); err == nil {
			t.Errorf("no trigger stands against: %s", sql)
		}
	}
	if got, err := s.GetAttempt(t.Context(), a.ID); err != nil || got.Digest != digestA {
		t.Errorf("the attempt is %+v, %v", got, err)
	}
}
