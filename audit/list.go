package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// List returns a page of entries without their records, and the Cursor to go on after it; the zero Cursor means that
// the list ended. A row's place is its recorded_at and id, so that pages neither repeat nor skip what was committed when
// the first was read. A transaction may commit after another that was recorded later: who follows the newest rows
// follows the tree's order, with InOrder.
//
// A page costs the same however large the book is. What is asked first leads through an index; what is asked besides is
// looked for in the next few thousand rows of that index where the index holds it, in the next thousand rows of the book where
// it does not, and no further. So a page may be short, or empty, without being the last one: the zero Cursor alone is the end.
func (r *Reader) List(ctx context.Context, f Filter, p Page) ([]Row, Cursor, error) {
	if err := checkList(f, p); err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", err)
	}
	limit := p.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	l := look(f, p, limit, r.depth)
	if l.twoSteps {
		return r.listPlaces(ctx, l, limit)
	}
	sql := l.statement(limit)
	rows, err := r.pool.Query(ctx, sql, l.args...)
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", cause(err))
	}
	found, err := collectPage(rows)
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", cause(err))
	}
	list := make([]Row, 0, min(len(found), limit))
	for _, row := range found {
		switch {
		case row.wanted && len(list) == limit:
			return list, list[limit-1].Cursor(), nil
		case row.wanted:
			list = append(list, row.Row)
		}
		if row.last {
			return list, row.Cursor(), nil
		}
	}
	return list, Cursor{}, nil
}

// collectPage reads rows up to the one whose record reaches PageBytes, which is the last one looked at then.
func collectPage(rows pgx.Rows) ([]scanned, error) {
	defer rows.Close()
	var found []scanned
	size := 0
	for rows.Next() {
		row, err := scanRow(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, row)
		if size += len(row.Record); size >= PageBytes {
			found[len(found)-1].last = true
			break
		}
	}
	rows.Close()
	return found, rows.Err()
}

// Count is how many entries a filter would give, and looks at all of them: the time it takes is for ctx to bound.
func (r *Reader) Count(ctx context.Context, f Filter) (n int64, err error) {
	if err := f.Validate(); err != nil {
		return 0, fmt.Errorf("counting entries: %w", err)
	}
	var q query
	where := []string{"true"}
	asked := f.conditions()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		where = append(where, q.text(asked[name]))
	}
	where = append(where, q.place("e", f, Page{})...)
	if err := r.pool.QueryRow(ctx, "select count(*) from audit.entries e where "+strings.Join(where, " and "), q.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting entries: %w", cause(err))
	}
	return n, nil
}
