package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressIsDrawnAfterTwoSecondsAndWipedAway(t *testing.T) {
	for name, row := range map[string]struct {
		g    Globals
		term string
		want string
	}{
		"a terminal":           {Globals{Output: "table"}, "xterm", "applying\\u000ait … 2s\r\x1b[Kapplying\\u000ait … 3s\r\x1b[Kasking again … 4s\r\x1b[K"},
		"a terminal that only": {Globals{Output: "table"}, "dumb", "applying\\u000ait …\nasking again …\n"},
		"JSON is asked for":    {Globals{Output: "json"}, "xterm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", row.term)
			var out bytes.Buffer
			row.g.terminal = &out
			synctest.Test(t, func(*testing.T) {
				p := row.g.NewProgress()
				end := p.Begin("applying\nit")
				inner := p.Begin("asking")
				wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
				wait(3 * time.Second)
				inner()
				p.Note("asking again")
				wait(time.Second)
				end()
				done := p.Begin("short")
				wait(time.Second)
				done()
				hidden := p.Hide()
				p.Begin("long")()
				hidden()
			})
			if out.String() != row.want {
				t.Errorf("drew %q, want %q", out.String(), row.want)
			}
		})
	}
}

func TestNoTerminalGetsNoProgress(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		p := (&Globals{Output: "table"}).NewProgress()
		end := p.Begin("x")
		time.Sleep(time.Minute)
		end() // nothing to write to, and nothing that would fail
	})
}

func TestAWordIsCopiedSafely(t *testing.T) {
	for in, want := range map[string]string{
		"roll-out_1.2": "roll-out_1.2", "": "''", "a b": "'a b'", "$(rm)": "'$(rm)'", "it's": `'it'\''s'`, "é": "'é'", "hmac-sha256:k1:aa": "hmac-sha256:k1:aa",
	} {
		if got := ShellWord(in); got != want {
			t.Errorf("%q is copied as %s, want %s", in, got, want)
		}
	}
	if got := OneLine("a\nb\tc"); got != `a\u000ab\u0009c` {
		t.Error(got)
	}
	if got := ASCII("\u043elga\U0001f600"); got != `\u043elga\U0001f600` || strings.ContainsRune(got, 'о') {
		t.Error(got)
	}
	if got := Clip("ääää", 3); got != "ää…" {
		t.Error(got)
	}
}
