package verify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The gateway's role may write any time into the tables of the tree.
func TestATimeOutsideOfAllTimeIsTold(t *testing.T) {
	for _, at := range []string{"infinity", "-infinity", "290000-01-01", "4000-01-01 BC"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			if _, err := d.owner.Exec(t.Context(), `set role test_gateway;
				insert into audit.unsequenced values ('`+at+`', gen_random_uuid(), 'entry', sha256('x'));
				insert into audit.leaves (recorded_at, index, id, tree, source, leaf) values ('`+at+`', 40, gen_random_uuid(), 2, 'entry', sha256('x'))`); err != nil {
				t.Fatal(err)
			}
			// A row that waits is given its place by hand, at that time, and the reader of ranges meets the other leaf.
			if _, err := d.owner.Exec(t.Context(), `set role test_gateway;
				with taken as (delete from audit.unsequenced where id = (select id from audit.unsequenced u where leaf <> sha256('x') order by id limit 1) returning *)
				insert into audit.leaves (recorded_at, index, id, tree, source, leaf) select '`+at+`', 41, id, 2, source, leaf from taken`); err != nil {
				t.Fatal(err)
			}
			r := d.verify(t, Options{stride: 20})
			if r.Whole || r.Counts[Missing] != 1 || r.Counts[Changed] != 1 || r.Counts[Detached]+r.Counts[Leaf] == 0 {
				t.Errorf("got %v, want the row that waits, the row of the other leaf and the leaves told of: %v", r.Counts, r.Findings)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// shown is a policy that shows forged rows to every session but one that verifies.
const shown = `create policy forged on audit.entries for select to bronzeward_auditor using
	(current_setting('transaction_isolation') <> 'repeatable read' or not exists (select from audit.leaves l where l.id = entries.id and l.leaf <> entries.leaf));
	alter table audit.entries enable row level security;
	insert into audit.entries (recorded_at, id, kind, verdict, method, authority_version, count, record)
	select recorded_at + interval '1 microsecond', id, kind, 'deny', method, authority_version, count, record
	from audit.entries where caller_subject = 'u-1' order by recorded_at limit 1;`

func TestTheVerificationIsShownNoOtherBook(t *testing.T) {
	for name, c := range map[string]struct{ sql, want string }{
		"a policy hides rows": {shown, "42501"},
		"a policy hides rows, and a function of the owner's stands before the database's": {
			shown + `create schema evil; grant usage on schema evil to public;
				create function evil.set_config(text, text, boolean) returns text language sql as 'select $2';
				do $$ begin execute format('alter database %I set search_path = evil, pg_catalog', current_database()); end $$`, "42501",
		},
		"a view in the place of the leaves": {
			`alter table audit.leaves rename to real_leaves; create view audit.leaves as select * from audit.real_leaves;
				grant select on audit.leaves to bronzeward_auditor`, "no table of the book's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.tamper(t, c.sql)
			r, err := Book(t.Context(), d.config(t), Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v and the error %v, want one with %q", r.Counts, err, c.want)
			}
		})
	}
}

// A leaf's time is beside its hash, so that who deletes a row can say that it was of a month that is away, or outside of the
// range that is asked for.
func TestALeafThatWasMovedInTimeHidesNothing(t *testing.T) {
	d := newDatabase(t)
	const victim = "(select id from audit.leaves where tree = 1 and index = 500)"
	since := d.moment(t, "select recorded_at from audit.leaves where tree = 1 and index = 450")
	until := d.moment(t, "select recorded_at from audit.leaves where tree = 1 and index = 550")
	if r := d.verify(t, Options{Since: since, Until: until}); !r.Whole {
		t.Fatalf("control: a range of the whole book has %v", r.Findings)
	}
	at := d.moment(t, "select recorded_at from audit.leaves where id = "+victim)
	for name, c := range map[string]struct {
		move string
		o    Options
		want Kind
	}{
		"into a month that is away":             {"'1999-01-15'", Options{Detached: []string{"1999-01"}}, Leaf},
		"into a month to come that is away":     {"'2999-01-15'", Options{Detached: []string{"2999-01"}}, Leaf},
		"before the range":                      {"'" + since.Add(-time.Microsecond).Format(time.RFC3339Nano) + "'", Options{Since: since, Until: until}, Missing},
		"behind the range":                      {"'" + until.Add(time.Microsecond).Format(time.RFC3339Nano) + "'", Options{Since: since, Until: until}, Missing},
		"nowhere: control of the deletion":      {"recorded_at", Options{Since: since, Until: until}, Missing},
		"nowhere, away: control of the missing": {"recorded_at", Options{Detached: []string{"1999-01"}}, Missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.tamper(t, `delete from audit.terms where id = `+victim+`; delete from audit.entries where id = `+victim+`; delete from audit.outcomes where id = `+victim+`;
				update audit.leaves set recorded_at = `+c.move+` where id = `+victim)
			r := d.verify(t, c.o)
			if r.Counts[c.want] != 1 {
				t.Errorf("a row recorded at %v was deleted, and its leaf moved: got %v %v, want one %s", at, r.Counts, r.Findings, c.want)
			}
		})
	}
}
