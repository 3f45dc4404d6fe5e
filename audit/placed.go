package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// leafRow is a row of queries/leaves.sql.
type leafRow struct {
	Placed
	source string
}

// wantedRows are the rows of one table that leaves name: their ids, and the times they lie between, which rule out
// partitions.
type wantedRows struct {
	ids         []uuid.UUID
	times       []time.Time
	first, last time.Time
}

func (w *wantedRows) add(id uuid.UUID, at time.Time) {
	if len(w.ids) == 0 || at.Before(w.first) {
		w.first = at
	}
	if len(w.ids) == 0 || at.After(w.last) {
		w.last = at
	}
	w.ids, w.times = append(w.ids, id), append(w.times, at)
}

// leaves reads the next leaves, and which rows they name.
func (r *Reader) leaves(ctx context.Context, p OrderPage) (all []leafRow, entries, outcomes wantedRows, err error) {
	rows, err := r.pool.Query(ctx, leavesSQL, p.After.Tree, p.After.Index, p.Limit)
	if err != nil {
		return nil, entries, outcomes, fmt.Errorf("reading leaves: %w", cause(err))
	}
	all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (leafRow, error) {
		var l leafRow
		var leaf []byte
		var at pgtype.Timestamptz
		err := row.Scan(&l.Tree, &l.Index, &l.source, &at, &l.ID, &leaf)
		l.RecordedAt = sensible(at)
		copy(l.Leaf[:], leaf)
		return l, err
	})
	if err != nil {
		return nil, entries, outcomes, fmt.Errorf("reading leaves: %w", cause(err))
	}
	for _, l := range all {
		if l.RecordedAt.IsZero() {
			continue // no row has such a time
		}
		if l.source == "entry" {
			entries.add(l.ID, l.RecordedAt)
		} else {
			outcomes.add(l.ID, l.RecordedAt)
		}
	}
	return all, entries, outcomes, nil
}

// sensible is a time of a leaf, in UTC. Whoever has the gateway's role can write any into audit.leaves, infinity too; one such
// row must not keep everybody from what comes behind it. It is told of as one without a row, at the zero time.
func sensible(at pgtype.Timestamptz) time.Time {
	if y := at.Time.UTC().Year(); !at.Valid || at.InfinityModifier != pgtype.Finite || y < 1 || y > 9999 {
		return time.Time{}
	}
	return at.Time.UTC()
}

// entriesAt reads those of the entries that the filter wants. Entries never change, so that no snapshot is needed with
// the leaves.
func (r *Reader) entriesAt(ctx context.Context, f Filter, w wantedRows, records bool, into map[uuid.UUID]*Row) error {
	if len(w.ids) == 0 {
		return nil
	}
	q := &query{args: []any{records, false}}
	where := []string{q.text(condition{"e.id = any (?) and e.recorded_at >= ? and e.recorded_at <= ?", []any{w.ids, w.first, w.last}})}
	where = append(where, q.place("e", f, Page{})...)
	for _, c := range f.conditions() {
		where = append(where, q.text(c))
	}
	rows, err := r.pool.Query(ctx, "with e as (select *, true as wanted, false as last_scanned from audit.entries e where "+
		strings.Join(where, " and ")+")\n"+entriesSQL, q.args...)
	if err != nil {
		return fmt.Errorf("reading entries: %w", cause(err))
	}
	found, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return fmt.Errorf("reading entries: %w", cause(err))
	}
	for i := range found {
		into[found[i].ID] = &found[i].Row
	}
	return nil
}

func (r *Reader) outcomesAt(ctx context.Context, w wantedRows, into map[uuid.UUID]*OutcomeRow) error {
	if len(w.ids) == 0 {
		return nil
	}
	// Outcomes have no index by id alone: their primary key begins with the time, which hardly two of them share.
	rows, err := r.pool.Query(ctx, outcomesSQL+"where recorded_at = any ($1)", w.times)
	if err != nil {
		return fmt.Errorf("reading outcomes: %w", cause(err))
	}
	found, err := pgx.CollectRows(rows, scanOutcome)
	if err != nil {
		return fmt.Errorf("reading outcomes: %w", cause(err))
	}
	for i := range found {
		into[found[i].ID] = &found[i]
	}
	return nil
}

// zero is whether the filter asks nothing.
func (f Filter) zero() bool { return len(f.conditions()) == 0 && f.Since.IsZero() && f.Until.IsZero() }
