package cli

import (
	"strings"
	"testing"
	"time"
)

func TestATimeIsReadAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]time.Time{
		"":                          {},
		"2026-11-30T08:00:00Z":      time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC),
		"2026-11-30T08:00:00+02:00": time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC),
		"2026-11-30":                time.Date(2026, 11, 30, 0, 0, 0, 0, time.Local),
	} {
		got, err := Moment("--from", text)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "2026-13-01", "2026-11-30 08:00"} {
		if _, err := Moment("--from", text); err == nil || !strings.Contains(err.Error(), "--from") || !strings.Contains(err.Error(), text) {
			t.Errorf("%q gave %v", text, err)
		}
	}
}
