package verify

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// row is what the matcher needs of a row of entries or outcomes.
type row struct {
	at      int64 // recorded_at in microseconds since 1970
	id      uuid.UUID
	hash    hash   // leaf, computed from record and recorded_at
	differs uint32 // columns that are not the record's projections
	source  byte
}

func (r *row) table() *table { return tableOf(r.source) }

// chunk is a range of recorded_at that one reader reads, about as many rows as the leaves up to leaves.
type chunk struct {
	from, to int64 // microseconds since 1970; 0 is without limit
	leaves   int64 // how many leaves of the book come up to its end
}

const (
	// stride is how many leaves lie between the ends of chunks.
	stride = 16384
	// rowBatch is how many rows go to the matcher together, chunkBatches how many batches a reader may be ahead.
	rowBatch, chunkBatches = 1024, stride/rowBatch + 4
)

// chunks cuts the time of the book at every so many leaves. Leaves may say what they will: the chunks cover everything
// between since and until, microseconds since 1970, 0 for without limit.
func chunks(ctx context.Context, conn *pgx.Conn, trees []treeRow, stride, since, until int64) ([]chunk, error) {
	var ends []int64
	var total int64
	for _, t := range trees {
		rows, err := conn.Query(ctx, "select l.recorded_at from generate_series($2::bigint, $3::bigint, $2::bigint) i join audit.leaves l on l.tree = $1 and l.index = i",
			t.tree, stride, t.size)
		if err != nil {
			return nil, fmt.Errorf("reading where leaves lie: %w", cause(err))
		}
		times, err := pgx.CollectRows(rows, pgx.RowTo[pgtype.Timestamptz])
		if err != nil {
			return nil, fmt.Errorf("reading where leaves lie: %w", cause(err))
		}
		for _, at := range times {
			ends = append(ends, stampMicros(at))
		}
		total += t.size
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var out []chunk
	from := since
	for i, end := range ends {
		if end <= since || until != 0 && end >= until || moment(end).IsZero() {
			continue
		}
		out = append(out, chunk{from: from, to: end, leaves: int64(i+1) * stride})
		from = end
	}
	return append(out, chunk{from: from, to: until, leaves: total}), nil
}

// literal is a time in SQL.
func literal(micros int64) string {
	return "timestamptz '" + moment(micros).Format("2006-01-02 15:04:05.000000") + "+00'"
}

func (c chunk) where() string {
	switch {
	case c.from == 0 && c.to == 0:
		return ""
	case c.from == 0:
		return " where recorded_at < " + literal(c.to)
	case c.to == 0:
		return " where recorded_at >= " + literal(c.from)
	}
	return " where recorded_at >= " + literal(c.from) + " and recorded_at < " + literal(c.to)
}

// rowReader reads chunks and sends their rows; an empty batch ends a chunk.
type rowReader struct {
	conn *pgx.Conn
	out  chan []row
	// counts are of entries and of outcomes read.
	counts [2]*atomic.Int64
	// terms gets what the entries give, under the number of their chunk; null if the book has no audit.terms.
	terms *termSums
	chunk int

	batch  []row
	values []member
	space  []byte
}

// read reads the chunk with the number n.
func (r *rowReader) read(ctx context.Context, n int, c chunk) error {
	r.chunk = n
	for _, t := range []*table{entries, outcomes} {
		err := copyOut(ctx, r.conn, t.query+c.where(), len(t.columns), func(fields [][]byte) error {
			return r.row(ctx, t, fields)
		})
		if err != nil {
			return fmt.Errorf("reading %s: %w", t.name, err)
		}
	}
	if len(r.batch) > 0 {
		if err := r.send(ctx); err != nil {
			return err
		}
	}
	return r.send(ctx)
}

// parse reads a row, and leaves the values of its record in r.values.
func (r *rowReader) parse(t *table, fields [][]byte) (row, error) {
	if r.values == nil {
		r.values = make([]member, max(len(entries.columns), len(outcomes.columns)))
	}
	x := row{source: t.source, differs: t.differences(fields, r.values[:len(t.columns)])}
	var ok [2]bool
	x.at, ok[0] = micros(fields[columnAt])
	x.id, ok[1] = uuidOf(fields[columnID])
	if ok != [2]bool{true, true} {
		return row{}, errCopy
	}
	x.hash, r.space = rowLeaf(fields[columnRecord], x.at, r.space)
	if beside, ok := hashOf(fields[columnLeaf]); !ok || beside != x.hash {
		x.differs |= 1 << columnLeaf
	}
	return x, nil
}

func (r *rowReader) row(ctx context.Context, t *table, fields [][]byte) error {
	x, err := r.parse(t, fields)
	if err != nil {
		return err
	}
	if t == entries {
		r.counts[0].Add(1)
		r.addTerms(fields[columnRecord], &x)
	} else {
		r.counts[1].Add(1)
	}
	if r.batch == nil {
		r.batch = make([]row, 0, rowBatch)
	}
	if r.batch = append(r.batch, x); len(r.batch) == rowBatch {
		return r.send(ctx)
	}
	return nil
}

// addTerms sums what audit.terms should hold of an entry. One whose record cannot be read is told of for that, and counts
// as one that gives no terms.
func (r *rowReader) addTerms(record []byte, x *row) {
	if r.terms == nil || x.differs&badRecord != 0 {
		return
	}
	for _, t := range termsOf(record, r.values) {
		var h hash
		h, r.space = r.terms.hash(t, x.at, x.id, r.space)
		r.terms.given[r.chunk].add(h)
	}
}

func (r *rowReader) send(ctx context.Context) error {
	select {
	case r.out <- r.batch:
		r.batch = nil
		return nil
	case <-ctx.Done():
		return errStop
	}
}
