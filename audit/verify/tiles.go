package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// tilePage is how many roots are read at once.
const tilePage = 4096

// tileReader gives the stored roots of one tree: level 0 by and by, the few of higher levels at once.
type tileReader struct {
	conn  *pgx.Conn
	tree  int32
	page  []storedTile
	after int64 // index of the last one read
	ended bool
	above map[[2]int64]hash // by level and index; those asked for are taken out
	read  int64
}

type storedTile struct {
	index int64
	root  hash
}

func openTiles(ctx context.Context, conn *pgx.Conn, tree int32) (*tileReader, error) {
	t := &tileReader{conn: conn, tree: tree, after: -1, above: map[[2]int64]hash{}}
	rows, err := conn.Query(ctx, "select level, index, root from audit.tiles where tree = $1 and level > 0", tree)
	if err != nil {
		return nil, fmt.Errorf("reading tiles: %w", cause(err))
	}
	var level int16
	var index int64
	var root []byte
	_, err = pgx.ForEachRow(rows, []any{&level, &index, &root}, func() error {
		h, _ := hashOf(root) // another length is a root that no tile has
		t.above[[2]int64{int64(level), index}] = h
		t.read++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading tiles: %w", cause(err))
	}
	return t, nil
}

// peek is the next stored root of level 0, nil after the last.
func (t *tileReader) peek(ctx context.Context) (*storedTile, error) {
	if len(t.page) == 0 && !t.ended {
		rows, err := t.conn.Query(ctx, "select index, root from audit.tiles where tree = $1 and level = 0 and index > $2 order by index limit $3", t.tree, t.after, tilePage)
		if err != nil {
			return nil, fmt.Errorf("reading tiles: %w", cause(err))
		}
		t.page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (storedTile, error) {
			var s storedTile
			var root []byte
			err := row.Scan(&s.index, &root)
			s.root, _ = hashOf(root)
			return s, err
		})
		if err != nil {
			return nil, fmt.Errorf("reading tiles: %w", cause(err))
		}
		t.ended = len(t.page) < tilePage
		t.read += int64(len(t.page))
		if n := len(t.page); n > 0 {
			t.after = t.page[n-1].index
		}
	}
	if len(t.page) == 0 {
		return nil, nil
	}
	return &t.page[0], nil
}

// take is the stored root of a tile of level 0, nil if there is none. Tiles are asked for in order.
func (t *tileReader) take(ctx context.Context, index int64) (*hash, error) {
	for {
		s, err := t.peek(ctx)
		if err != nil || s == nil || s.index > index {
			return nil, err
		}
		t.page = t.page[1:]
		if s.index == index {
			return &s.root, nil
		}
	}
}

// upper is the stored root of a tile over tiles, nil if there is none.
func (t *tileReader) upper(level int, index int64) *hash {
	k := [2]int64{int64(level), index}
	h, ok := t.above[k]
	if !ok {
		return nil
	}
	delete(t.above, k)
	return &h
}

// rest adds a finding for each tile that nobody asked for: its leaves are not here.
func (t *tileReader) rest(ctx context.Context, found *findings, about func(level int, index int64, text string) Finding) error {
	const text = "leaves that this tile covers are not here"
	add := func(level, index int64) {
		f := about(int(level), index, text)
		f.Differs, f.Others = nil, nil
		found.add(f)
	}
	for {
		s, err := t.peek(ctx)
		if err != nil {
			return err
		}
		if s == nil {
			break
		}
		t.page = t.page[1:]
		add(0, s.index)
	}
	for k := range t.above {
		add(k[0], k[1])
	}
	return nil
}
