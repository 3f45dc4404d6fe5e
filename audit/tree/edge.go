package tree

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// levels is how many levels of tiles there are: 256^7 leaves are more than MaxSize.
const levels = 8

// edge is the right edge of a tree: its size, and the hashes of the one tile per level that is not full. That is all it
// takes to append and to compute the root. It is a tlog.HashReader for those hashes.
type edge struct {
	size  int64
	tiles [levels][]tlog.Hash
}

// fullTile is a tile that became full: a row of audit.tiles.
type fullTile struct {
	level int
	index int64
	root  tlog.Hash
}

// loadEdge reads the right edge of a tree of this size.
func loadEdge(ctx context.Context, db DB, tree int32, size int64) (*edge, error) {
	e := &edge{size: size}
	var spans []span
	for level := range levels {
		n := size >> (tileHeight * level)
		if lo := n &^ (tileWidth - 1); lo < n {
			spans = append(spans, span{level: level, lo: lo, hi: n})
		}
	}
	if len(spans) == 0 {
		return e, nil
	}
	runs, err := Hashes(ctx, db, tree).read(spans)
	if err != nil {
		return nil, fmt.Errorf("reading the tree's right edge: %w", err)
	}
	for i, s := range spans {
		e.tiles[s.level] = runs[i]
	}
	return e, nil
}

// clone is a copy that can be appended to without harm to e.
func (e *edge) clone() *edge {
	c := &edge{size: e.size}
	for level, hashes := range e.tiles {
		c.tiles[level] = slices.Clone(hashes)
	}
	return c
}

// append adds a leaf and returns the tiles that it made full.
func (e *edge) append(leaf tlog.Hash) []fullTile {
	var full []fullTile
	h := leaf
	for level := range levels {
		e.tiles[level] = append(e.tiles[level], h)
		if len(e.tiles[level]) < tileWidth {
			break
		}
		h = fold(e.tiles[level])
		e.tiles[level] = e.tiles[level][:0]
		full = append(full, fullTile{level: level, index: e.size >> (tileHeight * (level + 1)), root: h})
	}
	e.size++
	return full
}

// root is the RFC 6962 hash of all leaves. The edge has at least one.
func (e *edge) root() (tlog.Hash, error) {
	h, err := tlog.TreeHash(e.size, e)
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("computing the root of %d leaves: %w", e.size, err)
	}
	return h, nil
}

// ReadHashes returns hashes over runs within the tiles that are not full.
func (e *edge) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		s := spanOf(index)
		if s.level >= levels {
			return nil, ErrMissing
		}
		start := (e.size >> (tileHeight * s.level)) &^ (tileWidth - 1)
		if s.lo < start || s.hi > start+int64(len(e.tiles[s.level])) {
			return nil, fmt.Errorf("%w: it is not at the right edge", ErrMissing)
		}
		out[i] = fold(slices.Clone(e.tiles[s.level][s.lo-start : s.hi-start]))
	}
	return out, nil
}
