package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// relations are the tables of the book, parents and partitions by name. Only what migrations keep for themselves is no
// part of it, so that a table which is added later has to be guarded, and a forgery of it told here.
const relations = `select c.oid::regclass::text from pg_class c where c.relnamespace = 'audit'::regnamespace
	and c.relkind in ('r', 'p') and c.relname not in ('schema_version', 'schema_checksums') order by 1`

// forgeries are, by table, what an UPDATE sets and how one finds that it did.
var forgeries = map[string]string{
	"entries": "record = 'forged'", "outcomes": "record = 'forged'", "trees": "origin = 'forged'", "leaves": "leaf = sha256('forged')",
	"tiles": "root = sha256('forged')", "checkpoints": "note = 'forged'", "unsequenced": "leaf = sha256('forged')",
	"terms": "term = 'forged'",
}

// parentOf is the table a partition belongs to, and a table itself otherwise.
func parentOf(table string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(table, "audit."), "_")
	return name
}

// filled is a database with at least one row in every table of the book, and in every partition.
func filled(t *testing.T) database {
	t.Helper()
	db := newDatabase(t)
	for _, table := range texts(t, db.owner, relations) {
		if !strings.Contains(table, "_") {
			continue
		}
		sql := `insert into audit.entries (recorded_at, id, kind, verdict, authority_version, count, record)
			select recorded_at, gen_random_uuid(), 'rpc', 'allow', 1, 1, '{"v":1}' from month`
		if parentOf(table) == "outcomes" {
			sql = `insert into audit.outcomes (recorded_at, id, entry_id, kind, duration_us, bytes_out, record)
				select recorded_at, gen_random_uuid(), gen_random_uuid(), 'answered', 1, 1, '{"v":1}' from month`
		}
		month := strings.ReplaceAll(strings.TrimPrefix(table, "audit."+parentOf(table)+"_"), "_", "-")
		mustExec(t, db.owner, fmt.Sprintf("with month as (select timestamptz '%s-05 12:00+00' as recorded_at) %s", month, sql))
	}
	mustExec(t, db.owner, `
		insert into audit.unsequenced (recorded_at, id, source, leaf) values (now(), gen_random_uuid(), 'entry', sha256('a'));
		insert into audit.trees (tree, epoch, origin) values (1, gen_random_uuid(), 'bronzeward/a/b');
		insert into audit.leaves (recorded_at, index, id, tree, source, leaf) values (now(), 0, gen_random_uuid(), 1, 'entry', sha256('a'));
		insert into audit.terms (field, term, recorded_at, id) values ('code', 'BW-MODE-001', now(), gen_random_uuid());
		insert into audit.tiles (tree, level, index, root) values (1, 0, 0, sha256('a'));
		insert into audit.checkpoints (tree, size, root, note) values (1, 1, sha256('a'), 'a note')`)
	return db
}

func mustExec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
}

