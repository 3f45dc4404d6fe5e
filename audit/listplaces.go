package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	// readParts is how many statements read the rows of a page at once. The rows lie far apart: where the disk must be asked
	// for each, it is asked for so many together. It leaves connections of a ReadPool to others.
	readParts = 5
	// readPart is how many rows are worth a statement.
	readPart = 10
)

// found is a row that an index told of.
type found struct {
	place Cursor
	fits  bool
	ends  bool // no more rows of the index were looked at
}

// listPlaces is List where an index gives the places of the page's rows. Entries never change, so that the statements need
// no snapshot in common.
func (r *Reader) listPlaces(ctx context.Context, l *looking, limit int) ([]Row, Cursor, error) {
	rows, err := r.pool.Query(ctx, l.narrow(), l.args...)
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", cause(err))
	}
	places, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f found, err error) {
		err = row.Scan(&f.place.recordedAt, &f.place.id, &f.fits, &f.ends)
		f.place.recordedAt = f.place.recordedAt.UTC()
		return f, err
	})
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", cause(err))
	}
	read, err := r.rowsAt(ctx, places)
	if err != nil {
		return nil, Cursor{}, err
	}
	list := make([]Row, 0, min(len(places), limit))
	for i, f := range places {
		// A place without a row is a term whose month was detached.
		if row := read[i]; f.fits && row != nil {
			if len(list) == limit {
				return list, list[limit-1].Cursor(), nil
			}
			list = append(list, *row)
		}
		if f.ends || i == l.rows-1 {
			return list, f.place, nil
		}
	}
	return list, Cursor{}, nil
}

// rowsAt reads the rows that fit, each at the index of its place; nil where there is none.
func (r *Reader) rowsAt(ctx context.Context, places []found) ([]*Row, error) {
	out := make([]*Row, len(places))
	size := max(readPart, (len(places)+readParts-1)/readParts)
	group, ctx := errgroup.WithContext(ctx)
	for begin := 0; begin < len(places); begin += size {
		part := places[begin:min(begin+size, len(places))]
		group.Go(func() error { return r.readPlaces(ctx, part, out[begin:]) })
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("listing entries: %w", cause(err))
	}
	return out, nil
}

// placesSQL are the rows at the places $3, $4, in queries/entries.sql's place of e.
const placesSQL = `with e as (
    select e.*, true as wanted, false as last_scanned
    from unnest($3::timestamptz[], $4::uuid[]) as n (at, at_id)
    cross join lateral (select * from audit.entries e where e.recorded_at = n.at and e.id = n.at_id limit 1) e
)
`

func (r *Reader) readPlaces(ctx context.Context, places []found, into []*Row) error {
	var times []time.Time
	var ids []uuid.UUID
	type key struct {
		micros int64
		id     uuid.UUID
	}
	at := map[key]int{}
	for i, f := range places {
		if f.fits {
			times, ids = append(times, f.place.recordedAt), append(ids, f.place.id)
			at[key{f.place.recordedAt.UnixMicro(), f.place.id}] = i
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.pool.Query(ctx, placesSQL+entriesSQL, false, true, times, ids)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return err
	}
	for i := range list {
		if place, ok := at[key{list[i].RecordedAt.UnixMicro(), list[i].ID}]; ok {
			into[place] = &list[i].Row
		}
	}
	return nil
}
