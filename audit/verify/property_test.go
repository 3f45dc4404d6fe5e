package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// unproven are the columns that no proof is about: when something was stored, by the database's clock alone.
var unproven = map[string]bool{"trees.began_at": true, "checkpoints.signed_at": true}

// changes are how a value of a type is made another one.
var changes = map[string]string{
	"text": "coalesce(@, '') || 'x'", "uuid": "gen_random_uuid()", "boolean": "not @", "text[]": "coalesce(@, '{}') || '{x}'",
	"bigint": "coalesce(@, 0) + 1000", "integer": "@ + 7", "smallint": "@ + 1",
	"timestamp with time zone": "@ + interval '3 microseconds'", "bytea": "set_byte(@, length(@) / 2, get_byte(@, length(@) / 2) # 1)",
}

type columnOf struct {
	table, name, kind string
	nullable          bool
}

func TestAChangeOfAnyColumnOfAnyRowIsFound(t *testing.T) {
	d := newDatabase(t)
	d.tamper(t, `do $$ declare c record; begin
		for c in select conrelid::regclass as t, conname from pg_constraint where connamespace = 'audit'::regnamespace and contype = 'c' and coninhcount = 0 loop
			execute format('alter table %s drop constraint %I', c.t, c.conname);
		end loop; end $$`)
	rows, err := d.owner.Query(t.Context(), `select c.relname::text, a.attname::text, format_type(a.atttypid, null), not a.attnotnull
		from pg_attribute a join pg_class c on c.oid = a.attrelid where c.relnamespace = 'audit'::regnamespace and a.attnum > 0 and a.attgenerated = ''
		and c.relname in ('entries', 'outcomes', 'leaves', 'tiles', 'checkpoints', 'trees', 'unsequenced', 'terms') order by 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	var columns []columnOf
	for all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c columnOf, err error) {
		err = row.Scan(&c.table, &c.name, &c.kind, &c.nullable)
		return c, err
	}); len(all) > 0 || err != nil; all = nil {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if !unproven[c.table+"."+c.name] {
				columns = append(columns, c)
			}
		}
	}
	if len(columns) < 64 {
		t.Fatalf("only %d columns", len(columns))
	}
	ctx := context.WithoutCancel(t.Context())
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(columns).Draw(t, "column")
		to := strings.ReplaceAll(changes[c.kind], "@", c.name)
		// The leaf of a row that waits is null where schema version 2 wrote it.
		if c.nullable && c.table != "unsequenced" && rapid.Bool().Draw(t, "to null") {
			to = "null"
		}
		nth := rapid.IntRange(0, 10_000).Draw(t, "row")
		var old *string
		var part, place string
		err := d.owner.QueryRow(ctx, fmt.Sprintf(`with picked as (select tableoid as t, ctid as c, %[2]s::text as old from audit.%[1]s order by 1, 2 offset %[3]d %% (select count(*) from audit.%[1]s) limit 1)
			update audit.%[1]s x set %[2]s = %[4]s from picked where x.tableoid = picked.t and x.ctid = picked.c and (%[4]s) is distinct from %[2]s
			returning picked.old, x.tableoid::regclass::text, x.ctid::text`, c.table, c.name, nth, to)).Scan(&old, &part, &place)
		if err == pgx.ErrNoRows { // it was null already
			t.Skip()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := d.owner.Exec(ctx, fmt.Sprintf("update %s set %s = $1::text::%s where ctid = '%s'", part, c.name, c.kind, place), old); err != nil {
				t.Fatal(err)
			}
		}()
		config := d.owner.Config().Copy()
		config.User = "test_auditor"
		r, err := Book(ctx, config, Options{Keys: ours.keys()})
		if err != nil {
			t.Fatal(err)
		}
		if r.Whole {
			t.Fatalf("%s.%s of row %d of %s is now %s, and nothing is found", c.table, c.name, nth, part, to)
		}
		if len(r.Findings) > 12 {
			t.Fatalf("one change has %d findings: %v", len(r.Findings), told(r.Findings))
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
	// The control: everything was put back, and the book is whole.
	if r := d.verify(t, Options{Keys: ours.keys()}); !r.Whole {
		t.Errorf("in the end: %v", told(r.Findings))
	}
}
