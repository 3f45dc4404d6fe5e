package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// errStop ends a stream whose receiver is gone.
var errStop = errors.New("stopped")

// tileSize is how many hashes a tile covers.
const tileSize = 256

// leaf is a row of audit.leaves.
type leaf struct {
	index  int64
	at     int64 // recorded_at in microseconds since 1970
	id     uuid.UUID
	hash   hash
	tree   int32
	source byte
}

func (l *leaf) place() Place { return Place{Index: l.index, ID: l.id, RecordedAt: moment(l.at)} }

// treeWalk goes over the leaves of one tree, in order, and holds them to tiles and checkpoints.
type treeWalk struct {
	tree   treeRow
	found  *findings
	tiles  *tileReader
	heads  *headReader
	emit   func([]leaf) error // takes the leaves of a tile once that was compared; may keep them
	bushes *suspects

	next  int64 // index of the next leaf
	tile  []leaf
	holes []int64 // of the tile
	low   spine   // over the leaves of the tile; counts only while there are no holes
	// leaves is over the tiles as the leaves make them, stored over the tiles as audit.tiles has them. They are the same
	// until a tile differs: from then on both are known, and a checkpoint that agrees with one shows which is wrong.
	leaves, stored edge
	differ         bool
	bad            []*head // checkpoints within this tile that agree with neither, in the order of size
}

// edge is a spine over tiles that may not be known, because leaves are not there.
type edge struct {
	spine
	unknown bool
}

func newTreeWalk(t treeRow, found *findings, tiles *tileReader, heads *headReader, s *suspects, emit func([]leaf) error) *treeWalk {
	return &treeWalk{tree: t, found: found, tiles: tiles, heads: heads, bushes: s, emit: emit, tile: make([]leaf, 0, tileSize)}
}

// run reads the tree. begun is called for each leaf, to count it.
func (w *treeWalk) run(ctx context.Context, conn *pgx.Conn, begun func()) error {
	query := fmt.Sprintf("select index, recorded_at, id, source, leaf from audit.leaves where tree = %d order by index", w.tree.tree)
	err := copyOut(ctx, conn, query, 5, func(f [][]byte) error {
		l := leaf{tree: w.tree.tree, source: sourceEntry}
		var ok [4]bool
		l.index, ok[0] = int64Of(f[0])
		l.at, ok[1] = micros(f[1])
		l.id, ok[2] = uuidOf(f[2])
		l.hash, ok[3] = hashOf(f[4])
		if string(f[3]) == "outcome" {
			l.source = sourceOutcome
		}
		begun()
		if ok != [4]bool{true, true, true, true} || l.index < 0 || (l.source == sourceEntry && string(f[3]) != "entry") {
			w.found.add(Finding{
				Kind: Leaf, Table: "leaves", Tree: l.tree, ID: l.id, Indexes: at(l.index),
				Text: "this leaf has values that no leaf can have",
			})
			return nil
		}
		return w.add(ctx, l)
	})
	if err != nil {
		return fmt.Errorf("reading the leaves of tree %d: %w", w.tree.tree, err)
	}
	return w.end(ctx)
}

func (w *treeWalk) add(ctx context.Context, l leaf) error {
	if l.index < w.next {
		w.found.add(Finding{
			Kind: Leaf, Table: "leaves", Tree: l.tree, Indexes: at(l.index), ID: l.id, RecordedAt: moment(l.at),
			Text: "a second leaf has this place",
		})
		return w.emit([]leaf{l})
	}
	if l.index > w.next {
		if err := w.gap(ctx, l.index); err != nil {
			return err
		}
	}
	w.tile = append(w.tile, l)
	if len(w.holes) == 0 {
		w.low.push(l.hash, nil)
	}
	w.next++
	return w.advance(ctx)
}

