package cli

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

// NewPlainWriter writes to w.
func NewPlainWriter(w io.Writer) io.Writer { return plainWriter{w} }

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
		default:
			escape(&out, r)
		}
		rest = rest[size:]
	}
	if _, err := io.WriteString(p.w, out.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

func escape(out *strings.Builder, r rune) {
	if r > 0xffff {
		fmt.Fprintf(out, `\U%08x`, r)
		return
	}
	fmt.Fprintf(out, `\u%04x`, r)
}

// OneLine is a stranger's text as it may stand in a line of ours: what would end the line or
// shift a column comes out as an escape. The writer does the rest.
func OneLine(text string) string {
	return escaped(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

// ASCII is a name that decides something, such as who somebody is or which path is changed.
// Letters that look alike differ when read: all but printable ASCII comes out as an escape.
func ASCII(text string) string {
	return escaped(text, func(r rune) bool { return r < ' ' || r > '~' })
}

func escaped(text string, odd func(rune) bool) string {
	if strings.IndexFunc(text, odd) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if odd(r) {
			escape(&out, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// Clip shortens a text to so many characters, for a column.
func Clip(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// ShellWord is a text as one argument of a command that is printed to be copied.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.,:/@%+=", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
