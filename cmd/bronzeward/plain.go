package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plainWriter writes what is printed to people. Much of it was chosen by strangers, and a
// terminal obeys some of what cannot be seen: whatever is not printable comes out as an
// escape, which JSON reads as the character it stands for.
type plainWriter struct{ w io.Writer }

// Write passes printable characters, line ends and tabs.
func (p plainWriter) Write(text []byte) (int, error) {
	var out strings.Builder
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, rest[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out.Write(rest[:size])
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	if _, err := io.WriteString(p.w, out.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}
