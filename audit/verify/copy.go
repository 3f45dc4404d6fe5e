package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// errCopy means that PostgreSQL sent something that its COPY format does not have.
var errCopy = errors.New("the database sent a row that is not in COPY's binary format")

// copySignature begins COPY's binary format (PostgreSQL's manual, COPY, Binary Format).
const copySignature = "PGCOPY\n\xff\r\n\x00"

// maxRow bounds a row; a record is below 1 MiB, its facts included.
const maxRow = 256 << 20

// copyReader parses COPY … TO STDOUT (FORMAT binary) as it comes. The fields of a row are valid during the call of row;
// NULL is nil, an empty value is not.
type copyReader struct {
	row     func(fields [][]byte) error
	fields  [][]byte
	rest    []byte // an unfinished row
	started bool
	ended   bool
}

func newCopyReader(columns int, row func(fields [][]byte) error) *copyReader {
	return &copyReader{row: row, fields: make([][]byte, columns)}
}

// Write takes a piece of the stream. PostgreSQL sends a row per piece, which is then parsed where it is.
func (c *copyReader) Write(p []byte) (int, error) {
	in := p
	if len(c.rest) > 0 {
		if len(c.rest) > maxRow {
			return 0, errCopy
		}
		c.rest = append(c.rest, p...)
		in = c.rest
	}
	used, err := c.parse(in)
	if err != nil {
		return 0, err
	}
	c.rest = append(c.rest[:0], in[used:]...)
	return len(p), nil
}

func (c *copyReader) parse(in []byte) (used int, err error) {
	if !c.started {
		const header = len(copySignature) + 8
		if len(in) < header {
			return 0, nil
		}
		extension := int(binary.BigEndian.Uint32(in[len(copySignature)+4:]))
		if string(in[:len(copySignature)]) != copySignature || extension > maxRow {
			return 0, errCopy
		}
		if len(in) < header+extension {
			return 0, nil
		}
		c.started, used = true, header+extension
	}
	for !c.ended {
		n, err := c.tuple(in[used:])
		if err != nil || n == 0 {
			return used, err
		}
		used += n
	}
	return len(in), nil
}

// tuple parses one row and gives its length, 0 if it is not whole yet.
func (c *copyReader) tuple(in []byte) (int, error) {
	if len(in) < 2 {
		return 0, nil
	}
	switch n := int16(binary.BigEndian.Uint16(in)); {
	case n == -1:
		c.ended = true
		return 2, nil
	case int(n) != len(c.fields):
		return 0, errCopy
	}
	at := 2
	for i := range c.fields {
		if len(in) < at+4 {
			return 0, nil
		}
		size := int(int32(binary.BigEndian.Uint32(in[at:])))
		at += 4
		switch {
		case size == -1:
			c.fields[i] = nil
			continue
		case size < 0 || size > maxRow:
			return 0, errCopy
		case len(in) < at+size:
			return 0, nil
		}
		c.fields[i] = in[at : at+size : at+size]
		at += size
	}
	return at, c.row(c.fields)
}

// copyOut runs the query and calls row for each row it gives.
func copyOut(ctx context.Context, conn *pgx.Conn, query string, columns int, row func(fields [][]byte) error) error {
	r := newCopyReader(columns, row)
	if _, err := conn.PgConn().CopyTo(ctx, r, "copy ("+query+") to stdout (format binary)"); err != nil {
		return cause(err)
	}
	if !r.ended {
		return fmt.Errorf("%w: it ended early", errCopy)
	}
	return nil
}

// postgresEpoch is 2000-01-01, from which PostgreSQL counts, in microseconds since 1970.
const postgresEpoch = 946_684_800_000_000

// micros is a timestamptz as microseconds since 1970. Infinity, which no row of a partition has, stays as far away.
func micros(field []byte) (int64, bool) {
	n, ok := int64Of(field)
	if n > math.MaxInt64-postgresEpoch {
		return n, ok
	}
	return n + postgresEpoch, ok
}

// stampMicros is micros of a time that came outside of COPY.
func stampMicros(at pgtype.Timestamptz) int64 {
	switch at.InfinityModifier {
	case pgtype.Infinity:
		return math.MaxInt64
	case pgtype.NegativeInfinity:
		return math.MinInt64 + postgresEpoch
	}
	return at.Time.UnixMicro()
}

func int64Of(field []byte) (int64, bool) {
	if len(field) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(field)), true
}

func uuidOf(field []byte) (uuid.UUID, bool) {
	if len(field) != 16 {
		return uuid.UUID{}, false
	}
	return uuid.UUID(field), true
}

func hashOf(field []byte) (hash, bool) {
	if len(field) != len(hash{}) {
		return hash{}, false
	}
	return hash(field), true
}
