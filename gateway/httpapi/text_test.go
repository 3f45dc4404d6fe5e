package httpapi

import (
	"strings"
	"testing"
)

func TestStrangersTextIsShownEscapedAndCut(t *testing.T) {
	for _, row := range []struct{ name, text, plain, quoted string }{
		{"as it is", "worker-1", "worker-1", `"worker-1"`},
		{"newline", "a\nb", `a\nb`, `"a\nb"`},
		{"NUL", "a\x00b", `a\x00b`, `"a\x00b"`},
		{"direction", "a\u202eb", `a\u202eb`, `"a\u202eb"`},
		{"look-alike", "аdmin", `\u0430dmin`, `"\u0430dmin"`},
		{"no UTF-8", "a\xffb", `a\ufffdb`, `"a\xffb"`},
		{"quotes", `say "x"`, `say "x"`, `"say \"x\""`},
		{"beyond the first plane", "\U0001f600", `\U0001f600`, `"\U0001f600"`},
		{"our own marks", "a…", "a…", `"a\u2026"`},
		{"10 000 characters", strings.Repeat("x", 10_000), strings.Repeat("x", 100) + "…", `"` + strings.Repeat("x", 100) + `"…`},
		{"cut inside a character", strings.Repeat("é", 100), strings.Repeat(`\u00e9`, 50) + "…", `"` + strings.Repeat(`\u00e9`, 50) + `"…`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := plain(row.text, mostQuoted); got != row.plain {
				t.Errorf("plain %q", got)
			}
			if got := quoted(row.text); got != row.quoted {
				t.Errorf("quoted %q", got)
			}
		})
	}
}
