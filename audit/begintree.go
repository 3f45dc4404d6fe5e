package audit

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed queries/begin_tree.sql
var beginTreeSQL string

// BeginTree begins the tree of an epoch within the caller's transaction, with an entry that the same transaction has
// appended as its first leaf: whoever reads the new tree reads first why there is one. origin is what its checkpoints
// begin with (tree.Origin). An error leaves tx aborted.
func BeginTree(ctx context.Context, tx pgx.Tx, epoch uuid.UUID, origin string, first uuid.UUID) error {
	tag, err := tx.Exec(ctx, beginTreeSQL, epoch, origin, first)
	if err != nil {
		return fmt.Errorf("beginning the tree of epoch %s: %w", epoch, cause(err))
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("beginning the tree of epoch %s: entry %s was not appended in this transaction", epoch, first)
	}
	return nil
}
