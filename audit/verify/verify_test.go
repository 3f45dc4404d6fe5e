package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit/tree"
)

func TestTheUntouchedBookIsWhole(t *testing.T) {
	d := newDatabase(t)
	kept := Kept{"kept", []byte(d.text(t, "select note from audit.checkpoints where tree = 1 and size = 612"))}
	r := d.verify(t, Options{Keys: ours.keys(), Kept: []Kept{kept}})
	if !r.Whole || len(r.Findings) > 0 || len(r.Counts) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	first, second := r.Trees[0], r.Trees[1]
	if r.Entries+r.Outcomes != lastRound+secondTree+stillWaiting || r.Waiting != stillWaiting || !r.SignaturesChecked {
		t.Errorf("%+v", r)
	}
	if first.Leaves != lastRound || first.Tiles != 2 || first.Checkpoints != 3 || first.Agreed != 3 || first.Signatures != 3 || first.KeptAgreed != 1 ||
		second.Leaves != secondTree || second.Agreed != 1 || second.Epoch != secondEpoch {
		t.Errorf("%+v", r.Trees)
	}
	if r := d.verify(t, Options{stride: 64, pending: 1}); !r.Whole {
		t.Errorf("with little memory: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{}); !r.Whole || r.SignaturesChecked || r.Trees[0].Signatures != 0 {
		t.Errorf("without keys: %+v", r)
	}
}

// A book that was tampered with, and what is told of it. {E5} is the place of the first entry's leaf from 5 on, {O5} that
// of an outcome's, and {E5.id} their ids.
var tampered = []struct {
	name, sql string
	want      []string
}{
	{
		"a record changed", `update audit.entries set record = convert_to(replace(convert_from(record, 'UTF8'), 'olga', 'vera'), 'UTF8') where id = '{E20.id}'`,
		[]string{"changed entries 1/{E20} [record] {E20.id}"},
	},
	{
		"a record and its columns changed", `update audit.entries set verdict = 'deny', record = convert_to(replace(convert_from(record, 'UTF8'), '"allow"', '"deny"'), 'UTF8') where id = '{A20.id}'`,
		[]string{"changed entries 1/{A20} [record] {A20.id}"},
	},
	{
		"a record with the order of its members changed", `update audit.outcomes set record = convert_to(regexp_replace(convert_from(record, 'UTF8'), '^{"v":1,("id":"[^"]*"),("entry_id":"[^"]*")', '{"v":1,\2,\1'), 'UTF8') where id = '{O20.id}'`,
		[]string{"changed outcomes 1/{O20} [record] {O20.id}"},
	},
	{
		"columns alone changed", `update audit.entries set caller_subject = 'vera', verdict = 'refuse', codes = '{}', machine_id = null where id = '{A20.id}'`,
		[]string{"column entries 1/{A20} [verdict caller_subject machine_id codes] {A20.id}"},
	},
	{
		"a leaf column changed", `alter table audit.entries alter column leaf drop expression; update audit.entries set leaf = sha256('x') where id = '{E20.id}'`,
		[]string{"column entries 1/{E20} [leaf] {E20.id}"},
	},
	{
		"an outcome's column changed", `update audit.outcomes set duration_us = duration_us + 1 where id = '{O650.id}'`,
		[]string{"column outcomes 1/{O650} [duration_us] {O650.id}"},
	},
	{
		"recorded_at changed", `update audit.entries set recorded_at = recorded_at + interval '1 microsecond' where id = '{E400.id}'`,
		[]string{"changed entries 1/{E400} [recorded_at] {E400.id}"},
	},
	{
		"recorded_at of an outcome moved to the next month", `update audit.outcomes set recorded_at = date_trunc('month', now() at time zone 'UTC') at time zone 'UTC' + interval '40 days' where id = '{O400.id}'`,
		[]string{"changed outcomes 1/{O400} [recorded_at] {O400.id}"},
	},
	{
		"an entry deleted", `delete from audit.entries where id = '{E400.id}'`,
		[]string{"missing entries 1/{E400} [] {E400.id}"},
	},
	{
		"an outcome deleted", `delete from audit.outcomes where id = '{O10.id}'`,
		[]string{"missing outcomes 1/{O10} [] {O10.id}"},
	},
	{
		"a row inserted", copyOf("{E400.id}", "'018f2f6e-0000-7000-8000-00000000ffff'", "now()"),
		[]string{"inserted entries [] 018f2f6e-0000-7000-8000-00000000ffff"},
	},
	{
		"a row inserted with another's id, before it", copyOf("{E400.id}", "id", "recorded_at - interval '1 second'"),
		[]string{"inserted entries 1/{E400} [] {E400.id}"},
	},
	{
		"a row inserted with another's id, after it", copyOf("{E400.id}", "id", "recorded_at + interval '1 hour'"),
		[]string{"inserted entries 1/{E400} [] {E400.id}"},
	},
	{
		"a row twice", `alter table audit.entries drop constraint entries_pk; ` + copyOf("{E400.id}", "id", "recorded_at"),
		[]string{"inserted entries 1/{E400} [] {E400.id}"},
	},
	{
		"entries rolled back to an older copy", `delete from audit.entries where id in (select id from audit.leaves where tree = 1 and index >= {E700})`,
		nil, // counted below
	},
	{
		"two leaves exchanged", `alter table audit.leaves drop constraint leaves_pk; update audit.leaves set index = 10 + 200 - index where tree = 1 and index in (10, 200)`,
		[]string{"out_of_order leaves 1/10 [] with 200"},
	},
	{
		"two leaves exchanged between tiles", `alter table audit.leaves drop constraint leaves_pk; update audit.leaves set index = 10 + 300 - index where tree = 1 and index in (10, 300)`,
		[]string{"out_of_order leaves 1/10 [] with 300"},
	},
	{
		"two leaves exchanged in the tile that is not full", `alter table audit.leaves drop constraint leaves_pk; update audit.leaves set index = 520 + 729 - index where tree = 1 and index in (520, 729)`,
		[]string{"out_of_order leaves 1/520 [] with 729"},
	},
	{
		"a leaf replaced", `update audit.leaves set leaf = sha256('x') where tree = 1 and index = {E20}`,
		[]string{"leaf leaves 1/{E20} [leaf] {E20.id}"},
	},
	{
		"a leaf replaced in the tile that is not full", `update audit.leaves set leaf = sha256('x') where tree = 1 and index = {E600}`,
		[]string{"leaf leaves 1/{E600} [leaf] {E600.id}"},
	},
	{
		"two leaves replaced, and another row of the tile changed", `update audit.leaves set leaf = sha256('x') where tree = 1 and index in ({E20}, {E30}); update audit.entries set verdict = 'refuse' where id = '{A40.id}'`,
		[]string{"column entries 1/{A40} [verdict] {A40.id}", "leaf leaves 1/{E20} [leaf] {E20.id}", "leaf leaves 1/{E30} [leaf] {E30.id}"},
	},
	{
		"a leaf replaced and a row of its tile changed", `update audit.leaves set leaf = sha256('x') where tree = 1 and index = {E20}; update audit.entries set record = record || 'x' where id = '{E40.id}'`,
		[]string{"changed entries 1/{E40} [record] {E40.id}", "leaf leaves 1/{E20} [leaf] {E20.id}"},
	},
	{
		"a row changed with its leaf and its tile, after it was signed", `update audit.entries set record = record || ' ' where id = '{E20.id}';
			update audit.leaves l set leaf = e.leaf from audit.entries e where e.id = l.id and l.id = '{E20.id}'`,
		[]string{"column entries 1/{E20} [record] {E20.id}", "tile tiles 1/0-255 [root]"},
	},
	{
		"a leaf deleted in the middle", `delete from audit.leaves where tree = 1 and index = 100`,
		[]string{"leaf leaves 1/100 [] {100.id}"},
	},
	{
		"a leaf and its row deleted in the middle", `delete from audit.entries where id = '{E100.id}'; delete from audit.leaves where tree = 1 and index = {E100}`,
		// Its terms, which stayed, say which it was.
		[]string{"leaf leaves 1/{E100} []", `term terms [] {E100.id} code "BW-CONFIG-004"`, `term terms [] {E100.id} code "BW-MODE-001"`},
	},
	{
		"a leaf deleted at the end", `delete from audit.leaves where tree = 1 and index = 729`,
		[]string{"leaf leaves 1/729 [] {729.id}"},
	},
	{
		"some leaves deleted at the end", `delete from audit.leaves where tree = 1 and index >= 727`,
		[]string{"leaf leaves 1/727 [] {727.id}", "leaf leaves 1/728 [] {728.id}", "leaf leaves 1/729 [] {729.id}"},
	},
	{
		"many leaves deleted, over tiles", `delete from audit.leaves where tree = 1 and index between 200 and 600`,
		nil, // counted below
	},
	{
		"a tile's root changed", `update audit.tiles set root = sha256('x') where tree = 1 and index = 1`,
		[]string{"tile tiles 1/256-511 [root]"},
	},
	{
		"a tile deleted", `delete from audit.tiles where tree = 1 and index = 1`,
		[]string{"tile tiles 1/256-511 [root]"},
	},
	{
		"a tile too many", `insert into audit.tiles values (1, 0, 2, sha256('x')), (1, 1, 0, sha256('x'))`,
		[]string{"tile tiles 1/0-65535 []", "tile tiles 1/512-767 []"},
	},
	{
		"a checkpoint's root changed", `update audit.checkpoints set root = sha256('x') where tree = 1 and size = 612`,
		[]string{"checkpoint checkpoints 1/0-611 [root]"},
	},
	{
		"a checkpoint's size changed", `update audit.checkpoints set size = 700 where tree = 1 and size = 612`,
		[]string{"checkpoint checkpoints 1/0-699 [size]"},
	},
	{
		"a checkpoint's size changed to more than there is", `update audit.checkpoints set size = 7000 where tree = 1 and size = 612`,
		[]string{"checkpoint checkpoints 1/0-6999 [size]"},
	},
	{
		"a checkpoint's note changed", `update audit.checkpoints set note = replace(note, E'\n612\n', E'\n613\n') where tree = 1 and size = 612`,
		[]string{"checkpoint checkpoints 1/0-611 [size]", "signature checkpoints 1/0-611 [note]"},
	},
	{
		"a checkpoint's note exchanged for another's", `update audit.checkpoints set note = (select note from audit.checkpoints where size = 40) where tree = 1 and size = 612`,
		[]string{"checkpoint checkpoints 1/0-611 [size root origin]"},
	},
	{
		"a checkpoint's note is none", `update audit.checkpoints set note = 'x' where tree = 1 and size = 612`,
		[]string{"checkpoint checkpoints 1/0-611 [note]"},
	},
	{
		"a row no longer waits", `delete from audit.unsequenced where id = '{W.id}'`,
		[]string{"inserted entries [] {W.id}"},
	},
	{
		"a row that waits deleted", `delete from audit.entries where id = '{W.id}'`,
		[]string{"missing entries [] {W.id}"},
	},
	{
		"a row that waits changed", `update audit.entries set record = record || 'x' where id = '{W.id}'`,
		[]string{"changed entries [record] {W.id}", "column entries [record] {W.id}"},
	},
	{
		"an id in both places", `insert into audit.unsequenced select recorded_at, id, source, leaf from audit.leaves where tree = 1 and index = {E20}`,
		[]string{"unsequenced entries 1/{E20} [] {E20.id}"},
	},
	{
		"an id with two leaves", `alter table audit.leaves drop constraint leaves_one_place; insert into audit.leaves select recorded_at, 730, id, 1, source, leaf from audit.leaves where tree = 1 and index = 20`,
		[]string{"leaf leaves 1/730 [] {20.id}"},
	},
	{
		"a leaf that says another time", `update audit.leaves set recorded_at = recorded_at + interval '1 microsecond' where tree = 1 and index = {E20}`,
		[]string{"changed entries 1/{E20} [recorded_at] {E20.id}"},
	},
	{
		"a leaf that says the other table", `update audit.leaves set source = 'outcome' where tree = 1 and index = {E20}`,
		[]string{"changed entries 1/{E20} [table] {E20.id}"},
	},
	{
		"a term deleted", `delete from audit.terms where id = '{P20.id}' and term = 'machine.sysctls["net.core"]'`,
		[]string{`term terms 1/{P20} [] {P20.id} path "machine.sysctls[\"net.core\"]"`},
	},
	{
		"all terms of an entry deleted", `delete from audit.terms where id = '{D20.id}'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-CONFIG-004"`, `term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`},
	},
	{
		"a term inserted", `insert into audit.terms select 'path', 'cluster', recorded_at, id from audit.entries where id = '{P20.id}'`,
		[]string{`term terms 1/{P20} [] {P20.id} path "cluster"`},
	},
	{
		"a term inserted for an entry that gives none", `insert into audit.terms select 'code', 'BW-X', recorded_at, id from audit.entries where id = '{W.id}'`,
		[]string{`term terms [] {W.id} code "BW-X"`},
	},
	{
		"a term inserted for an entry that never was", `insert into audit.terms values ('code', 'BW-MODE-001', now(), '018f2f6e-0000-7000-8000-00000000ffff')`,
		[]string{`term terms [] 018f2f6e-0000-7000-8000-00000000ffff code "BW-MODE-001"`},
	},
	{
		"a term inserted at another time than its entry's", `insert into audit.terms select field, term, recorded_at + interval '1 hour', id from audit.terms where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms [] {D20.id} code "BW-MODE-001"`},
	},
	{
		"a term inserted outside of all time", `insert into audit.terms select field, term, 'infinity', id from audit.terms where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms [] {D20.id} code "BW-MODE-001"`},
	},
	{
		"a term twice", `alter table audit.terms drop constraint terms_pk; insert into audit.terms select * from audit.terms where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`},
	},
	{
		"a term changed", `update audit.terms set term = 'BW-MODE-002' where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`, `term terms 1/{D20} [] {D20.id} code "BW-MODE-002"`},
	},
	{
		"a term's field changed", `alter table audit.terms drop constraint terms_field_known; update audit.terms set field = 'path' where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`, `term terms 1/{D20} [] {D20.id} path "BW-MODE-001"`},
	},
	{
		"a term given to another entry", `update audit.terms set (recorded_at, id) = (select recorded_at, id from audit.entries where id = '{P20.id}') where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`, `term terms 1/{P20} [] {P20.id} code "BW-MODE-001"`},
	},
	{
		"a term that is too long to be one", `alter table audit.terms drop constraint terms_pk; insert into audit.terms select 'code', repeat('ä', 3000), recorded_at, id from audit.entries where id = '{P20.id}'`,
		[]string{`term terms 1/{P20} [] {P20.id} code "` + strings.Repeat("ä", 1024) + `…[cut here]"`},
	},
	{
		"an entry deleted whose terms stayed", `delete from audit.entries where id = '{D400.id}'`,
		[]string{"missing entries 1/{D400} [] {D400.id}"},
	},
	{
		"an entry deleted with its terms", `delete from audit.terms where id = '{D400.id}'; delete from audit.entries where id = '{D400.id}'`,
		[]string{"missing entries 1/{D400} [] {D400.id}"},
	},
	{
		"an entry changed so that it gives other terms", `update audit.entries set codes = '{BW-CONFIG-005,BW-MODE-001}', record = convert_to(replace(convert_from(record, 'UTF8'), 'BW-CONFIG-004', 'BW-CONFIG-005'), 'UTF8') where id = '{D20.id}'`,
		[]string{"changed entries 1/{D20} [record] {D20.id}"},
	},
	{
		"a codes column changed, and terms with it", `update audit.entries set codes = '{BW-MODE-001}' where id = '{D20.id}'; delete from audit.terms where id = '{D20.id}' and term = 'BW-CONFIG-004'`,
		[]string{"column entries 1/{D20} [codes] {D20.id}", `term terms 1/{D20} [] {D20.id} code "BW-CONFIG-004"`},
	},
	{
		"all terms deleted", `delete from audit.terms`,
		nil, // counted below
	},
	{
		"a tree's row deleted", `delete from audit.trees where tree = 1`,
		[]string{"tree trees 1 []"},
	},
	{
		"a tree's origin changed", `update audit.trees set origin = replace(origin, '1111-4111', '1111-4112') where tree = 2`,
		[]string{"checkpoint checkpoints 2/0-39 [origin]", "tree trees 2 [origin]"},
	},
}

