package verify

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Kind says what is wrong.
type Kind string

// The kinds of findings, the gravest first.
const (
	// RolledBack: the book is shorter than a checkpoint that was kept.
	RolledBack Kind = "rolled_back"
	// Forked: the book is another one than that of a checkpoint that was kept.
	Forked Kind = "forked"
	// Signature: a checkpoint is not signed by a key that was given.
	Signature Kind = "signature"
	// Checkpoint: a stored checkpoint is not the head of the leaves there are, or its note is not what its columns say.
	Checkpoint Kind = "checkpoint"
	// Tree: a row of audit.trees is missing or is not what its checkpoints say.
	Tree Kind = "tree"
	// Tile: the stored root of a tile is not that of what it covers, or is missing.
	Tile Kind = "tile"
	// Leaf: a leaf was replaced or deleted, or an id has two.
	Leaf Kind = "leaf"
	// OutOfOrder: leaves changed places.
	OutOfOrder Kind = "out_of_order"
	// Detached: the records of a whole month are not here.
	Detached Kind = "detached"
	// Missing: a leaf, or a row that waits for one, whose row is not here.
	Missing Kind = "missing"
	// Changed: a row is not the one that was sequenced.
	Changed Kind = "changed"
	// Inserted: a row that has no leaf and does not wait for one.
	Inserted Kind = "inserted"
	// Column: a column is not what the record beside it says.
	Column Kind = "column"
	// Term: audit.terms, by which entries are searched, lacks a term that an entry's record gives, or has one that it does not.
	Term Kind = "term"
	// Unsequenced: a row that has waited for its leaf for over a minute, or that waits and has one.
	Unsequenced Kind = "unsequenced"
)

var gravest = []Kind{
	RolledBack, Forked, Signature, Checkpoint, Tree, Tile, Leaf, OutOfOrder, Detached, Missing, Changed, Inserted, Column, Term, Unsequenced,
}

// Finding is one thing that is wrong. What does not apply is zero.
type Finding struct {
	Kind Kind `json:"kind"`
	// Table is where it is: entries, outcomes, unsequenced, terms, leaves, tiles, checkpoints, trees, or the name of a kept file.
	Table      string    `json:"table"`
	ID         uuid.UUID `json:"id,omitzero"`
	RecordedAt time.Time `json:"recorded_at,omitzero"`
	Tree       int32     `json:"tree,omitempty"`
	// Indexes are the first and the last place in the tree, the same twice for one leaf.
	Indexes *[2]int64 `json:"indexes,omitempty"`
	// Differs are the columns whose values are not what they should be.
	Differs []string `json:"differs,omitempty"`
	// Field and Term are the term of audit.terms that it is about.
	Field string `json:"field,omitempty"`
	Term  string `json:"term,omitempty"`
	// Others are further rows it is about: that with which it changed places, those at the ends of a tile.
	Others []Place `json:"others,omitempty"`
	// Rows is how many rows it stands for, if not one.
	Rows int64  `json:"rows,omitempty"`
	Text string `json:"text"`
}

// Place is a row's place in the tree.
type Place struct {
	Index      int64     `json:"index"`
	ID         uuid.UUID `json:"id"`
	RecordedAt time.Time `json:"recorded_at,omitzero"`
}

// findings collects them: all are counted, so many of each kind are kept. Safe for concurrent use.
type findings struct {
	limit int

	mu     sync.Mutex // guards what follows
	counts map[Kind]int64
	kept   map[Kind][]Finding
}

func newFindings(limit int) *findings {
	return &findings{limit: limit, counts: map[Kind]int64{}, kept: map[Kind][]Finding{}}
}

func (f *findings) add(x Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[x.Kind]++
	if len(f.kept[x.Kind]) < f.limit {
		f.kept[x.Kind] = append(f.kept[x.Kind], x)
	}
}

// take takes back the findings of a kind that match, and gives them. If none was kept, beyond says how many were told
// beyond the limit.
func (f *findings) take(kind Kind, beyond int64, match func(*Finding) bool) []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	var taken []Finding
	f.kept[kind] = slices.DeleteFunc(f.kept[kind], func(x Finding) bool {
		if match(&x) {
			taken = append(taken, x)
			return true
		}
		return false
	})
	f.counts[kind] -= max(int64(len(taken)), beyond)
	return taken
}

// list gives what was kept, the gravest first, each kind in the order of the book.
func (f *findings) list() ([]Finding, map[Kind]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []Finding{}
	counts := map[Kind]int64{}
	for _, k := range gravest {
		list := f.kept[k]
		slices.SortStableFunc(list, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(first(a), first(b)), a.RecordedAt.Compare(b.RecordedAt), slices.Compare(a.ID[:], b.ID[:]))
		})
		out = append(out, list...)
		if n := f.counts[k]; n > 0 {
			counts[k] = n
		}
	}
	return out, counts
}

func first(f Finding) int64 {
	if f.Indexes == nil {
		return -1
	}
	return f.Indexes[0]
}

// at is one place in a tree.
func at(index int64) *[2]int64 { return &[2]int64{index, index} }

// moment is a time of the database, the zero time where RFC 3339 cannot spell it.
func moment(micros int64) time.Time {
	t := time.UnixMicro(micros).UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}

// count adds findings of which nothing is kept.
func (f *findings) count(kind Kind, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind] += n
}
