package tree

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"
)

// DB is what reading takes: a connection, a pool or a transaction. Its role is bronzeward_auditor or bronzeward_gateway,
// or a member.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Tiles are 256 hashes wide, eight levels of the tree high.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

//go:embed queries/hashes.sql
var hashesSQL string

// ErrMissing means that the tree has no such leaf or tile.
var ErrMissing = errors.New("the tree lacks a hash")

// HashReader reads the hashes of one tree from audit.leaves and audit.tiles. It is a tlog.HashReader, and a
// tlog.TileReader of height 8 (tlog.TileHashReader checks what it reads against a root). It is as safe for concurrent use as
// its DB, keeps nothing, and needs one round trip per call.
type HashReader struct {
	ctx  context.Context // of the calls to db: the library's interfaces have none
	db   DB
	tree int32
}

// Hashes reads the tree's hashes through db, under ctx.
func Hashes(ctx context.Context, db DB, tree int32) *HashReader {
	return &HashReader{ctx: ctx, db: db, tree: tree}
}

// span is a run of hashes within one tile: indexes from lo to before hi, counted in the hashes at the bottom of the
// tiles of this level (0: leaves, 1: roots of full tiles of level 0, ...).
type span struct {
	level  int
	lo, hi int64
}

// ReadHashes returns the hashes with these stored indexes (tlog.StoredHashIndex): each is the root over a run of hashes of
// one tile.
func (r *HashReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	spans := make([]span, len(indexes))
	for i, index := range indexes {
		if index < 0 {
			return nil, fmt.Errorf("reading hashes: %w: no hash has the index %d", ErrMissing, index)
		}
		spans[i] = spanOf(index)
	}
	runs, err := r.read(spans)
	if err != nil {
		return nil, err
	}
	out := make([]tlog.Hash, len(runs))
	for i, run := range runs {
		out[i] = fold(run)
	}
	return out, nil
}

// spanOf is the run under a stored index.
func spanOf(index int64) span {
	level, n := tlog.SplitStoredHashIndex(index)
	width := int64(1) << (level % tileHeight)
	return span{level: level / tileHeight, lo: n * width, hi: (n + 1) * width}
}

// fold is the root over a run whose length is a power of two. It uses the run's memory.
func fold(run []tlog.Hash) tlog.Hash {
	for len(run) > 1 {
		for i := range len(run) / 2 {
			run[i] = tlog.NodeHash(run[2*i], run[2*i+1])
		}
		run = run[:len(run)/2]
	}
	return run[0]
}

// Height is 8.
func (r *HashReader) Height() int { return tileHeight }

// ReadTiles returns the data of tiles of height 8.
func (r *HashReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	spans := make([]span, len(tiles))
	for i, t := range tiles {
		if t.H != tileHeight || t.L < 0 || t.L > 7 || t.N < 0 || t.N > MaxSize || t.W < 1 || t.W > tileWidth {
			return nil, fmt.Errorf("reading tiles: %w: there is no tile of height %d, level %d, index %d and width %d", ErrMissing, t.H, t.L, t.N, t.W)
		}
		spans[i] = span{level: t.L, lo: t.N * tileWidth, hi: t.N*tileWidth + int64(t.W)}
	}
	runs, err := r.read(spans)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(runs))
	for i, run := range runs {
		for _, h := range run {
			out[i] = append(out[i], h[:]...)
		}
	}
	return out, nil
}

// SaveTiles does nothing.
func (r *HashReader) SaveTiles([]tlog.Tile, [][]byte) {}

// read returns the hashes of every span.
func (r *HashReader) read(spans []span) ([][]tlog.Hash, error) {
	levels, los, his := make([]int32, len(spans)), make([]int64, len(spans)), make([]int64, len(spans))
	for i, s := range spans {
		levels[i], los[i], his[i] = int32(s.level), s.lo, s.hi
	}
	rows, err := r.db.Query(r.ctx, hashesSQL, r.tree, levels, los, his)
	if err != nil {
		return nil, fmt.Errorf("reading the tree's hashes: %w", cause(err))
	}
	var number int
	var count int64
	var data []byte
	out := make([][]tlog.Hash, len(spans))
	if _, err := pgx.ForEachRow(rows, []any{&number, &count, &data}, func() error {
		s := spans[number-1]
		if count != s.hi-s.lo || int64(len(data)) != count*tlog.HashSize {
			return fmt.Errorf("%w: tree %d has %d of the %d hashes of level %d from index %d", ErrMissing, r.tree, count, s.hi-s.lo, s.level, s.lo)
		}
		out[number-1] = split(data)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading the tree's hashes: %w", cause(err))
	}
	return out, nil
}

// split takes hashes that were joined apart.
func split(data []byte) []tlog.Hash {
	out := make([]tlog.Hash, len(data)/tlog.HashSize)
	for i := range out {
		copy(out[i][:], data[i*tlog.HashSize:])
	}
	return out
}
