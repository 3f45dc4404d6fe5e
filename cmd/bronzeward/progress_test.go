package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressIsDrawnAfterTwoSecondsAndWipedAway(t *testing.T) {
	for name, row := range map[string]struct {
		g    globals
		term string
		want string
	}{
		"a terminal":           {globals{Output: "table"}, "xterm", "applying\\u000ait … 2s\r\x1b[Kapplying\\u000ait … 3s\r\x1b[Kasking again … 4s\r\x1b[K"},
		"a terminal that only": {globals{Output: "table"}, "dumb", "applying\\u000ait …\nasking again …\n"},
		"JSON is asked for":    {globals{Output: "json"}, "xterm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", row.term)
			var out bytes.Buffer
			row.g.terminal = &out
			synctest.Test(t, func(*testing.T) {
				p := row.g.newProgress()
				end := p.begin("applying\nit")
				inner := p.begin("asking")
				wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
				wait(3 * time.Second)
				inner()
				p.note("asking again")
				wait(time.Second)
				end()
				done := p.begin("short")
				wait(time.Second)
				done()
				hidden := p.hide()
				p.begin("long")()
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
		p := (&globals{Output: "table"}).newProgress()
		end := p.begin("x")
		time.Sleep(time.Minute)
		end() // nothing to write to, and nothing that would fail
	})
}

func TestAWordIsCopiedSafely(t *testing.T) {
	for in, want := range map[string]string{
		"roll-out_1.2": "roll-out_1.2", "": "''", "a b": "'a b'", "$(rm)": "'$(rm)'", "it's": `'it'\''s'`, "é": "'é'", "hmac-sha256:k1:aa": "hmac-sha256:k1:aa",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("%q is copied as %s, want %s", in, got, want)
		}
	}
	if got := oneLine("a\nb\tc"); got != `a\u000ab\u0009c` {
		t.Error(got)
	}
	if got := ascii("\u043elga\U0001f600"); got != `\u043elga\U0001f600` || strings.ContainsRune(got, 'о') {
		t.Error(got)
	}
	if got := clip("ääää", 3); got != "ää…" {
		t.Error(got)
	}
}