// copyOf inserts a copy of an entry.
func copyOf(id, newID, at string) string {
	columns := "kind, verdict, method, class, mode, dry_run, caller_issuer, caller_subject, caller_kind, proof, client_address, machine_id, machine_name, cluster, digest, base_digest, persistent_digest, change_id, attempt_id, epoch, authority_version, policy_revision, codes, instance, count"
	return fmt.Sprintf(`insert into audit.entries (recorded_at, id, %[1]s, record) select %[4]s, %[3]s, %[1]s,
		convert_to(replace(convert_from(record, 'UTF8'), id::text, (%[3]s)::text), 'UTF8') from audit.entries where id = '%[2]s'`, columns, id, newID, at)
}

func TestTamperingIsFoundAndNamed(t *testing.T) {
	for _, row := range tampered {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			sql, want := d.expand(t, row.sql), []string{}
			for _, w := range row.want {
				want = append(want, d.expand(t, w))
			}
			d.tamper(t, sql)
			r := d.verify(t, Options{Keys: ours.keys(), Limit: 20})
			// The same is found when hardly anything may wait in memory, and what does not meet is looked up.
			if few := d.verify(t, Options{Keys: ours.keys(), Limit: 20, stride: 64, pending: 8, Readers: 3}); !maps.Equal(few.Counts, r.Counts) || row.want != nil && !slices.Equal(told(few.Findings), told(r.Findings)) {
				t.Errorf("with little memory, told\n%s\nof %v", strings.Join(told(few.Findings), "\n"), few.Counts)
			}
			got := told(r.Findings)
			if r.Whole || row.want != nil && !slices.Equal(got, want) {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			switch row.name {
			case "entries rolled back to an older copy":
				gone := count(t, d, "select count(*) from audit.leaves l where tree = 1 and source = 'entry' and not exists (select from audit.entries e where e.id = l.id)")
				if gone < 10 || r.Counts[Missing] != gone || len(r.Counts) != 1 {
					t.Errorf("%d rows are gone, counted are %v", gone, r.Counts)
				}
			case "all terms deleted":
				gave := count(t, d, `select count(*) from (select e.id, 'c' || c from audit.entries e, unnest(codes) c union select e.id, 'p' || p from audit.entries e, audit.path_terms(record) p) x`)
				if gave < 500 || r.Counts[Term] != gave || len(r.Counts) != 1 || len(r.Findings) != 20 {
					t.Errorf("%d terms are gone, counted are %v", gave, r.Counts)
				}
			case "many leaves deleted, over tiles":
				if r.Counts[Inserted] != 401 || r.Counts[Leaf] != 1 || len(r.Counts) != 2 || r.Trees[0].Unknown != 3 || r.Trees[0].Agreed != 0 || len(r.Findings) != 21 {
					t.Errorf("counted are %v, %+v", r.Counts, r.Trees[0])
				}
			}
			for _, f := range r.Findings {
				if strings.Contains(fmt.Sprintf("%+v", f), "olga") || f.Text == "" {
					t.Errorf("tells of what a record says, or nothing: %+v", f)
				}
			}
		})
	}
}

