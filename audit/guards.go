package audit

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/guards.sql
var guardsSQL string

// CheckGuards errs unless every table of the book, and every partition by its own name, refuses UPDATE, DELETE and
// TRUNCATE by a trigger that is always on; the error names each that does not. Months that were detached are not asked
// about. A trigger that is off now may have been off before: the tree, not this, says whether a row was changed.
func CheckGuards(ctx context.Context, db querier) error {
	return checkGuards(ctx, db, false)
}

func checkGuards(ctx context.Context, db querier, detached bool) error {
	rows, err := db.Query(ctx, guardsSQL, detached)
	if err != nil {
		return fmt.Errorf("reading the book's triggers: %w", err)
	}
	var (
		missing     []string
		table, what string
	)
	if _, err := pgx.ForEachRow(rows, []any{&table, &what}, func() error {
		missing = append(missing, what+" of audit."+table)
		return nil
	}); err != nil {
		return fmt.Errorf("reading the book's triggers: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no trigger that is always on refuses %s: find out who took it away, run `bronzeward decisions verify`, and enable it again as bronzeward_owner",
			strings.Join(missing, ", "))
	}
	return nil
}
