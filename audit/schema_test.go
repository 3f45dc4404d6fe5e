package audit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/fixtures/postgres/pgtest"
)

// sqlState is the database's code for err, empty if it is not the database's.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	var row *RowError
	if errors.As(err, &row) {
		return row.SQLState
	}
	return ""
}

// texts is the one column of a query.
func texts(t testing.TB, pool *pgxpool.Pool, sql string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestGatewayAndAuditorMayNoMoreThanTheyNeed(t *testing.T) {
	db := newDatabase(t)
	partition := "audit.entries_" + texts(t, db.owner, "select to_char(clock_timestamp() at time zone 'UTC', 'YYYY_MM')")[0]
	auditor := connect(t, db.name, asAuditor)
	const insert = "insert into audit.entries (id, kind, verdict, authority_version, count, record%s) values (gen_random_uuid(), 'rpc', 'allow', 1, 1, '{\"v\":1}'%s)"
	plain := fmt.Sprintf(insert, "", "")
	refused := []string{
		"update audit.entries set record = 'x'", "delete from audit.entries", "truncate audit.entries", "truncate " + partition,
		"update audit.outcomes set record = 'x'", "delete from audit.outcomes", "truncate audit.outcomes",
		"update audit.unsequenced set id = gen_random_uuid()", "truncate audit.unsequenced",
		"delete from audit.schema_checksums", "update audit.schema_version set version = 9",
		"delete from " + partition, "update " + partition + " set record = 'x'", "drop table " + partition, "drop table audit.entries",
		"alter table audit.entries detach partition " + partition, "alter table audit.entries disable trigger all",
		"drop trigger entries_no_truncate on audit.entries", "create table audit.mine (a int)", "set role bronzeward_owner",
		"create or replace function audit.leaf(record bytea, recorded_at timestamptz) returns bytea language sql as 'select record'",
		"set session_replication_role = replica", "alter table audit.leaves disable trigger all", "update audit.leaves set index = 7",
		"delete from audit.leaves", "update audit.tiles set index = 7", "delete from audit.checkpoints", "truncate audit.trees",
		"insert into audit.entries (id, kind, verdict, authority_version, count, record) values (gen_random_uuid(), 'rpc', 'allow', 1, 1, '{\"v\":1}') on conflict (recorded_at, id) do update set record = 'x'",
		"merge into audit.entries e using (values (1)) v on true when matched then update set record = 'x'",
		"merge into audit.outcomes o using (values (1)) v on true when matched then delete",
		"copy audit.entries (recorded_at, id, kind, verdict, authority_version, count, record) from stdin", "copy " + partition + " from stdin", strings.Replace(plain, "audit.entries", partition, 1),
		fmt.Sprintf(insert, ", recorded_at", ", '2020-01-01'"), fmt.Sprintf(insert, ", leaf", ", 'x'"),
	}
	for _, sql := range refused {
		if _, err := db.gateway.Exec(t.Context(), sql); sqlState(err) != "42501" && sqlState(err) != "428C9" {
			t.Errorf("gateway: %q: %v, want permission denied", sql, err)
		}
		if _, err := auditor.Exec(t.Context(), sql); sqlState(err) != "42501" && sqlState(err) != "428C9" {
			t.Errorf("auditor: %q: %v, want permission denied", sql, err)
		}
	}
	for _, sql := range []string{plain, "select audit.ensure_partitions(1)", "delete from audit.unsequenced"} {
		if _, err := auditor.Exec(t.Context(), sql); sqlState(err) != "42501" {
			t.Errorf("auditor: %q: %v, want permission denied", sql, err)
		}
		if _, err := db.gateway.Exec(t.Context(), sql); err != nil {
			t.Errorf("control: gateway: %q: %v", sql, err)
		}
	}
	for _, pool := range []*pgxpool.Pool{auditor, db.gateway} {
		if _, err := pool.Exec(t.Context(), "select * from audit.entries, audit.outcomes, audit.unsequenced, audit.schema_version"); err != nil {
			t.Errorf("control: reading: %v", err)
		}
	}
	if owned := texts(t, db.owner, `select c.relname::text from pg_class c where relnamespace = 'audit'::regnamespace
		and relowner <> 'bronzeward_owner'::regrole
		union all select proname from pg_proc where pronamespace = 'audit'::regnamespace and proowner <> 'bronzeward_owner'::regrole`); len(owned) > 0 {
		t.Errorf("not the owner's: %v", owned)
	}

	// Two walls: were UPDATE granted by mistake, the trigger still refuses; and the grant is what refused above.
	if _, err := db.owner.Exec(t.Context(), "grant update, delete, truncate on audit.entries to bronzeward_gateway"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"update audit.entries set record = 'x'", "delete from audit.entries", "truncate audit.entries"} {
		if _, err := db.gateway.Exec(t.Context(), sql); sqlState(err) != "BW001" {
			t.Errorf("with the grant, %q: %v, want it refused by the trigger", sql, err)
		}
	}
}

func TestSchemaSpeaksForItself(t *testing.T) {
	db := newDatabase(t)
	if bare := texts(t, db.owner, `select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = 'audit'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and a.attnum > 0
		and c.relname <> 'schema_version' and col_description(c.oid, a.attnum) is null
		union all select c.relname from pg_class c where c.relnamespace = 'audit'::regnamespace and c.relkind in ('r', 'p')
		and c.relname <> 'schema_version' and obj_description(c.oid) is null`); len(bare) > 0 {
		t.Errorf("without comment: %v", bare)
	}
	names, _, err := checksums()
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, name := range names {
		one, err := migrations.ReadFile("migrations/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, one...)
	}
	for _, name := range texts(t, db.owner, `select conname::text from pg_constraint where connamespace = 'audit'::regnamespace
		and conislocal and not exists (select from pg_class where oid = conrelid and (relispartition or relname = 'schema_version'))`) {
		if !strings.Contains(string(text), "constraint "+name+" ") {
			t.Errorf("constraint %s was named by the database", name)
		}
	}
}

func TestMigratingAgainChangesNothing(t *testing.T) {
	db := newDatabase(t)
	const state = `select version::text from audit.schema_version union all select version || ' ' || name || ' ' || encode(sha256, 'hex') || applied_at from audit.schema_checksums
		union all select oid::regclass::text || reltuples from pg_class where relnamespace = 'audit'::regnamespace order by 1`
	before := texts(t, db.owner, state)
	conn, err := pgx.Connect(t.Context(), shared.Server(t).DSN(db.name, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := Migrate(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, texts(t, db.owner, state)); diff != "" {
		t.Error(diff)
	}
	var role string
	if err := conn.QueryRow(t.Context(), "select current_user").Scan(&role); err != nil || role != "postgres" {
		t.Errorf("the connection is left as %s (%v)", role, err)
	}
	if err := CheckSchema(t.Context(), db.gateway); err != nil {
		t.Errorf("the gateway's check: %v", err)
	}
}

func TestForeignSchemaIsNotServed(t *testing.T) {
	for name, change := range map[string]string{
		"older":            "update audit.schema_version set version = 0",
		"newer":            "update audit.schema_version set version = 99",
		"other migration":  "update audit.schema_checksums set sha256 = sha256('x') where version = 1",
		"without checksum": "delete from audit.schema_checksums where version = 2",
	} {
		t.Run(name, func(t *testing.T) {
			db := newDatabase(t)
			if _, err := db.owner.Exec(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			if err := CheckSchema(t.Context(), db.gateway); err == nil {
				t.Error("served")
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		pool := connect(t, shared.NewDatabaseName(t, pgtest.Template{}), "postgres")
		if err := CheckSchema(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "bronzeward migrate") {
			t.Errorf("%v, want what to run", err)
		}
	})
}

func TestPartitionsAreMadeOnceAndUnderBothParents(t *testing.T) {
	db := newDatabase(t)
	if made, err := EnsurePartitions(t.Context(), db.gateway, PartitionsAhead); err != nil || made != 0 {
		t.Errorf("made %d (%v), want none: migrate made them", made, err)
	}
	// Replicas that start together take turns.
	results := make(chan int, 4)
	for range cap(results) {
		go func() {
			made, err := EnsurePartitions(t.Context(), db.gateway, 12)
			if err != nil {
				t.Error(err)
			}
			results <- made
		}()
	}
	sum := 0
	for range cap(results) {
		sum += <-results
	}
	if want := 2 * (12 - PartitionsAhead); sum != want {
		t.Errorf("made %d, want %d", sum, want)
	}
	if n := count(t, db.owner, `select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid where inhparent in ('audit.entries'::regclass, 'audit.outcomes'::regclass)`); n != 2*13 {
		t.Errorf("%d partitions, want %d", n, 2*13)
	}
	if n := count(t, db.owner, `select count(*) from pg_class c where relispartition and relkind = 'r' and relnamespace = 'audit'::regnamespace
		and (select count(*) from pg_trigger g where g.tgrelid = c.oid and tgenabled = 'A') <> 2`); n != 0 {
		t.Errorf("%d partitions without both triggers always on", n)
	}
	for _, months := range []int{-1, 121} {
		if _, err := EnsurePartitions(t.Context(), db.gateway, months); sqlState(err) != "22023" {
			t.Errorf("%d months: %v, want it refused", months, err)
		}
	}
}
