package book

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/cmd/bronzeward/cli"
)

//go:embed queries/leaves.sql
var leavesSQL string

//go:embed queries/records.sql
var recordsSQL string

//go:embed queries/bounds.sql
var boundsSQL string

//go:embed queries/newest.sql
var newestSQL string

//go:embed queries/place.sql
var placeSQL string

// place is where a row stands in the book: the number of a tree, and a leaf of it. The zero place
// is before all rows: the first tree is 1.
type place struct {
	tree  int32
	index int64
}

// theEnd is behind all rows.
func theEnd() place { return place{math.MaxInt32, math.MaxInt64} }

// row is one row of the book in the order of the tree, with its record as it is stored.
type row struct {
	place
	source     string // entry or outcome
	id         uuid.UUID
	recordedAt time.Time // UTC
	leaf       []byte
	// record is nil where the table has none: its month was detached, or it is missing.
	record []byte
}

// span is a range of time; a zero end is open.
type span struct{ from, until time.Time }

// ends are the range as the database takes it.
func (s span) ends() (from, until time.Time) {
	from, until = s.from, s.until
	if from.IsZero() {
		from = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if until.IsZero() {
		until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return from, until
}

// treeReader reads the book in the order of its tree. Safe for concurrent use.
type treeReader struct{ pool *pgxpool.Pool }

// rows gives at most limit rows behind after and not behind last, recorded within s, without
// their records.
func (t treeReader) rows(ctx context.Context, after, last place, s span, entries bool, limit int) ([]row, error) {
	from, until := s.ends()
	found, err := t.pool.Query(ctx, leavesSQL, after.tree, after.index, last.tree, last.index, from, until, entries, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the tree: %w", away(err))
	}
	list := make([]row, 0, limit)
	var one row
	var id pgtype.UUID // as what the ids are scanned into, it is read without reflection
	var leaf pgtype.DriverBytes
	var kept chunked
	if _, err := pgx.ForEachRow(found, []any{&one.tree, &one.index, &one.source, &id, &one.recordedAt, &leaf}, func() error {
		one.id, one.recordedAt, one.leaf = id.Bytes, one.recordedAt.UTC(), kept.keep(leaf)
		list = append(list, one)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading the tree: %w", away(err))
	}
	return list, nil
}

// addRecords reads the records of rows.
func (t treeReader) addRecords(ctx context.Context, list []row) error {
	if len(list) == 0 {
		return nil
	}
	ids, at := make(pgtype.FlatArray[pgtype.UUID], len(list)), make(map[uuid.UUID]int, len(list))
	first, last := list[0].recordedAt, list[0].recordedAt
	for i := range list {
		ids[i], at[list[i].id] = pgtype.UUID{Bytes: list[i].id, Valid: true}, i
		if list[i].recordedAt.Before(first) {
			first = list[i].recordedAt
		}
		if list[i].recordedAt.After(last) {
			last = list[i].recordedAt
		}
	}
	found, err := t.pool.Query(ctx, recordsSQL, first, last, ids)
	if err != nil {
		return fmt.Errorf("reading records: %w", away(err))
	}
	var id pgtype.UUID
	var record pgtype.DriverBytes
	var kept chunked
	if _, err := pgx.ForEachRow(found, []any{&id, &record}, func() error {
		if i, ok := at[id.Bytes]; ok {
			list[i].record = kept.keep(record)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("reading records: %w", away(err))
	}
	return nil
}

// chunked keeps bytes of many rows in few pieces of memory.
type chunked struct{ free []byte }

const chunkSize = 256 << 10

func (c *chunked) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) > cap(c.free)-len(c.free) {
		c.free = make([]byte, 0, max(chunkSize, len(b)))
	}
	begin := len(c.free)
	c.free = append(c.free, b...)
	return c.free[begin:len(c.free):len(c.free)]
}

// bounds are the first and the last place recorded within s, and how many rows that are; zero
// when there are none.
func (t treeReader) bounds(ctx context.Context, s span) (n int64, first, last place, err error) {
	from, until := s.ends()
	err = t.pool.QueryRow(ctx, boundsSQL, from, until).Scan(&n, &first.tree, &first.index, &last.tree, &last.index)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, place{}, place{}, nil
	}
	if err != nil {
		return 0, place{}, place{}, fmt.Errorf("reading the tree: %w", away(err))
	}
	return n, first, last, nil
}

// newest is the place before the newest n entries.
func (t treeReader) newest(ctx context.Context, n int) (p place, err error) {
	err = t.pool.QueryRow(ctx, newestSQL, n).Scan(&p.tree, &p.index)
	if errors.Is(err, pgx.ErrNoRows) {
		return place{}, nil
	}
	if err != nil {
		return place{}, fmt.Errorf("reading the tree: %w", away(err))
	}
	return p, nil
}

// placed is where a row stands in the tree, and under which checkpoint.
type placed struct {
	Tree  int32 `json:"tree"`
	Index int64 `json:"index"`
	// Checkpoint is the first one over the row; null until there is one.
	Checkpoint *checkpoint `json:"checkpoint"`
}

type checkpoint struct {
	Size     int64     `json:"size"`
	Root     string    `json:"root"`
	SignedAt time.Time `json:"signed_at"`
}

// place is null for a row that is not sequenced yet, or not there.
func (t treeReader) place(ctx context.Context, id uuid.UUID) (*placed, error) {
	var p placed
	var size *int64
	var signed *time.Time
	var root []byte
	err := t.pool.QueryRow(ctx, placeSQL, id).Scan(&p.Tree, &p.Index, &size, &signed, &root)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the place of %s: %w", id, away(err))
	}
	if size != nil {
		p.Checkpoint = &checkpoint{Size: *size, Root: fmt.Sprintf("%x", root), SignedAt: signed.UTC()}
	}
	return &p, nil
}

// behind is the place of a row that somebody continues after.
func (t treeReader) behind(ctx context.Context, id uuid.UUID) (place, error) {
	p, err := t.place(ctx, id)
	if err != nil {
		return place{}, err
	}
	if p == nil {
		return place{}, cli.Usage(fmt.Errorf("--after %s: no row of that id is in the tree of this book; a row comes into it within about a second of being written", id))
	}
	return place{p.Tree, p.Index}, nil
}
