package tree

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
)

//go:embed queries/records.sql
var recordsSQL string

// ErrNotSigned means that the entry, or one of its outcomes, is in the book and not under a checkpoint yet. While the
// sequencer lives that takes seconds; then the same call succeeds.
var ErrNotSigned = errors.New("not under a checkpoint yet")

// ErrBroken means that the book contradicts itself: a record has not its leaf, or the tree has not its root. `decisions
// verify` says where.
var ErrBroken = errors.New("the book contradicts itself")

// Prove makes the proof of an entry and of all its outcomes under the last checkpoint of each tree they are in. Errors
// are ErrNotFound, ErrNotSigned, ErrBroken, or the database's. What it returns was checked, all but the signature.
//
// Its statements need no common snapshot: rows, leaves and checkpoints never change. An outcome that commits meanwhile is
// in the next proof.
func Prove(ctx context.Context, db DB, entryID uuid.UUID) (Proof, error) {
	records, err := readRecords(ctx, db, entryID)
	if err != nil {
		return Proof{}, fmt.Errorf("proving entry %s: %w", entryID, err)
	}
	p := Proof{V: ProofVersion, Checkpoints: []string{}, Outcomes: []Inclusion{}}
	var checkpoints []Checkpoint
	places := map[int32]int{} // tree: place in checkpoints
	hashes := map[int32]*gatherer{}
	for i, r := range records {
		place, ok := places[r.tree]
		if !ok {
			stored, err := Latest(ctx, db, r.tree)
			if errors.Is(err, ErrNotFound) {
				return Proof{}, fmt.Errorf("proving entry %s: %w: try again in some seconds", entryID, ErrNotSigned)
			}
			if err != nil {
				return Proof{}, fmt.Errorf("proving entry %s: %w", entryID, err)
			}
			place = len(checkpoints)
			places[r.tree] = place
			checkpoints = append(checkpoints, stored.Checkpoint)
			p.Checkpoints = append(p.Checkpoints, string(stored.Note))
			hashes[r.tree] = &gatherer{from: Hashes(ctx, db, r.tree)}
		}
		c := checkpoints[place]
		if r.index >= c.Size {
			return Proof{}, fmt.Errorf("proving entry %s: %w: %s has index %d, the last checkpoint covers %d leaves; try again in some seconds",
				entryID, ErrNotSigned, which(i), r.index, c.Size)
		}
		// What the paths of all records take is read at once.
		if _, err := tlog.ProveRecord(c.Size, r.index, hashes[r.tree]); err != nil && !errors.Is(err, errGathered) {
			return Proof{}, fmt.Errorf("proving entry %s: %w", entryID, err)
		}
	}
	for _, h := range hashes {
		if err := h.read(); err != nil {
			return Proof{}, fmt.Errorf("proving entry %s: %w", entryID, err)
		}
	}
	for i, r := range records {
		place := places[r.tree]
		c := checkpoints[place]
		in := Inclusion{Record: string(r.record), RecordedAt: r.recordedAt.Format(timeFormat), Leaf: r.leaf, Checkpoint: place, Index: r.index}
		if in.Path, err = tlog.ProveRecord(c.Size, r.index, hashes[r.tree]); err != nil {
			return Proof{}, fmt.Errorf("proving entry %s: %w", entryID, err)
		}
		if _, err := in.open(checkpoints); err != nil {
			return Proof{}, fmt.Errorf("proving entry %s, %s: %w: %w", entryID, which(i), ErrBroken, err)
		}
		if i == 0 {
			p.Entry = in
		} else {
			p.Outcomes = append(p.Outcomes, in)
		}
	}
	return p, nil
}

// sequenced is a row of queries/records.sql that has its place.
type sequenced struct {
	recordedAt time.Time
	record     []byte
	tree       int32
	index      int64
	leaf       tlog.Hash
}

// readRecords returns the entry, then its outcomes. Each has its leaf.
func readRecords(ctx context.Context, db DB, entryID uuid.UUID) ([]sequenced, error) {
	rows, err := db.Query(ctx, recordsSQL, entryID)
	if err != nil {
		return nil, fmt.Errorf("reading the records: %w", cause(err))
	}
	unplaced, foundEntry := false, false
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (sequenced, error) {
		var s sequenced
		var entry bool
		var tree *int32
		var index *int64
		var leaf []byte
		if err := row.Scan(&entry, &s.recordedAt, &s.record, &tree, &index, &leaf); err != nil {
			return s, err
		}
		foundEntry = foundEntry || entry
		s.recordedAt = s.recordedAt.UTC()
		if tree == nil || index == nil {
			unplaced = true
			return s, nil
		}
		s.tree, s.index = *tree, *index
		copy(s.leaf[:], leaf)
		if audit.Leaf(s.record, s.recordedAt) != s.leaf || !utf8.Valid(s.record) {
			return s, fmt.Errorf("%w: the record at index %d of tree %d has another leaf", ErrBroken, s.index, s.tree)
		}
		return s, nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the records: %w", cause(err))
	case !foundEntry:
		return nil, ErrNotFound
	case unplaced:
		return nil, fmt.Errorf("%w: a record waits for its place; try again in some seconds", ErrNotSigned)
	}
	return out, nil
}
