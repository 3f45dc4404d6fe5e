package verify

import (
	"fmt"
	"strings"
)

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
		"a term's machine changed", `update audit.terms set machine_name = 'worker-9' where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`, `term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`},
	},
	{
		"a term's caller taken away", `update audit.terms set caller_subject = null where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`, `term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`},
	},
	{
		"a term's caller made empty", `update audit.terms set caller_subject = '' where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`, `term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`},
	},
	{
		"a term given to another entry", `update audit.terms set (recorded_at, id) = (select recorded_at, id from audit.entries where id = '{P20.id}') where id = '{D20.id}' and term = 'BW-MODE-001'`,
		[]string{`term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`, `term terms 1/{P20} [] {P20.id} code "BW-MODE-001"`},
	},
	{
		"a term that is too long to be one", `alter table audit.terms drop constraint terms_pk; insert into audit.terms select 'code', repeat('ä', 3000), recorded_at, id from audit.entries where id = '{P20.id}'`,
		[]string{`term terms 1/{P20} [] {P20.id} code "` + strings.Repeat("ä", 768) + `…[cut here]"`},
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