func count(t testing.TB, d database, sql string) (n int64) {
	t.Helper()
	if err := d.owner.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var placeholder = regexp.MustCompile(`\{([EOAWDP]?)(\d*)(\.id)?\}`)

// expand puts places and ids in; {A…} is an entry that was allowed, {D…} one with two codes,
// {P…} one with changed paths, {W} one that waits.
func (d database) expand(t testing.TB, text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(word string) string {
		m := placeholder.FindStringSubmatch(word)
		if m[1] == "" && m[2] == "" {
			return word
		}
		if m[1] == "W" {
			return d.text(t, "select id::text from audit.unsequenced where source = 'entry' order by recorded_at limit 1")
		}
		what := map[string]string{
			"": "", "E": "and source = 'entry'", "O": "and source = 'outcome'", "A": "and id in (select id from audit.entries where verdict = 'allow')",
			"D": "and id in (select id from audit.entries where codes = '{BW-CONFIG-004,BW-MODE-001}')", "P": "and id in (select id from audit.entries where audit.names_paths(record))",
		}[m[1]]
		column := "index::text"
		if m[3] != "" {
			column = "id::text"
		}
		return d.text(t, fmt.Sprintf("select %s from audit.leaves l where tree = 1 and index >= %s %s order by l.index limit 1", column, m[2], what))
	})
}

