package cli

import (
	"strings"
	"testing"
)

func TestATerminalGetsNothingItWouldObey(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcode 漢 and\ttabs\n": "plain, ünïcode 漢 and\ttabs\n",
		"\x1b[31mred":                  `\u001b[31mred`,
		"\u009b2J":                     `\u009b2J`,
		"a\u202eb":                     `a\u202eb`,
		"zero\u200bwidth":              `zero\u200bwidth`,
		"bell\a return\r nul\x00":      `bell\u0007 return\u000d nul\u0000`,
		"bad \xff byte":                `bad \xff byte`,
		"a tag \U000e0041 character":   `a tag \U000e0041 character`,
	} {
		var out strings.Builder
		n, err := plainWriter{&out}.Write([]byte(in))
		if err != nil || n != len(in) || out.String() != want {
			t.Errorf("%q came out as %q (%d, %v), want %q", in, out.String(), n, err, want)
		}
	}
}
