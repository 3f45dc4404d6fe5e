package tree

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
)

// ErrNotFound is returned for what is not in the book: an entry, a tree, a checkpoint.
var ErrNotFound = audit.ErrNotFound

//go:embed queries/checkpoints.sql
var checkpointsSQL string

//go:embed queries/latest.sql
var latestSQL string

//go:embed queries/trees.sql
var treesSQL string

// Tree is a row of audit.trees.
type Tree struct {
	Tree    int32 // 1 is the first
	Epoch   uuid.UUID
	Origin  string
	BeganAt time.Time // database clock, UTC
	Size    int64     // leaves it has now
}

// Stored is a row of audit.checkpoints. Its note is well formed and says what the columns say; its signature was not
// checked: OpenCheckpoint does that.
type Stored struct {
	Tree     int32
	SignedAt time.Time // database clock when it was stored, UTC
	Checkpoint
}

// Trees are all trees, oldest first, without regard to the epoch in force.
func Trees(ctx context.Context, db DB) ([]Tree, error) {
	rows, err := db.Query(ctx, treesSQL)
	if err != nil {
		return nil, fmt.Errorf("reading trees: %w", cause(err))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Tree, error) {
		var t Tree
		err := row.Scan(&t.Tree, &t.Epoch, &t.Origin, &t.BeganAt, &t.Size)
		t.BeganAt = t.BeganAt.UTC()
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading trees: %w", cause(err))
	}
	return out, nil
}

// Latest is the largest checkpoint of the tree, or ErrNotFound.
func Latest(ctx context.Context, db DB, tree int32) (Stored, error) {
	rows, err := db.Query(ctx, latestSQL, tree)
	if err != nil {
		return Stored{}, fmt.Errorf("reading the last checkpoint: %w", cause(err))
	}
	s, err := pgx.CollectExactlyOneRow(rows, scanStored)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stored{}, fmt.Errorf("reading the last checkpoint of tree %d: %w", tree, errNoCheckpoint)
	}
	if err != nil {
		return Stored{}, fmt.Errorf("reading the last checkpoint: %w", cause(err))
	}
	return s, nil
}

// errNoCheckpoint is ErrNotFound in the words of this case.
var errNoCheckpoint = notFound("it has none yet")

type notFound string

func (e notFound) Error() string        { return string(e) }
func (e notFound) Is(target error) bool { return target == ErrNotFound }

// Checkpoints are up to limit checkpoints of the tree with a size over after, in the order of size.
func Checkpoints(ctx context.Context, db DB, tree int32, after int64, limit int) ([]Stored, error) {
	rows, err := db.Query(ctx, checkpointsSQL, tree, after, limit)
	if err != nil {
		return nil, fmt.Errorf("reading checkpoints: %w", cause(err))
	}
	out, err := pgx.CollectRows(rows, scanStored)
	if err != nil {
		return nil, fmt.Errorf("reading checkpoints: %w", cause(err))
	}
	return out, nil
}

// scanStored reads a row of queries/checkpoints.sql and holds its note to its columns.
func scanStored(row pgx.CollectableRow) (Stored, error) {
	var s Stored
	var size int64
	var root []byte
	var text, origin string
	if err := row.Scan(&s.Tree, &size, &root, &s.SignedAt, &text, &origin); err != nil {
		return Stored{}, err
	}
	s.SignedAt = s.SignedAt.UTC()
	c, err := ReadUnverified([]byte(text))
	if err != nil {
		return Stored{}, fmt.Errorf("checkpoint %d of tree %d: %w", size, s.Tree, err)
	}
	if c.Size != size || !bytes.Equal(c.Root[:], root) || c.Origin != origin {
		return Stored{}, fmt.Errorf("checkpoint %d of tree %d: %w: its note does not say what its columns say", size, s.Tree, ErrCheckpoint)
	}
	s.Checkpoint = c
	return s, nil
}

// Consistency is the proof that the tree at newSize begins with the tree at oldSize. Both must be at least 1.
func Consistency(ctx context.Context, db DB, tree int32, oldSize, newSize int64) (tlog.TreeProof, error) {
	if oldSize < 1 || newSize < oldSize || newSize > MaxSize {
		return nil, fmt.Errorf("proving consistency: there is none from %d to %d leaves", oldSize, newSize)
	}
	p, err := tlog.ProveTree(newSize, oldSize, Hashes(ctx, db, tree))
	if err != nil {
		return nil, fmt.Errorf("proving consistency: %w", err)
	}
	return p, nil
}

// Errors of CheckConsistency; one of them is in the chain.
var (
	// ErrRolledBack means that the newer checkpoint covers less than the older one.
	ErrRolledBack = errors.New("the book was rolled back")
	// ErrForked means that the newer tree does not begin with the older one.
	ErrForked = errors.New("the book was forked")
	// ErrAbandoned means that the tree is of an epoch that ended with a recovery, and is not what was signed of it: it stays
	// as it is.
	ErrAbandoned = errors.New("the tree was left with its epoch")
	// ErrOtherTree means that the checkpoints are of different installations or epochs, which have no common tree.
	ErrOtherTree = errors.New("another tree")
)

// CheckConsistency holds a newer checkpoint to an older one that was kept. For two of the same size the proof is empty.
func CheckConsistency(older, newer Checkpoint, proof tlog.TreeProof) error {
	switch {
	case older.Origin != newer.Origin:
		return fmt.Errorf("comparing checkpoints: %w: one is of %s, the other of %s", ErrOtherTree, older.Origin, newer.Origin)
	case older.Size < 1 || newer.Size < 1 || older.Size > MaxSize || newer.Size > MaxSize:
		return fmt.Errorf("comparing checkpoints: %w: their sizes are %d and %d", ErrCheckpoint, older.Size, newer.Size)
	case newer.Size < older.Size:
		return fmt.Errorf("comparing checkpoints: %w: it had %d leaves and now has %d", ErrRolledBack, older.Size, newer.Size)
	case newer.Size == older.Size && newer.Root != older.Root:
		return fmt.Errorf("comparing checkpoints: %w: there are two roots of %d leaves", ErrForked, older.Size)
	}
	if err := tlog.CheckTree(proof, newer.Size, newer.Root, older.Size, older.Root); err != nil {
		return fmt.Errorf("comparing checkpoints: %w: the tree of %d leaves is not shown to begin with that of %d", ErrForked, newer.Size, older.Size)
	}
	return nil
}

// cause makes an error of the database fit to be logged: without message and detail, which quote rows.
func cause(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	return &audit.RowError{SQLState: pg.Code, Constraint: pg.ConstraintName, Table: pg.TableName}
}
