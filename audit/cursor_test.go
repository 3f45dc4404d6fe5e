package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func sha(b []byte) [32]byte { return sha256.Sum256(b) }

func someCursor() Cursor {
	return Cursor{recordedAt: time.Date(2026, 5, 4, 3, 2, 1, 654321000, time.UTC), id: uuid.MustParse("018f2f6e-0000-7000-8000-0000000000bb")}
}

func TestCursorIsReadAsWritten(t *testing.T) {
	for _, want := range []Cursor{{}, someCursor()} {
		if got, err := ParseCursor(want.String()); err != nil || got != want {
			t.Errorf("%q is read as %v (%v), want %v", want, got, err, want)
		}
	}
}

func TestForeignCursorsAreRefused(t *testing.T) {
	good := someCursor().String()
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(i int, b byte) string {
		c := append([]byte{}, raw...)
		c[i] = b
		return base64.RawURLEncoding.EncodeToString(c)
	}
	for name, s := range map[string]string{
		"blank": " ", "short": good[1:], "long": good + "A", "padded": good + "==", "another version": changed(0, 2),
		"before the year 2000": changed(1, 0x80), "after the year 9999": changed(1, 0x7f), "bits left over": good[:len(good)-1] + "_",
		"a line break": good[:4] + "\n" + good[5:], "standard alphabet": strings.Repeat("/", len(good)),
		"SQL": "' or 1=1 --' or 1=1 --' or 1=1 --'", "no id": base64.RawURLEncoding.EncodeToString(append(raw[:9:9], make([]byte, 16)...)),
	} {
		if c, err := ParseCursor(s); !errors.Is(err, ErrCursor) {
			t.Errorf("%s: %q is read as %v (%v)", name, s, c, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(someCursor().String())
	f.Add(strings.Repeat("A", 34))
	f.Add("AQ==")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		if err == nil && c.String() != s {
			t.Errorf("%q is read, but written %q", s, c)
		}
		if err != nil && !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", s, err)
		}
	})
}
