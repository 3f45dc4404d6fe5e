package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bronzeward/fixtures/page"
)

// samples are times of one thing on one way.
type samples []time.Duration

// quantile is the time that a part of the samples did not exceed (nearest rank).
func (s samples) quantile(part float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

func (s samples) p50() time.Duration { return s.quantile(0.50) }
func (s samples) p99() time.Duration { return s.quantile(0.99) }

// millis prints a time in milliseconds, three significant digits or so.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.3f ms", ms)
	}
}

// ratio prints how many times the yardstick something is.
func ratio(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f×", a/b)
}

// table is a Markdown table.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	return page.Table(t.head, t.rows)
}

// aims are lines that say what was wanted and whether it was had.
type aims []string

// add notes one aim.
func (a *aims) add(met bool, format string, args ...any) {
	word := "**missed**"
	if met {
		word = "met"
	}
	*a = append(*a, "- "+word+": "+fmt.Sprintf(format, args...))
}

func (a aims) String() string { return "\n" + strings.Join(a, "\n") + "\n" }

// takeTurns calls each way once per round, each round beginning with another.
func takeTurns(rounds int, ways []benchWay, one func(round int, way benchWay) error) error {
	for round := range rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			if err := one(round, way); err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
		}
	}
	return nil
}
