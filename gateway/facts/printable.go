package facts

import (
	"fmt"
	"strings"
	"unicode"
)

// visibleRune is true for characters a reader sees: no control characters, no marks that
// turn the direction of text, nothing without width, no space but the plain one.
func visibleRune(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// printable is true for a text of visible characters only. An invalid byte is none.
func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !visibleRune(r) }) < 0
}

// visibleText writes every character that is not visible as an escape, so that a text
// reads as it is. Line feeds stay, and so do tabs; invalid bytes become U+FFFD.
func visibleText(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !visibleRune(r) }) < 0 {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	var out strings.Builder
	out.Grow(len(text) + 16)
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t' || visibleRune(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
