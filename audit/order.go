package audit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed queries/leaves.sql
var leavesSQL string

//go:embed queries/checkpoints.sql
var checkpointsSQL string

// ErrNotSequenced is returned by PlaceOf for a row that waits for its place in the tree. While the sequencer lives, that
// takes about a second.
var ErrNotSequenced = errors.New("it has no place in the tree yet")

// Place is a leaf's place in the order of the book: trees one after the other, each by its index. The zero Place is
// before all. A place is for ever, and what is sequenced later has a later one, so that who goes on after a place
// neither repeats nor skips anything, whatever commits late.
type Place struct {
	Tree  int32
	Index int64
}

// Placed is a row of the book at its place.
type Placed struct {
	Place
	ID         uuid.UUID
	RecordedAt time.Time // zero when the leaf says a time that no row has
	Leaf       [32]byte  // as the tree has it
	// Entry or Outcome is the row, without its last outcome; neither when the row is not in the book (its month was
	// detached, or somebody took it out).
	Entry   *Row
	Outcome *OutcomeRow
}

// OrderPage says which part of the order is wanted.
type OrderPage struct {
	After    Place
	Limit    int  // leaves looked through; 0 is DefaultLimit, at most MaxOrder
	Records  bool // with the records of entries; outcomes have theirs always
	Outcomes bool // outcomes too, not entries alone
}

// MaxOrder is how many leaves InOrder looks through at most.
const MaxOrder = 10000

// InOrder returns what follows a place in the order of the tree, and the Place to go on after: that of the last leaf it
// looked through, or After when nothing follows yet. Rows that the filter does not want are left out; a filter wants no
// outcome, so that those come with the zero Filter alone, and so do rows that are missing.
func (r *Reader) InOrder(ctx context.Context, f Filter, p OrderPage) ([]Placed, Place, error) {
	if err := f.Validate(); err != nil {
		return nil, p.After, fmt.Errorf("reading in order: %w", err)
	}
	if p.Limit < 0 || p.Limit > MaxOrder {
		return nil, p.After, fmt.Errorf("reading in order: limit: 1 to %d", MaxOrder)
	}
	if p.Limit == 0 {
		p.Limit = DefaultLimit
	}
	leaves, entries, outcomes, err := r.leaves(ctx, p)
	if err != nil || len(leaves) == 0 {
		return nil, p.After, err
	}
	whole := f.zero()
	found := make(map[uuid.UUID]*Row, len(entries.ids))
	if err := r.entriesAt(ctx, f, entries, p.Records, found); err != nil {
		return nil, p.After, err
	}
	said := map[uuid.UUID]*OutcomeRow{}
	if whole && p.Outcomes {
		if err := r.outcomesAt(ctx, outcomes, said); err != nil {
			return nil, p.After, err
		}
	}
	out := make([]Placed, 0, len(leaves))
	for _, l := range leaves {
		switch l.Entry, l.Outcome = found[l.ID], said[l.ID]; {
		case l.Entry != nil, l.Outcome != nil, whole && (l.source == "entry" || p.Outcomes):
			out = append(out, l.Placed)
		}
	}
	return out, leaves[len(leaves)-1].Place, nil
}

// Head is the place of the last leaf; the zero Place of an empty book.
func (r *Reader) Head(ctx context.Context) (Place, error) {
	var p Place
	err := r.pool.QueryRow(ctx, "select tree, index from audit.leaves order by tree desc, index desc limit 1").Scan(&p.Tree, &p.Index)
	if errors.Is(err, pgx.ErrNoRows) {
		return Place{}, nil
	}
	if err != nil {
		return Place{}, fmt.Errorf("reading the last place: %w", cause(err))
	}
	return p, nil
}

// PlaceOf is the place of an entry or outcome: ErrNotSequenced while it waits for one, ErrNotFound when it is not in the
// book.
func (r *Reader) PlaceOf(ctx context.Context, id uuid.UUID) (Place, error) {
	var p Place
	err := r.pool.QueryRow(ctx, "select tree, index from audit.leaves where id = $1", id).Scan(&p.Tree, &p.Index)
	if err == nil {
		return p, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Place{}, fmt.Errorf("reading a place: %w", cause(err))
	}
	var waits bool
	if err := r.pool.QueryRow(ctx, "select exists (select from audit.entries where id = $1)", id).Scan(&waits); err != nil {
		return Place{}, fmt.Errorf("reading a place: %w", cause(err))
	}
	if waits {
		return Place{}, ErrNotSequenced
	}
	return Place{}, ErrNotFound
}

// StoredCheckpoint is a signed head of a tree as the database has it. Nothing of it is checked: the note is what counts,
// and audit/tree opens it.
type StoredCheckpoint struct {
	Tree     int32
	Origin   string
	Epoch    uuid.UUID
	Size     int64
	Root     []byte
	SignedAt time.Time // database clock, UTC
	Note     string
}

// CheckpointsBefore returns up to limit checkpoints, newest first, that are older than (tree, size); (0, 0) begins.
func (r *Reader) CheckpointsBefore(ctx context.Context, tree int32, size int64, limit int) ([]StoredCheckpoint, error) {
	if tree == 0 {
		tree = math.MaxInt32
	}
	rows, err := r.pool.Query(ctx, checkpointsSQL, tree, size, limit)
	if err != nil {
		return nil, fmt.Errorf("listing checkpoints: %w", cause(err))
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (StoredCheckpoint, error) {
		var c StoredCheckpoint
		err := row.Scan(&c.Tree, &c.Origin, &c.Epoch, &c.Size, &c.Root, &c.SignedAt, &c.Note)
		c.SignedAt = c.SignedAt.UTC()
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing checkpoints: %w", cause(err))
	}
	return list, nil
}