// gap passes over the leaves up to index, which are not there.
func (w *treeWalk) gap(ctx context.Context, index int64) error {
	w.found.add(Finding{
		Kind: Leaf, Table: "leaves", Tree: w.tree.tree, Indexes: &[2]int64{w.next, index - 1}, Rows: index - w.next,
		Text: "leaves with these places are not here: they were deleted",
	})
	for w.next < index {
		if w.next%tileSize == 0 && index-w.next >= tileSize {
			w.holes = append(w.holes, w.next) // one stands for all
			w.next += tileSize
		} else {
			w.holes = append(w.holes, w.next)
			w.next++
		}
		if err := w.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// advance looks at what ends at next: checkpoints, and a tile.
func (w *treeWalk) advance(ctx context.Context) error {
	for {
		h, err := w.heads.upTo(ctx, w.next)
		if err != nil {
			return err
		}
		if h == nil {
			break
		}
		w.compare(h)
	}
	if w.next%tileSize != 0 {
		return nil
	}
	return w.closeTile(ctx)
}

// compare holds a checkpoint to the leaves before it.
func (w *treeWalk) compare(h *head) {
	known := false
	if h.size == w.next && len(w.holes) == 0 {
		for _, e := range []*edge{&w.leaves, &w.stored} {
			if e == &w.stored && !w.differ || e.unknown {
				continue
			}
			known = true
			if w.rootOf(&e.spine) == h.root {
				h.agrees()
				return
			}
		}
	}
	h.differs(known)
	w.bad = append(w.bad, h)
}

// rootOf is the root of the tiles on the spine and the leaves of the tile begun.
func (w *treeWalk) rootOf(s *spine) hash {
	if w.low.n == 0 {
		return s.root(nil)
	}
	tail := w.low.root(nil)
	return s.root(&tail)
}

// closeTile compares the tile that ends at next with the stored one.
func (w *treeWalk) closeTile(ctx context.Context) error {
	index := w.next/tileSize - 1
	want, err := w.tiles.take(ctx, index)
	if err != nil {
		return err
	}
	computed := w.low.root(nil)
	whole := len(w.holes) == 0
	switch {
	case whole && want != nil && computed == *want:
	case whole && want == nil:
		w.found.add(w.aboutTile(0, index, "the stored root of these leaves is not here"))
	case !whole || computed != *want:
		if !w.differ {
			w.differ, w.stored = true, w.leaves
		}
		if whole {
			w.found.add(w.aboutTile(0, index, "the stored root of these 256 leaves is not what they give"))
		} else if want == nil {
			w.found.add(w.aboutTile(0, index, "the stored root of these leaves is not here"))
		}
		if want != nil && len(w.tile) > 0 {
			w.bushes.add(&suspect{tree: w.tree.tree, begin: index * tileSize, leaves: w.tile, size: tileSize, want: *want, heads: w.bad, before: w.known()})
		}
	}
	w.push(computed, whole, want)
	full := w.tile
	w.tile, w.holes, w.low, w.bad = make([]leaf, 0, tileSize), nil, spine{}, nil
	return w.emit(full)
}

// push puts a tile on the edges, and compares the tiles of higher levels that it completes.
func (w *treeWalk) push(computed hash, whole bool, want *hash) {
	type upper struct {
		level int
		index int64
	}
	above := map[upper][]hash{}
	note := func(level int, index int64, root hash) {
		u := upper{level, index}
		above[u] = append(above[u], root)
	}
	if !whole {
		w.leaves.unknown = true
	}
	if !w.leaves.unknown {
		w.leaves.push(computed, note)
	}
	if w.differ {
		h := computed
		if want != nil {
			h = *want
		} else if !whole {
			w.stored.unknown = true
		}
		if !w.stored.unknown {
			w.stored.push(h, note)
		}
	}
	for level, n := 1, w.next/tileSize; n%tileSize == 0 && n > 0; level, n = level+1, n/tileSize {
		u := upper{level, n/tileSize - 1}
		stored := w.tiles.upper(level, u.index)
		agrees := len(above[u]) == 0 // not known, and said already
		for _, h := range above[u] {
			agrees = agrees || stored != nil && h == *stored
		}
		switch {
		case stored == nil:
			w.found.add(w.aboutTile(level, u.index, "the stored root of these leaves is not here"))
		case !agrees:
			w.found.add(w.aboutTile(level, u.index, "the stored root of these leaves is not what the tiles below it give"))
		}
	}
}

// aboutTile is a finding that names what a tile covers, as far as its leaves are at hand.
func (w *treeWalk) aboutTile(level int, index int64, text string) Finding {
	covers := int64(1) << (8 * (level + 1))
	f := Finding{
		Kind: Tile, Table: "tiles", Tree: w.tree.tree, Indexes: &[2]int64{index * covers, (index+1)*covers - 1},
		Differs: []string{"root"}, Text: fmt.Sprintf("%s (tile %d of level %d)", text, index, level),
	}
	if level == 0 && len(w.tile) > 0 {
		f.Others = []Place{w.tile[0].place(), w.tile[len(w.tile)-1].place()}
	}
	return f
}

// end finishes the tree: what is left of tiles and checkpoints is about leaves that are not there.
func (w *treeWalk) end(ctx context.Context) error {
	size := w.next
	w.tree.size = size
	last, err := w.heads.rest(ctx, size)
	if err != nil {
		return err
	}
	if last != nil {
		w.found.add(Finding{
			Kind: Leaf, Table: "leaves", Tree: w.tree.tree, Indexes: &[2]int64{size, last.size - 1}, Rows: last.size - size,
			Text: "leaves with these places are not here, though a stored checkpoint covers them: the end was deleted",
		})
		w.bad = append(w.bad, last)
	}
	if err := w.tiles.rest(ctx, w.found, w.aboutTile); err != nil {
		return err
	}
	if begin := size / tileSize * tileSize; len(w.bad) > 0 && len(w.tile) > 0 {
		want := w.bad[len(w.bad)-1]
		if before := w.known(); before != nil && want.size-begin <= tileSize {
			w.bushes.add(&suspect{tree: w.tree.tree, begin: begin, leaves: w.tile, size: int(want.size - begin), want: want.root, open: true, heads: w.bad, before: before})
		}
	}
	if len(w.tile) > 0 {
		return w.emit(w.tile)
	}
	return nil
}

// known are the tiles before this one, as far as they are known; as they were stored where leaves are not here.
func (w *treeWalk) known() *spine {
	for _, e := range []*edge{&w.leaves, &w.stored} {
		if !e.unknown && (e == &w.leaves || w.differ) {
			s := e.spine
			return &s
		}
	}
	return nil
}