func TestEveryTableAndPartitionRefusesChange(t *testing.T) {
	db := filled(t)
	tables := texts(t, db.owner, relations)
	if len(tables) != 2*(1+PartitionsAhead)+len(forgeries) {
		t.Fatalf("tables: %v", tables)
	}
	for _, table := range tables {
		forged, known := forgeries[parentOf(table)]
		if !known {
			t.Errorf("%s is a table of the book, and this test knows no forgery of it", table)
			continue
		}
		before := count(t, db.owner, "select count(*) from "+table)
		column, _, _ := strings.Cut(forged, " =")
		merge := "merge into " + table + " x using (values (1)) v on true when matched then "
		for _, sql := range []string{
			"update " + table + " set " + forged, "delete from " + table, "truncate " + table,
			merge + "delete", merge + "update set " + forged, "update only " + table + " set " + forged,
		} {
			if strings.Contains(sql, "only") && !strings.Contains(table, "_") && (parentOf(table) == "entries" || parentOf(table) == "outcomes") {
				continue // a partitioned table has no rows of its own
			}
			for _, mode := range []string{"origin", "replica"} {
				t.Run(sql+" as "+mode, func(t *testing.T) {
					tx, err := db.owner.Begin(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer tx.Rollback(t.Context())
					must := func(sql string) {
						t.Helper()
						if _, err := tx.Exec(t.Context(), sql); err != nil {
							t.Fatalf("%v\n%s", err, sql)
						}
					}
					must("set local session_replication_role = " + mode)
					must("set local role bronzeward_owner")
					must("savepoint before")
					if _, err := tx.Exec(t.Context(), sql); sqlState(err) != "BW001" {
						t.Fatalf("the owner's %q: %v, want it refused by the trigger", sql, err)
					}

					// Control: without the triggers the same statement changes the book.
					must("rollback to before")
					for _, other := range tables {
						must("alter table " + other + " disable trigger user")
					}
					must(sql)
					var rows, changed int
					if err := tx.QueryRow(t.Context(), fmt.Sprintf("select count(*), count(*) filter (where %s) from %s", forged, table)).Scan(&rows, &changed); err != nil {
						t.Fatal(err)
					}
					if update := strings.Contains(sql, " set "); update && changed != before || !update && rows != 0 || before == 0 {
						t.Errorf("control: of %d rows %d are there, %d with another %s", before, rows, changed, column)
					}
				})
			}
		}
	}
}

func TestWritingOverARowIsRefused(t *testing.T) {
	db := filled(t)
	const over = `insert into audit.leaves (recorded_at, index, id, tree, source, leaf) values (now(), 0, gen_random_uuid(), 1, 'entry', sha256('b'))
		on conflict (tree, index) do update set leaf = excluded.leaf`
	if _, err := db.gateway.Exec(t.Context(), over); sqlState(err) != "42501" {
		t.Errorf("the gateway: %v, want permission denied", err)
	}
	if _, err := db.owner.Exec(t.Context(), over); sqlState(err) != "BW001" {
		t.Errorf("the owner: %v, want it refused by the trigger", err)
	}
	mustExec(t, db.owner, "alter table audit.leaves disable trigger leaves_no_change")
	mustExec(t, db.owner, over)
	if n := count(t, db.owner, "select count(*) from audit.leaves where leaf = sha256('b')"); n != 1 {
		t.Errorf("control: %d leaves written over, want 1", n)
	}
}

func TestOnlyTheSequencerTakesRowsOut(t *testing.T) {
	db := filled(t)
	conn, err := pgx.Connect(t.Context(), shared.Server(t).DSN(db.name, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "set role bronzeward_owner"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "delete from audit.unsequenced"); sqlState(err) != "BW001" {
		t.Errorf("the owner: %v, want it refused by the trigger", err)
	}
	mustExec(t, db.gateway, "delete from audit.unsequenced")
	if n := count(t, db.owner, "select count(*) from audit.unsequenced"); n != 0 {
		t.Errorf("%d rows left after the gateway's role took them out", n)
	}
}

func TestMissingGuardIsNamed(t *testing.T) {
	db := newDatabase(t)
	if err := checkGuards(t.Context(), db.gateway, true); err != nil {
		t.Fatalf("of a whole book: %v", err)
	}
	for _, row := range []struct{ name, change, says string }{
		{"a table added without triggers", "create table audit.later (a int)", "DELETE of audit.later, TRUNCATE of audit.later, UPDATE of audit.later"},
		{"a trigger that a replica's session gets past", "alter table audit.tiles enable trigger tiles_no_change", "DELETE of audit.tiles, UPDATE of audit.tiles:"},
		{"a trigger that fires for replicas alone", "alter table audit.tiles enable replica trigger tiles_no_truncate", "refuses TRUNCATE of audit.tiles:"},
		{"the parent's, and so every partition's", "alter table audit.entries disable trigger entries_no_change", "UPDATE of audit.entries_"},
		{"one for some columns", "create or replace trigger leaves_no_change before update of leaf or delete on audit.leaves for each row execute function audit.refuse_change(); alter table audit.leaves enable always trigger leaves_no_change", "UPDATE of audit.leaves"},
		{"one with a condition", "create or replace trigger leaves_no_truncate before truncate on audit.leaves for each statement when (current_user <> 'mallory') execute function audit.refuse_change(); alter table audit.leaves enable always trigger leaves_no_truncate", "TRUNCATE of audit.leaves"},
		{"one that does something else", "create function audit.let() returns trigger language plpgsql as 'begin return null; end'; create or replace trigger leaves_no_truncate before truncate on audit.leaves for each statement execute function audit.let(); alter table audit.leaves enable always trigger leaves_no_truncate", "TRUNCATE of audit.leaves"},
		{"the waiting rows'", "drop trigger unsequenced_no_taking on audit.unsequenced", "refuses DELETE of audit.unsequenced:"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tx, err := db.owner.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			if _, err := tx.Exec(t.Context(), row.change); err != nil {
				t.Fatal(err)
			}
			if err := CheckGuards(t.Context(), tx); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want it to name %q", err, row.says)
			}
		})
	}
}

func TestPartitionAttachedByHandIsGuarded(t *testing.T) {
	db := newDatabase(t)
	mustExec(t, db.owner, `set role bronzeward_owner;
		create table audit.entries_1999_12 (like audit.entries including all);
		alter table audit.entries attach partition audit.entries_1999_12 for values from ('1999-12-01 00:00+00') to ('2000-01-01 00:00+00');
		reset role;
		insert into audit.entries (recorded_at, id, kind, verdict, authority_version, count, record)
			values ('1999-12-24 12:00+00', gen_random_uuid(), 'rpc', 'allow', 1, 1, '{"v":1}')`)
	for _, sql := range []string{"update audit.entries_1999_12 set record = 'x'", "delete from audit.entries_1999_12"} {
		if _, err := db.owner.Exec(t.Context(), sql); sqlState(err) != "BW001" {
			t.Errorf("%q: %v, want it refused by the parent's trigger", sql, err)
		}
	}
	if err := CheckGuards(t.Context(), db.gateway); err == nil || !strings.Contains(err.Error(), "refuses TRUNCATE of audit.entries_1999_12:") {
		t.Errorf("%v, want it to name the trigger that no parent gives", err)
	}
	if made, err := EnsurePartitions(t.Context(), db.gateway, PartitionsAhead); err != nil || made != 0 {
		t.Errorf("%d made (%v)", made, err)
	}
	if _, err := db.owner.Exec(t.Context(), "truncate audit.entries_1999_12"); sqlState(err) != "BW001" {
		t.Errorf("truncate: %v, want it refused", err)
	}
	if err := CheckGuards(t.Context(), db.gateway); err != nil {
		t.Error(err)
	}
	if n := count(t, db.owner, "select count(*) from audit.entries_1999_12"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}
