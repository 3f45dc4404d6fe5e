package audit

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxText bounds one string of a record: what strangers send must not swell the book.
	maxText = 16 << 10
	// maxColumn bounds a projected string: a row of a B-tree index must stay under 2 704 bytes.
	maxColumn = 512
	// cutMark ends a string that was cut.
	cutMark = "…[cut]"
)

// escape makes s acceptable to PostgreSQL and to JSON: a NUL, and every byte that is not part of valid UTF-8, becomes
// the four visible characters \xNN (lower-case hex). Everything else stays, a backslash too, so that a text which
// already holds those four characters reads the same; a reader is told of a byte that was there, not given it back.
// The result is at most maxText bytes.
func escape(s string) string {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		var b strings.Builder
		// One byte can become four; what lies beyond the limit is cut anyway.
		for len(s) > 0 && b.Len() <= maxText {
			r, size := utf8.DecodeRuneInString(s)
			if r == 0 || (r == utf8.RuneError && size == 1) {
				fmt.Fprintf(&b, `\x%02x`, s[0])
			} else {
				b.WriteString(s[:size])
			}
			s = s[size:]
		}
		if len(s) > 0 {
			b.WriteString(s[:1])
		}
		s = b.String()
	}
	return cut(s, maxText)
}

// cut shortens s to at most limit bytes, at a rune's boundary, and marks that it did.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len(cutMark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cutMark
}

// escapeAll returns a copy of list with every element escaped; nil stays nil.
func escapeAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = escape(s)
	}
	return out
}

// column is the projection of an escaped string: NULL when empty, cut to maxColumn.
func column(s string) *string {
	if s == "" {
		return nil
	}
	s = Projected(s)
	return &s
}

// Projected is what a column holds of a string of the record: at most 512 bytes, with a mark when it was cut.
func Projected(s string) string { return cut(s, maxColumn) }
