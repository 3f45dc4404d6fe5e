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

// What a stranger wrote where a name belongs is kept when it can be one, and only then.
func TestWhatIsNoNameIsNotKept(t *testing.T) {
	for text, want := range map[string]string{
		"worker-1": "worker-1", "chg_01jz0000000000000000000000": "chg_01jz0000000000000000000000", "fd00::1": "fd00::1", "": "",
		"0190e4a2-7b1c-7c3e-9a51-3f2d1c4b5a69": "0190e4a2-7b1c-7c3e-9a51-3f2d1c4b5a69",
		"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJvIn0": noName, "pass%20word": noName, "pass word": noName, "Sup3rsecret": noName,
		strings.Repeat("0a", 21): noName, // the hexadecimal form of a key
	} {
		if got := name(text); got != want {
			t.Errorf("%q is kept as %q, want %q", text, got, want)
		}
	}
	for sentence, want := range map[string]string{
		`"limt" is not a parameter this request takes`:                              `"limt" is not a parameter this request takes`,
		quoted("hunter2 & more") + " is no id, and " + quoted(`a"b\c`) + " is none": `"…" is no id, and "…" is none`,
		"nothing is quoted": "nothing is quoted",
		`"an open quote`:    `"an open quote`,
	} {
		if got := unquoted(sentence); got != want {
			t.Errorf("%s is kept as %s, want %s", sentence, got, want)
		}
	}
}
