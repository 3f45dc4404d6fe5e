package main

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bronzeward/fixtures/oracle"
	"bronzeward/gateway/facts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuantilesAreByNearestRank(t *testing.T) {
	var hundred samples
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct {
		name string
		s    samples
		part float64
		want time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"one", samples{7}, 0.99, 7},
		{"the middle", hundred, 0.5, 51},
		{"the tail", hundred, 0.99, 100},
		{"the longest", hundred, 1, 100},
	} {
		if got := c.s.quantile(c.part); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// The configurations must be what the tables say: of that size, and let through or
// refused by the gateway's own reader.
func TestTheConfigurationsAreWhatTheTablesSay(t *testing.T) {
	base := oracle.Base()
	digester, err := facts.NewPlain(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		text    []byte
		size    int
		changes int
	}{
		{"15 KiB", workerText(base), smallSize, 1},
		{"10.7 MiB that passes", largeText(base), largeSize, 1},
	} {
		if over := len(c.text) - c.size; over < 0 || over > 1000 {
			t.Errorf("%s has %d bytes, want %d or a line more", c.name, len(c.text), c.size)
		}
		turned := turnText(c.text, 12)
		if len(turned) != len(c.text) || bytes.Equal(turned, c.text) {
			t.Errorf("%s: another turn has %d bytes, the first %d", c.name, len(turned), len(c.text))
		}
		got := facts.ReadConfig(t.Context(), turned, c.text, c.text, digester)
		if len(got.Problems) > 0 || len(got.Changes) != c.changes {
			t.Errorf("%s: problems %v and %d changes, want none and %d", c.name, got.Problems, len(got.Changes), c.changes)
		}
	}
	labels := labelsText(base)
	if got := facts.ReadConfig(t.Context(), labels, base, base, digester); len(got.Problems) == 0 {
		t.Errorf("%d bytes of labels have no problem", len(labels))
	}
}

func TestFlagsThatMeanNothingAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-scale", "0"}, {"-scale", "11"}, {"-only", "everything"}} {
		if _, err := benchFlags(args); err == nil {
			t.Errorf("%s is taken", strings.Join(args, " "))
		}
	}
	if o, err := benchFlags([]string{"-only", "law,book"}); err != nil || len(o.only) != 2 || o.scale != 1 {
		t.Errorf("got %+v and %v", o, err)
	}
}

func TestTheProcessorTimeOfThisProcessIsRead(t *testing.T) {
	if _, parent, err := processTime(os.Getpid(), false); err != nil || parent != os.Getppid() {
		t.Errorf("the parent is %d (%v), want %d", parent, err, os.Getppid())
	}
}

func TestAHistogramIsReadFromThePage(t *testing.T) {
	page := `# TYPE bronzeward_call_step_seconds histogram
bronzeward_call_step_seconds_bucket{step="admit",le="0.004"} 90
bronzeward_call_step_seconds_bucket{step="admit",le="0.01"} 99
bronzeward_call_step_seconds_bucket{step="admit",le="+Inf"} 100
bronzeward_call_step_seconds_sum{step="admit"} 0.4
bronzeward_call_step_seconds_count{step="admit"} 100
bronzeward_call_step_seconds_bucket{step="judge",le="0.004"} 7
`
	h, err := stepHistogram(page, "admit")
	if err != nil {
		t.Fatal(err)
	}
	twice := histogram{}
	twice.plus(h)
	twice.plus(h)
	for what, one := range map[string]histogram{"read": h, "twice less once": twice.since(h)} {
		if n, mean := one.count(), one.mean(); n != 100 || mean != 4*time.Millisecond {
			t.Errorf("%s: %g took %s in the mean", what, n, mean)
		}
		if p99, p90 := one.atMost(0.99), one.atMost(0.9); p99 != 10*time.Millisecond || p90 != 4*time.Millisecond {
			t.Errorf("%s: p90 is at most %s, p99 %s", what, p90, p99)
		}
		if all, part := one.within(0.5), one.within(0.009); all != 0.99 || part != 0.9 {
			t.Errorf("%s: %g within half a second, %g within 9 ms", what, all, part)
		}
	}
	if got := h.atMost(1); got != math.MaxInt64 {
		t.Errorf("what is beyond every bound is at most %s", got)
	}
}

func TestTheSpreadIsOfTheMiddles(t *testing.T) {
	var s samples
	for i := range 100 {
		s = append(s, time.Duration(i/10)) // ten parts: 0, 1, …, 9
	}
	if got := s.spread(); got != 9 {
		t.Errorf("got %d, want 9", got)
	}
	if got := (samples{5}).spread(); got != 0 {
		t.Errorf("of one: %d", got)
	}
}
