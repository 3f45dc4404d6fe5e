package gateway

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
)

// saying is a sequencer that says what it is told to.
type saying struct{ says tree.Status }

func (s *saying) Status() tree.Status { return s.says }

// numbers are the gauges and counters of a registry; a label's value follows the name.
func numbers(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, family := range must(reg.Gather())(t) {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "bronzeward_book_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func sized(size int64) tree.Stored { return tree.Stored{Checkpoint: tree.Checkpoint{Size: size}} }

func TestWhatAReplicaShowsOfTheBook(t *testing.T) {
	begin := time.Unix(1_900_000_000, 0)
	for name, row := range map[string]struct {
		signs  bool
		status tree.Status
		later  time.Duration // how long ago it was looked
		want   map[string]float64
		warns  []string // what each warning says
	}{
		"all is well": {
			true,
			tree.Status{Holder: true, Size: 9, SeenAt: begin, Checkpoint: sized(9)},
			time.Second,
			map[string]float64{"size": 9, "sequencer": 1, "checkpoint_size": 9},
			nil,
		},
		"another replica sequences": {
			true,
			tree.Status{Size: 9, SeenAt: begin, Checkpoint: sized(9)},
			time.Second,
			map[string]float64{"size": 9, "checkpoint_size": 9},
			nil,
		},
		"a little behind": {
			true,
			tree.Status{Holder: true, Size: 9, SeenAt: begin, Checkpoint: sized(9), Waiting: 3, Behind: 4 * time.Second},
			time.Second,
			map[string]float64{"size": 9, "sequencer": 1, "checkpoint_size": 9, "unsequenced_rows": 3, "behind_seconds": 5},
			nil,
		},
		"far behind": {
			true,
			tree.Status{Size: 9, SeenAt: begin, Checkpoint: sized(9), Waiting: 3, Behind: 9 * time.Second},
			2 * time.Second,
			map[string]float64{"size": 9, "checkpoint_size": 9, "unsequenced_rows": 3, "behind_seconds": 11},
			[]string{"3 rows have no place in its tree, the oldest for 11s"},
		},
		"nobody looked lately": {
			true,
			tree.Status{Size: 9, SeenAt: begin, Checkpoint: sized(9), Errors: map[tree.Step]string{tree.StepConnect: "connecting: refused"}},
			12 * time.Second,
			map[string]float64{"size": 9, "checkpoint_size": 9},
			[]string{"cannot look how far the book is sequenced", "the book (connect): connecting: refused"},
		},
		"not the tree that was signed": {
			true,
			tree.Status{Holder: true, Size: 9, SeenAt: begin, Checkpoint: sized(9), Refused: "leaf 3\nis another"},
			time.Second,
			map[string]float64{"size": 9, "sequencer": 1, "checkpoint_size": 9},
			[]string{"not signed any more: leaf 3 is another"},
		},
		"the folder cannot be written to": {
			true,
			tree.Status{SeenAt: begin, Errors: map[tree.Step]string{"publish folder": "writing: permission denied"}},
			time.Second,
			map[string]float64{},
			[]string{"the book (publish folder): writing: permission denied"},
		},
		"development signs nothing": {
			false,
			tree.Status{Holder: true, Size: 9, SeenAt: begin, Errors: map[tree.Step]string{tree.StepSign: "no signer"}},
			time.Second,
			map[string]float64{"size": 9, "sequencer": 1},
			nil,
		},
		"OpenBao does not sign": {
			true,
			tree.Status{SeenAt: begin, Errors: map[tree.Step]string{tree.StepSign: "OpenBao is sealed"}},
			time.Second,
			map[string]float64{},
			[]string{"the book (sign): OpenBao is sealed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			b := NewBookTree(reg, row.signs)
			b.now = func() time.Time { return begin.Add(row.later) }
			b.Follow(&saying{row.status})
			b.Anchored(5)
			want := map[string]float64{
				"size": 0, "sequencer": 0, "checkpoint_size": 0, "unsequenced_rows": 0, "behind_seconds": 0, "checkpoint_age_seconds": 0,
				"anchor_size": 5, "seen_timestamp_seconds": float64(begin.Unix()),
			}
			maps.Copy(want, row.want)
			if diff := cmp.Diff(want, numbers(t, reg)); diff != "" {
				t.Error(diff)
			}
			state, warnings := b.ready(false)
			if state["size"] != row.status.Size || state["anchored"] != int64(5) || state["behind_seconds"] != want["behind_seconds"] || state["sequences_here"] != row.status.Holder {
				t.Errorf("/readyz has %v", state)
			}
			if len(warnings) != len(row.warns) {
				t.Fatalf("warnings %q", warnings)
			}
			for i, w := range row.warns {
				if !strings.Contains(warnings[i], w) {
					t.Errorf("warning %q does not say %q", warnings[i], w)
				}
			}
		})
	}
}

// A checkpoint's age is how long rows have waited for the next one, and not how long nothing came.
func TestTheAgeOfACheckpointIsWhatRowsWait(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	b := NewBookTree(prometheus.NewRegistry(), true)
	b.now = func() time.Time { return now }
	s := &saying{}
	b.Follow(s)
	var ages []float64
	for _, step := range []struct {
		after       time.Duration
		size, under int64
	}{
		{0, 9, 9},
		{time.Hour, 9, 9},          // nothing came
		{time.Second, 10, 9},       // a row, just seen
		{7 * time.Second, 12, 9},   // it waits, and others
		{time.Second, 13, 12},      // signed, and another row already
		{2 * time.Second, 13, 12},  // which waits
		{time.Second, 13, 13},      // signed
		{10 * time.Second, 14, 13}, // another
		{-5 * time.Second, 14, 13}, // the clock went back
	} {
		now = now.Add(step.after)
		s.says.SeenAt, s.says.Size, s.says.Checkpoint = now, step.size, sized(step.under)
		ages = append(ages, b.look().age.Seconds())
	}
	if want := []float64{0, 0, 0, 7, 0, 2, 0, 0, 0}; !slices.Equal(ages, want) {
		t.Errorf("ages %v, want %v", ages, want)
	}
}

// In a house that may be older than it was, nothing is sequenced or signed: each step says so in its
// way, and who reads the warnings is told once.
func TestADoubtfulHouseSaysOnceThatNothingIsSequenced(t *testing.T) {
	b := NewBookTree(prometheus.NewRegistry(), true)
	begin := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	b.now = func() time.Time { return begin }
	said := control.ErrDoubtful.Error() + ": this database is older"
	b.Follow(&saying{tree.Status{SeenAt: begin, Refused: "leaf 3 is another", Errors: map[tree.Step]string{tree.StepSequence: said, tree.StepSign: said, tree.StepCheck: said}}})
	if _, warnings := b.ready(true); len(warnings) != 1 || warnings[0] != control.ErrDoubtful.Error() {
		t.Errorf("warnings %q", warnings)
	}
	if _, warnings := b.ready(false); len(warnings) != 4 {
		t.Errorf("in a house that is sound each is said: %q", warnings)
	}
}

func TestBeforeItsFirstSequencerAReplicaSaysThatItDoesNotKnow(t *testing.T) {
	reg := prometheus.NewRegistry()
	b := NewBookTree(reg, true)
	if _, warnings := b.ready(false); len(warnings) != 1 || !strings.Contains(warnings[0], "cannot look") {
		t.Errorf("warnings %q", warnings)
	}
	b.Failed("publish folder")
	if got := numbers(t, reg); got["size"] != 0 || got["failures_total publish folder"] != 1 {
		t.Errorf("got %v", got)
	}
}
