package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ParseID reads an id as the book and attempts have them.
func ParseID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.Nil, Usage(fmt.Errorf("%q is not an id; ids look like 019a5c3e-7b1d-7f00-8000-0123456789ab", s))
	}
	return id, nil
}

// Moment reads a time or a day; an empty text is the zero time.
func Moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%s %q is neither a time such as 2026-11-30T08:00:00Z nor a day such as 2026-11-30", flag, text)
}

// Given is a filter, null when it is not set.
func Given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// CheckLimit refuses a limit that asks for nothing.
func CheckLimit(limit int) error {
	if limit < 1 {
		return Usage(fmt.Errorf("--limit %d asks for nothing; it is at least 1", limit))
	}
	return nil
}

// Plural is a number of things, in words.
func Plural(n int, what string) string { return Count(int64(n), what, what+"s") }

// Count is Plural with the word for many.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ParseSpan reads a length of time as Span and Go write it, with days and weeks besides: 90m, 24h,
// 7d, 1d12h, 2w. A day has 24 hours.
func ParseSpan(text string) (time.Duration, error) {
	rest, days := text, time.Duration(0)
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n > 9999 { // weeks of which fit into a Duration
			return 0, fmt.Errorf("%q is no length of time such as 90m, 24h or 7d", text)
		}
		days, rest = days+time.Duration(n)*unit.is, after
	}
	if rest == "" && days > 0 {
		return days, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || days > 0 && more < 0 {
		return 0, fmt.Errorf("%q is no length of time such as 90m, 24h or 7d", text)
	}
	return days + more, nil
}
