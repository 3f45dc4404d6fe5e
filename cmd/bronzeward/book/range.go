package book

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/cli"
)

// rangeOf reads two ends of time; an empty text is an open end.
func rangeOf(since, until string) (s span, err error) {
	var errs [2]error
	s.from, errs[0] = endOf("--since", since)
	s.until, errs[1] = endOf("--until", until)
	if err := errors.Join(errs[:]...); err != nil {
		return s, cli.Usage(err)
	}
	if !s.from.IsZero() && !s.until.IsZero() && !s.from.Before(s.until) {
		return s, cli.Usage(fmt.Errorf("--since %s is not before --until %s: nothing lies between", since, until))
	}
	return s, nil
}

// endOf reads a time, a day, or so long ago.
func endOf(flag, text string) (time.Time, error) {
	if ago, err := cli.ParseSpan(text); err == nil {
		if ago <= 0 {
			return time.Time{}, fmt.Errorf("%s %q is not in the past: so long ago reads 24h or 7d", flag, text)
		}
		return time.Now().Add(-ago), nil
	}
	t, err := cli.Moment(flag, text)
	if err != nil {
		return t, fmt.Errorf("%w, nor so long ago, such as 24h or 7d", err)
	}
	return t, nil
}

// words joins what is not empty.
func words(parts ...string) string {
	kept := parts[:0:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ", ")
}
