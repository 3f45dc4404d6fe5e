package tree

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/fixtures/postgres/pgtest"
)

func TestTheTreesTablesRefuseChange(t *testing.T) {
	db, _, _, _ := proved(t)
	change(t, db, "insert into audit.tiles values (1, 0, 0, sha256('x'))")
	for _, table := range []string{"trees", "leaves", "tiles", "checkpoints"} {
		for _, statement := range []string{"update audit.%s set tree = 9", "delete from audit.%s", "truncate audit.%s"} {
			sql := fmt.Sprintf(statement, table)
			for _, mode := range []string{"origin", "replica"} {
				t.Run(sql+" as "+mode, func(t *testing.T) {
					tx, err := db.owner.Begin(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer tx.Rollback(context.Background())
					run := func(sql string) error {
						_, err := tx.Exec(t.Context(), sql)
						return err
					}
					if err := run("set local session_replication_role = " + mode + "; savepoint before"); err != nil {
						t.Fatal(err)
					}
					if err := run(sql); err == nil || !strings.Contains(err.Error(), "BW001") {
						t.Fatalf("a superuser's %q: %v, want it refused by the trigger", sql, err)
					}
					// Control: without the triggers the same statement changes the tree.
					if err := run("rollback to before; alter table audit." + table + " disable trigger user"); err != nil {
						t.Fatal(err)
					}
					if err := run(sql); err != nil {
						t.Errorf("without triggers: %v", err)
					}
				})
			}
			if _, err := db.gateway.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("the gateway's %q: %v, want it refused by the grants", sql, err)
			}
			if _, err := db.auditor.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("the auditor's %q: %v, want it refused by the grants", sql, err)
			}
		}
	}
	for _, sql := range []string{
		"delete from audit.unsequenced",
		"insert into audit.trees (tree, epoch, origin) values (5, gen_random_uuid(), 'x')",
		"insert into audit.leaves values (now(), 9, gen_random_uuid(), 1, 'entry', sha256('x'))",
		"insert into audit.checkpoints (tree, size, root, note) values (1, 1, sha256('x'), 'x')",
	} {
		if _, err := db.auditor.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("the auditor's %q: %v", sql, err)
		}
	}
	for _, column := range []string{"began_at", "signed_at"} {
		sql := "insert into audit.trees (tree, epoch, origin, began_at) values (5, gen_random_uuid(), 'x', now())"
		if column == "signed_at" {
			sql = "insert into audit.checkpoints (tree, size, root, note, signed_at) values (1, 1, sha256('x'), 'x', now())"
		}
		if _, err := db.gateway.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("the gateway names %s: %v", column, err)
		}
	}
}

// copied are the tables of a logical copy, with the columns that are not computed.
var copied = []string{
	`entries (recorded_at, id, kind, verdict, method, class, mode, dry_run, caller_issuer, caller_subject, caller_kind, proof, client_address, machine_id,
		machine_name, cluster, digest, base_digest, persistent_digest, change_id, attempt_id, epoch, authority_version, policy_revision, codes, instance, count, record)`,
	`outcomes (recorded_at, id, entry_id, attempt_id, kind, state, code, digest, persistent_digest, caller_issuer, caller_subject, duration_us, bytes_out, instance, record)`,
	"unsequenced", "trees", "leaves", "tiles", "checkpoints",
}

func TestALogicalCopyGoesOn(t *testing.T) {
	from, s, signer, p := proved(t)
	fill(t, from, 300)
	drain(t, s)
	sign(t, s)
	write(t, from, 1) // waits while it is copied
	s.conn.Close(t.Context())

	var elsewhere pgtest.Shared // another server
	t.Cleanup(func() {
		if err := elsewhere.Close(); err != nil {
			t.Error(err)
		}
	})
	to := newDatabaseOn(t, &elsewhere)
	for _, table := range copied {
		var data bytes.Buffer
		name, columns, _ := strings.Cut(table, " ")
		// A partitioned table is read by a query.
		list := strings.Trim(columns, "()")
		if list == "" {
			list = "*"
		}
		copyOne(t, from, func(conn *pgx.Conn) error {
			_, err := conn.PgConn().CopyTo(t.Context(), &data, "copy (select "+list+" from audit."+name+") to stdout (format binary)")
			return err
		})
		copyOne(t, to, func(conn *pgx.Conn) error {
			_, err := conn.PgConn().CopyFrom(t.Context(), &data, "copy audit."+name+" "+columns+" from stdin (format binary)")
			return err
		})
	}
	old, err := Latest(t.Context(), from.auditor, 1)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := running(t, config(t, to, signer))
	fresh := write(t, to, 0)
	eventually(t, "the copy goes on", func() bool { s := q.Status(); return s.Checkpoint.Size == old.Size+3 })
	wantWhole(t, to)
	keys := signer.verifiers(t)
	if err := p.Check(keys); err != nil {
		t.Errorf("the old proof: %v", err)
	}
	for _, id := range []uuid.UUID{fresh.ID, entryOf(t, p)} {
		again, err := Prove(t.Context(), to.auditor, id)
		if err != nil || again.Check(keys) != nil {
			t.Errorf("a proof from the copy: %v, %v", err, again.Check(keys))
		}
	}
	now, err := Latest(t.Context(), to.auditor, 1)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := Consistency(t.Context(), to.auditor, 1, old.Size, now.Size)
	if err != nil || CheckConsistency(old.Checkpoint, now.Checkpoint, proof) != nil {
		t.Errorf("%v, %v", err, CheckConsistency(old.Checkpoint, now.Checkpoint, proof))
	}
}

// A server that dies under load comes back with what it committed; the sequencer goes on from there.
func TestTheServerDies(t *testing.T) {
	var mortal pgtest.Shared
	t.Cleanup(func() {
		if err := mortal.Close(); err != nil {
			t.Error(err)
		}
	})
	db := newDatabaseOn(t, &mortal)
	cfg := config(t, db, newSigner(1))
	cfg.Batch = 50
	q, _ := running(t, cfg)
	var older Stored
	for n := range 2 {
		fill(t, db, 3000)
		eventually(t, "it is in the middle", func() bool { return q.Status().Size > int64(3000*n+200) && q.Status().Checkpoint.Size > older.Size })
		mortal.Server(t).StopHard()
		eventually(t, "it says so", func() bool { s := q.Status(); return !s.Holder && len(s.Errors) > 0 })
		if err := mortal.Server(t).Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		db.owner.Reset()
		db.auditor.Reset()
		eventually(t, "it goes on", func() bool { s := q.Status(); return s.Checkpoint.Size == int64(3000*(n+1)) && len(s.Errors) == 0 })
		newest := q.Status().Checkpoint
		if older.Size > 0 {
			proof, err := Consistency(t.Context(), db.auditor, 1, older.Size, newest.Size)
			if err != nil || CheckConsistency(older.Checkpoint, newest.Checkpoint, proof) != nil {
				t.Errorf("%v", err)
			}
		}
		older = newest
		wantWhole(t, db)
	}
}

func copyOne(t *testing.T, db database, run func(*pgx.Conn) error) {
	t.Helper()
	conn, err := db.owner.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := run(conn.Conn()); err != nil {
		t.Fatal(err)
	}
}

func entryOf(t *testing.T, p Proof) uuid.UUID {
	t.Helper()
	e, err := audit.ParseEntry([]byte(p.Entry.Record))
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}
