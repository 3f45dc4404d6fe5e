package gateway

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
)

const (
	// bookBehind is how old a row without a place may be before a replica warns: ten times what the
	// book promises.
	bookBehind = 10 * time.Second
	// bookUnseen is how long ago a replica may have looked at the book before it says that it does
	// not know; it looks at least once a second.
	bookUnseen = 10 * time.Second
)

// BookTree is what this replica knows of the tree over the book: how far its rows are sequenced,
// signed and anchored. It is the metrics and the field of /readyz. Nothing of it keeps a replica
// from deciding: a row is durable before it has a place. Safe for concurrent use.
type BookTree struct {
	// Signs is true when there is a key to sign checkpoints with.
	Signs bool

	sequencer atomic.Pointer[sequencer]
	anchored  atomic.Int64
	failures  *prometheus.CounterVec
	now       func() time.Time

	mu       sync.Mutex // guards what follows
	signed   int64      // size of the checkpoint that was the last at the last look
	unsigned time.Time  // since when rows wait for a checkpoint larger than it; zero when none does
}

// NewBookTree registers the metrics.
func NewBookTree(reg prometheus.Registerer, signs bool) *BookTree {
	b := &BookTree{Signs: signs, now: time.Now, failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bronzeward_book_failures_total", Help: "Failures of this replica's sequencer, by step; what failed is tried again.",
	}, []string{"step"})}
	reg.MustRegister(b.failures, b)
	return b
}

// sequencer says what it knows; *tree.Sequencer does.
type sequencer interface{ Status() tree.Status }

// Follow has the numbers be those of another sequencer: each start has one of its own.
func (b *BookTree) Follow(s sequencer) { b.sequencer.Store(&s) }

// Failed counts one failure.
func (b *BookTree) Failed(step tree.Step) { b.failures.WithLabelValues(string(step)).Inc() }

// Anchored notes the size that OpenBao remembers.
func (b *BookTree) Anchored(size int64) { b.anchored.Store(size) }

// bookNow is one look.
type bookNow struct {
	tree.Status
	known  bool          // somebody looked lately
	behind time.Duration // by now
	age    time.Duration // of the last checkpoint while rows wait for another
}

// Look reads what there is, without asking anybody. Called about once a second, by Watch, it keeps
// the age of the last checkpoint.
func (b *BookTree) Look() { b.look() }

func (b *BookTree) look() bookNow {
	s := b.sequencer.Load()
	if s == nil {
		return bookNow{}
	}
	out := bookNow{Status: (*s).Status()}
	now := b.now()
	since := now.Sub(out.SeenAt)
	out.known = !out.SeenAt.IsZero() && since < bookUnseen
	if out.Waiting > 0 {
		out.behind = out.Behind + since
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.Signs || out.Size <= out.Checkpoint.Size:
		b.unsigned = time.Time{}
	case b.unsigned.IsZero() || out.Checkpoint.Size != b.signed:
		b.unsigned = now
	}
	if b.signed = out.Checkpoint.Size; !b.unsigned.IsZero() {
		out.age = max(0, now.Sub(b.unsigned))
	}
	return out
}

// ready is the field of /readyz, and sentences for its warnings; nothing where the book is not
// sequenced. doubtful is whether the house may be older than it was: then nothing is sequenced or signed, and
// that is said once.
func (b *BookTree) ready(doubtful bool) (state map[string]any, warnings []string) {
	if b == nil {
		return nil, nil
	}
	now := b.look()
	state = map[string]any{
		"size": now.Size, "unsequenced": now.Waiting, "behind_seconds": seconds(now.behind), "sequences_here": now.Holder,
		"anchored": b.anchored.Load(), "checkpoint": map[string]any{"size": now.Checkpoint.Size, "age_seconds": seconds(now.age)},
	}
	switch {
	case !now.known:
		warnings = append(warnings, "this replica cannot look how far the book is sequenced")
	case now.behind > bookBehind:
		warnings = append(warnings, fmt.Sprintf("the book is behind: %d rows have no place in its tree, the oldest for %s", now.Waiting, now.behind.Round(time.Second)))
	}
	if doubtful {
		return state, append(warnings, control.ErrDoubtful.Error())
	}
	if now.Refused != "" {
		warnings = append(warnings, "the book is not signed any more: "+oneLine(now.Refused))
	}
	for _, step := range slices.Sorted(maps.Keys(now.Errors)) {
		if step != tree.StepSign || b.Signs {
			warnings = append(warnings, fmt.Sprintf("the book (%s): %s", step, cut(oneLine(now.Errors[step]), mostSaid)))
		}
	}
	return state, warnings
}

// seconds is a duration as a number that people read.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

var (
	bookSize       = prometheus.NewDesc("bronzeward_book_size", "Leaves of the tree over the book of the present epoch.", nil, nil)
	bookWaiting    = prometheus.NewDesc("bronzeward_book_unsequenced_rows", "Rows of the book that have no place in its tree yet, counted to 10000.", nil, nil)
	bookLate       = prometheus.NewDesc("bronzeward_book_behind_seconds", "Age of the oldest row that has no place in the tree yet; 0 when every row has one.", nil, nil)
	bookSeen       = prometheus.NewDesc("bronzeward_book_seen_timestamp_seconds", "When this replica last looked how far the book is, in Unix time; 0 before the first time.", nil, nil)
	bookHolder     = prometheus.NewDesc("bronzeward_book_sequencer", "1 on the replica that sequences the book, 0 on the others.", nil, nil)
	checkpointSize = prometheus.NewDesc("bronzeward_book_checkpoint_size", "Leaves under the last checkpoint.", nil, nil)
	checkpointAge  = prometheus.NewDesc("bronzeward_book_checkpoint_age_seconds", "How long rows of the tree have waited for a checkpoint; 0 when the last one covers them all.", nil, nil)
	anchorSize     = prometheus.NewDesc("bronzeward_book_anchor_size", "Leaves that OpenBao remembers, as this replica last saw it.", nil, nil)
)

// Describe implements prometheus.Collector.
func (b *BookTree) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{bookSize, bookWaiting, bookLate, bookSeen, bookHolder, checkpointSize, checkpointAge, anchorSize} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (b *BookTree) Collect(out chan<- prometheus.Metric) {
	now := b.look()
	seen, holder := 0.0, 0.0
	if !now.SeenAt.IsZero() {
		seen = float64(now.SeenAt.UnixMilli()) / 1000
	}
	if now.Holder {
		holder = 1
	}
	for _, m := range []struct {
		desc  *prometheus.Desc
		value float64
	}{
		{bookSize, float64(now.Size)},
		{bookWaiting, float64(now.Waiting)},
		{bookLate, now.behind.Seconds()},
		{bookSeen, seen},
		{bookHolder, holder},
		{checkpointSize, float64(now.Checkpoint.Size)},
		{checkpointAge, now.age.Seconds()},
		{anchorSize, float64(b.anchored.Load())},
	} {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value)
	}
}
