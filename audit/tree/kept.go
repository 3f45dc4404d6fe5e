package tree

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/signed_under.sql
var signedUnderSQL string

//go:embed queries/recorded_at.sql
var recordedAtSQL string

// SignedUnder is the size of the largest checkpoint of the tree that covers no more than size leaves; 0 when there is
// none.
func SignedUnder(ctx context.Context, db DB, tree int32, size int64) (signed int64, err error) {
	if err := db.QueryRow(ctx, signedUnderSQL, tree, size).Scan(&signed); err != nil {
		return 0, fmt.Errorf("reading checkpoints: %w", cause(err))
	}
	return signed, nil
}

// RecordedAt is when the row at an index of the tree was recorded, UTC; nil when the tree has no such leaf.
func RecordedAt(ctx context.Context, db DB, tree int32, index int64) (*time.Time, error) {
	var at time.Time
	err := db.QueryRow(ctx, recordedAtSQL, tree, index).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no such leaf is no error
	}
	if err != nil {
		return nil, fmt.Errorf("reading a leaf: %w", cause(err))
	}
	at = at.UTC()
	return &at, nil
}