// told is what findings say but their sentences, sorted.
func told(list []Finding) []string {
	out := []string{}
	for _, f := range list {
		words := []string{string(f.Kind), f.Table}
		if f.Tree > 0 {
			place := fmt.Sprint(f.Tree)
			if f.Indexes != nil {
				place += fmt.Sprintf("/%d", f.Indexes[0])
				if f.Indexes[1] != f.Indexes[0] {
					place += fmt.Sprintf("-%d", f.Indexes[1])
				}
			}
			words = append(words, place)
		}
		words = append(words, fmt.Sprint(f.Differs))
		if f.Kind == OutOfOrder {
			words = append(words, fmt.Sprintf("with %d", f.Others[0].Index))
		} else if f.ID != uuid.Nil {
			words = append(words, f.ID.String())
		}
		if f.Term != "" {
			words = append(words, f.Field, strconv.Quote(f.Term))
		}
		out = append(out, strings.Join(words, " "))
	}
	slices.Sort(out)
	return out
}

func TestAWholeMonthThatIsGoneIsOneFinding(t *testing.T) {
	d := newDatabase(t)
	month := before().Format("2006-01")
	part := before().Format("2006_01")
	d.tamper(t, "alter table audit.entries detach partition audit.entries_"+part+"; drop table audit.outcomes_"+part)
	r := d.verify(t, Options{Keys: ours.keys()})
	if got := told(r.Findings); !slices.Equal(got, []string{"detached entries []", "detached outcomes []"}) || r.Findings[0].Rows+r.Findings[1].Rows != lastMonth {
		t.Errorf("%v %+v", got, r.Findings)
	}
	if !strings.Contains(r.Findings[0].Text, month) {
		t.Error(r.Findings[0].Text)
	}
	if r := d.verify(t, Options{Keys: ours.keys(), Detached: []string{month}}); !r.Whole || r.Away != lastMonth || r.Trees[0].Agreed != 3 {
		t.Errorf("accepted: %+v", r)
	}
	if r := d.verify(t, Options{Detached: []string{"2001-01"}}); r.Whole {
		t.Error("another month was accepted")
	}
}

