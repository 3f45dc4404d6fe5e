package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// termOf is a term of an entry. If the entry is here (row), hash is its leaf.
type termOf struct {
	key
	term
	hash  hash
	row   bool
	fault string // what is wrong, if anything is
}

// termFaults looks terms up, at most so many at once.
type termFaults struct {
	look          *lookups
	found         *findings
	given, stored []termOf
}

// lookUpGiven tells of terms that entries give and audit.terms has not, or has twice.
func (t *termFaults) lookUpGiven(ctx context.Context) error {
	list := t.given
	t.given = nil
	counts, err := t.look.terms(ctx, list)
	if err != nil {
		return err
	}
	var faults []termOf
	for i, x := range list {
		switch n := counts[i]; {
		case n == 0:
			x.fault = "the record of the entry gives this term and audit.terms has it not, or with another machine or caller: a search for it misses the entry"
		case n > 1:
			x.fault = "audit.terms has this term more than once"
		default:
			continue
		}
		faults = append(faults, x)
	}
	return t.tell(ctx, faults)
}

// lookUpStored tells of terms in audit.terms that no entry gives.
func (t *termFaults) lookUpStored(ctx context.Context) error {
	list := t.stored
	t.stored = nil
	at := map[key][]int{}
	for i, x := range list {
		at[x.key] = append(at[x.key], i)
	}
	given := make([]bool, len(list))
	values := make([]member, len(entries.columns))
	err := t.look.records(ctx, at, func(k key, record []byte) {
		clear(values)
		canonical := scan(record, entries.members, values)
		var own []term
		if canonical {
			own = termsOf(record, values)
		}
		h, _ := rowLeaf(record, k.at, nil)
		for _, i := range at[k] {
			list[i].row, list[i].hash = true, h
			// What a record that cannot be read gives is not known, and it is told of for that.
			given[i] = given[i] || !canonical || slices.Contains(own, list[i].term)
		}
	})
	if err != nil {
		return err
	}
	var faults []termOf
	for i, x := range list {
		if given[i] {
			continue
		}
		x.fault = "audit.terms has this term and the record of the entry does not give it, or with another machine or caller: a search for it finds the entry wrongly"
		if !x.row {
			x.fault = "audit.terms has a term of an entry that never was"
		}
		faults = append(faults, x)
	}
	return t.tell(ctx, faults)
}

// tell tells of faults, but not of those of entries that are told of for themselves: changed, put in past the book, or
// missing, which for a month that is detached may be accepted.
func (t *termFaults) tell(ctx context.Context, faults []termOf) error {
	if len(faults) == 0 {
		return nil
	}
	ids, keys := make([]uuid.UUID, len(faults)), make([]key, len(faults))
	for i, x := range faults {
		ids[i], keys[i] = x.id, x.key
	}
	leaves, err := t.look.leavesOf(ctx, ids)
	if err != nil {
		return err
	}
	waits, err := t.look.counts(ctx, "unsequenced", keys)
	if err != nil {
		return err
	}
	for _, x := range faults {
		f := Finding{Kind: Term, Table: "terms", ID: x.id, RecordedAt: moment(x.at), Field: x.field, Term: x.text, Text: x.fault}
		i := slices.IndexFunc(leaves[x.id], func(l leaf) bool { return l.at == x.at && l.source == sourceEntry && (!x.row || l.hash == x.hash) })
		switch known := i >= 0 || len(leaves[x.id]) == 0 && waits[x.key] > 0; {
		case known != x.row:
			continue
		case i >= 0:
			f.Tree, f.Indexes = leaves[x.id][i].tree, at(leaves[x.id][i].index)
		}
		t.found.add(f)
	}
	return nil
}

// terms says how often audit.terms has each of the list.
func (k *lookups) terms(ctx context.Context, list []termOf) (map[int]int, error) {
	out := map[int]int{}
	if len(list) == 0 {
		return out, nil
	}
	var fields, texts []string
	var machines, callers []*string
	var ids []uuid.UUID
	var times []time.Time
	var places []int
	for i, x := range list {
		if strings.IndexByte(x.text, 0) >= 0 { // no text of PostgreSQL has one
			continue
		}
		fields, texts, ids = append(fields, x.field), append(texts, x.text), append(ids, x.id)
		machines, callers = append(machines, x.machine.pointer()), append(callers, x.caller.pointer())
		times, places = append(times, time.UnixMicro(x.at)), append(places, i)
	}
	rows, err := k.conn.Query(ctx, `select w.place, count(*)::int from unnest($1::int[], $2::text[], $3::text[], $4::timestamptz[], $5::uuid[], $6::text[], $7::text[])
			as w(place, field, term, at, id, machine, caller)
		join audit.terms t on t.field = w.field and t.term = w.term and t.recorded_at = w.at and t.id = w.id
			and t.machine_name is not distinct from w.machine and t.caller_subject is not distinct from w.caller
		group by 1`, places, fields, texts, times, ids, machines, callers)
	if err != nil {
		return nil, fmt.Errorf("looking terms up: %w", cause(err))
	}
	var place, n int
	if _, err = pgx.ForEachRow(rows, []any{&place, &n}, func() error {
		out[place] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("looking terms up: %w", cause(err))
	}
	return out, nil
}

// records calls call with the record of each entry there is with one of the keys, one after the other.
func (k *lookups) records(ctx context.Context, of map[key][]int, call func(k key, record []byte)) error {
	if len(of) == 0 {
		return nil
	}
	var times []time.Time
	var ids []uuid.UUID
	for x := range of {
		times, ids = append(times, time.UnixMicro(x.at)), append(ids, x.id)
	}
	rows, err := k.conn.Query(ctx, `select w.at, w.id, e.record from unnest($1::timestamptz[], $2::uuid[]) as w(at, id)
		join audit.entries e on e.recorded_at = w.at and e.id = w.id`, times, ids)
	if err != nil {
		return fmt.Errorf("looking records up: %w", cause(err))
	}
	var recorded time.Time
	var id uuid.UUID
	var record []byte
	if _, err = pgx.ForEachRow(rows, []any{&recorded, &id, &record}, func() error {
		call(key{recorded.UnixMicro(), id}, record)
		return nil
	}); err != nil {
		return fmt.Errorf("looking records up: %w", cause(err))
	}
	return nil
}
