package audit

import (
	"context"
	"fmt"

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
	found, err := pgx.CollectRows(rows, scanRow)
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