func TestATruncatedPartitionIsManyRowsMissing(t *testing.T) {
	d := newDatabase(t)
	d.tamper(t, "truncate audit.entries_"+before().Format("2006_01"))
	r := d.verify(t, Options{Detached: []string{before().Format("2006-01")}, Limit: 7})
	want := count(t, d, "select count(*) from audit.leaves where tree = 1 and index < 300 and source = 'entry'")
	if r.Whole || r.Counts[Missing] != want || len(r.Counts) != 1 || len(r.Findings) != 7 {
		t.Errorf("%v of %d, %d listed", r.Counts, want, len(r.Findings))
	}
}

func TestAKeptCheckpointTellsWhatTheBookAloneCannot(t *testing.T) {
	d := newDatabase(t)
	note := func(size int) []byte {
		return []byte(d.text(t, fmt.Sprintf("select note from audit.checkpoints where tree = 1 and size = %d", size)))
	}
	kept := []Kept{{"last", note(730)}, {"middle", note(612)}}
	foreign := []Kept{{"foreign", []byte(d.text(t, "select note from audit.checkpoints where tree = 2"))}}

	// The whole book as it was at 612 leaves: whole in itself.
	d.tamper(t, `delete from audit.terms where id in (select id from audit.leaves where tree = 2 or index >= 612) or id in (select id from audit.unsequenced);
		delete from audit.entries where id in (select id from audit.leaves where tree = 2 or index >= 612); delete from audit.outcomes where id in (select id from audit.leaves where tree = 2 or index >= 612);
		delete from audit.entries where id in (select id from audit.unsequenced); delete from audit.outcomes where id in (select id from audit.unsequenced);
		delete from audit.unsequenced; delete from audit.leaves where tree = 2 or index >= 612; delete from audit.trees where tree = 2; delete from audit.checkpoints where tree = 2 or size > 612`)
	if r := d.verify(t, Options{Keys: ours.keys()}); !r.Whole {
		t.Errorf("the older copy is not whole in itself, so that this test shows nothing: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: ours.keys(), Kept: kept}); !slices.Equal(told(r.Findings), []string{"rolled_back last 1/0-729 []"}) || r.Trees[0].KeptAgreed != 1 {
		t.Errorf("rolled back: %+v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: ours.keys(), Kept: foreign}); !slices.Equal(told(r.Findings), []string{"forked foreign []"}) {
		t.Errorf("another tree: %+v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: newSigner("another").keys(), Kept: kept[1:]}); r.Counts[Signature] != 3 || !strings.Contains(r.Findings[0].Text, "the public key is not this installation's") {
		t.Errorf("another key: %+v", r.Findings)
	}

	// Another book of the same length, signed again: only the kept checkpoint and the public key tell.
	forge(t, d, newSigner("another"))
	if r := d.verify(t, Options{}); !r.Whole {
		t.Errorf("the forged book is not whole in itself: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{Kept: kept[1:]}); !slices.Equal(told(r.Findings), []string{"forked middle 1/0-611 [root]"}) {
		t.Errorf("forked: %v", told(r.Findings))
	}
	if r := d.verify(t, Options{Keys: ours.keys()}); !slices.Equal(told(r.Findings), []string{"signature checkpoints 1/0-611 [note]"}) {
		t.Errorf("signed by another: %v", told(r.Findings))
	}
	if _, err := Book(t.Context(), d.config(t), Options{Kept: []Kept{{"broken", []byte("x")}}}); !errors.Is(err, ErrKept) {
		t.Errorf("a file that is no checkpoint: %v", err)
	}
}

// forge changes the last row and makes leaf, tree and the only checkpoint anew.
func forge(t *testing.T, d database, s signer) {
	t.Helper()
	d.tamper(t, d.expand(t, `update audit.entries set instance = 'gw-9', record = convert_to(replace(convert_from(record, 'UTF8'), '"gw-1"', '"gw-9"'), 'UTF8') where id = '{A600.id}';
		update audit.leaves l set leaf = e.leaf from audit.entries e where e.id = l.id; delete from audit.checkpoints where size < 612`))
	rows, err := d.owner.Query(t.Context(), "select leaf from audit.leaves where tree = 1 order by index")
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		t.Fatal(err)
	}
	var all spine
	for _, l := range leaves {
		all.push(hash(l), nil)
	}
	c := tree.Checkpoint{Origin: tree.Origin(installation, firstEpoch), Size: int64(len(leaves)), Root: all.root(nil)}
	if _, err := d.owner.Exec(t.Context(), "update audit.checkpoints set root = $1, note = $2", c.Root[:], s.note(t, c)); err != nil {
		t.Fatal(err)
	}
}

func TestARangeReadsItsRowsAlone(t *testing.T) {
	d := newDatabase(t)
	begin := d.moment(t, "select recorded_at from audit.leaves where tree = 1 and index = 300")
	moved := []string{d.expand(t, "changed entries 1/{E60} [recorded_at] {E60.id}"), d.expand(t, "changed outcomes 1/{O500} [recorded_at] {O500.id}")}
	later := append(moved, d.expand(t, "missing outcomes 1/{O400} [] {O400.id}"))
	earlier := append(slices.Clone(moved), d.expand(t, "column entries 1/{A40} [verdict] {A40.id}"), d.expand(t, "missing entries 1/{E20} [] {E20.id}"))
	// The two that are moved leave their own half for the other.
	d.tamper(t, d.expand(t, `delete from audit.entries where id = '{E20.id}'; update audit.entries set verdict = 'refuse' where id = '{A40.id}';
		delete from audit.outcomes where id = '{O400.id}'; update audit.outcomes set recorded_at = recorded_at - interval '20 days' where id = '{O500.id}';
		update audit.entries set recorded_at = recorded_at + interval '31 days 1 hour' where id = '{E60.id}'`))
	r := d.verify(t, Options{Since: begin})
	if got := told(r.Findings); !slices.Equal(got, later) || r.Trees[0].Leaves != lastRound {
		t.Errorf("since: told %v, want %v", got, later)
	}
	if got := told(d.verify(t, Options{Until: begin}).Findings); !slices.Equal(got, earlier) {
		t.Errorf("until: told %v, want %v", got, earlier)
	}
}

func TestARowThatWaitsForTooLongIsTold(t *testing.T) {
	d := newDatabase(t)
	want := []string{d.expand(t, "unsequenced entries [] {W.id}")}
	d.tamper(t, d.expand(t, `update audit.entries set recorded_at = recorded_at - interval '2 hours' where id = '{W.id}';
		update audit.terms set recorded_at = recorded_at - interval '2 hours' where id = '{W.id}';
		update audit.unsequenced u set recorded_at = e.recorded_at, leaf = e.leaf from audit.entries e where e.id = u.id and u.id = '{W.id}'`))
	r := d.verify(t, Options{})
	if got := told(r.Findings); !slices.Equal(got, want) || !strings.Contains(r.Findings[0].Text, "more than a minute") {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestWhatCannotBeVerifiedIsAnError(t *testing.T) {
	d := newDatabase(t)
	if _, err := Book(t.Context(), d.config(t), Options{Detached: []string{"January"}}); !errors.Is(err, ErrMonth) {
		t.Error(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Book(stopped, d.config(t), Options{}); err == nil {
		t.Error("a verification that was stopped has a report")
	}
	away, err := pgx.ParseConfig("postgres://auditor:secret-word@127.0.0.1:1/book?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Book(t.Context(), away, Options{}); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "secret-word") {
		t.Errorf("a database that is away: %v", err)
	}
	if _, err := d.owner.Exec(t.Context(), "create role stranger login; update audit.schema_version set version = 2"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = d.owner.Exec(context.Background(), "drop role stranger") })
	if _, err := Book(t.Context(), d.config(t), Options{}); err == nil || !strings.Contains(err.Error(), "bronzeward migrate") {
		t.Errorf("an old schema: %v", err)
	}
	config, err := pgx.ParseConfig(shared.Server(t).DSN(d.name, "stranger"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Book(t.Context(), config, Options{}); err == nil || !strings.Contains(err.Error(), "bronzeward_auditor") {
		t.Errorf("a login without the role: %v", err)
	}
}
