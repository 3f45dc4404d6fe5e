package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Cursor is a place between two rows of the book: after the row it was made of. To others it is an opaque string; it
// holds that row's recorded_at and id, and no right.
type Cursor struct {
	recordedAt time.Time
	id         uuid.UUID
}

// ErrCursor is returned for a string that no Cursor wrote.
var ErrCursor = errors.New("no cursor of this book")

// cursorVersion is a cursor's first byte; then recorded_at as microseconds since 1970 in eight bytes, big endian, then
// the id's sixteen.
const (
	cursorVersion = 1
	cursorSize    = 1 + 8 + 16
)

// The database's clock cannot be outside of these; a cursor that is, was made by somebody else.
var (
	cursorFirst = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	cursorLast  = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// IsZero is true for the Cursor before all rows.
func (c Cursor) IsZero() bool { return c.id == uuid.Nil && c.recordedAt.IsZero() }

// String is empty for the zero Cursor.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	b := append(make([]byte, 0, cursorSize), cursorVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(c.recordedAt.UnixMicro()))
	b = append(b, c.id[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads what String wrote, strictly: every Cursor has one spelling. The empty string is the zero Cursor. The
// error is ErrCursor and does not repeat s.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	if len(s) != base64.RawURLEncoding.EncodedLen(cursorSize) {
		return Cursor{}, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().AppendDecode(nil, []byte(s))
	if err != nil || len(b) != cursorSize || b[0] != cursorVersion {
		return Cursor{}, ErrCursor
	}
	micros := int64(binary.BigEndian.Uint64(b[1:9]))
	c := Cursor{recordedAt: time.UnixMicro(micros).UTC(), id: uuid.UUID(b[9:])}
	if micros < cursorFirst || micros > cursorLast || bytes.Equal(c.id[:], uuid.Nil[:]) {
		return Cursor{}, ErrCursor
	}
	return c, nil
}
