package tree

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// RootAt is the root that the tree had at a size, computed from what the database has of it now; ErrMissing when it has
// not so many leaves, or lacks some.
func RootAt(ctx context.Context, db DB, tree int32, size int64) (tlog.Hash, error) {
	if size < 0 || size > MaxSize {
		return tlog.Hash{}, fmt.Errorf("computing a root: %w: there is no tree of %d leaves", ErrMissing, size)
	}
	if size == 0 {
		return tlog.TreeHash(0, nil)
	}
	root, err := tlog.TreeHash(size, Hashes(ctx, db, tree))
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("computing the root of %d leaves: %w", size, err)
	}
	return root, nil
}
