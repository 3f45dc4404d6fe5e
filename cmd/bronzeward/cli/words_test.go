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

func TestALengthOfTimeHasDaysAndWeeks(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"24h": day, "7d": 7 * day, "30d": 30 * day, "2w": 14 * day, "1w2d3h": 9*day + 3*time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "0d1h": time.Hour, "-1h": -time.Hour,
	} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "7", "7D", "-7d", "1.5d", "7d-1h", "1d1d", "2d1w", "10000w", "99999999999d", "2026-11-30"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
