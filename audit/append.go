package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Append inserts the entry in the caller's transaction, and its id into audit.unsequenced. The Receipt is true only once
// that transaction has committed; if it rolls back, nothing is left. An entry without id gets one.
//
// A row is never refused for the bytes of its strings (see RecordVersion). An error leaves tx aborted; the error names the
// constraint, never a value of the row.
func Append(ctx context.Context, tx pgx.Tx, e Entry) (Receipt, error) {
	s, err := entryStatement(e)
	if err != nil {
		return Receipt{}, err
	}
	return s.run(ctx, tx)
}

// AppendOutcome inserts the outcome in the caller's transaction, as Append does an entry.
func AppendOutcome(ctx context.Context, tx pgx.Tx, o Outcome) (Receipt, error) {
	s, err := outcomeStatement(o)
	if err != nil {
		return Receipt{}, err
	}
	return s.run(ctx, tx)
}

// cause makes an error of the database fit to be logged: its code and constraint, without message and detail, which
// quote the row.
func cause(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	return &RowError{SQLState: pg.Code, Constraint: pg.ConstraintName, Table: pg.TableName}
}

// RowError is the database's refusal of a row. It carries nothing of the row.
type RowError struct {
	SQLState   string // five characters, as in PostgreSQL's appendix A
	Constraint string // name of the constraint, if one refused
	Table      string
}

func (e *RowError) Error() string {
	if e.Constraint != "" {
		return fmt.Sprintf("the database refused it: constraint %s of %s (SQLSTATE %s)", e.Constraint, e.Table, e.SQLState)
	}
	return fmt.Sprintf("the database refused it (SQLSTATE %s)", e.SQLState)
}

// noPartition is whether the row found no partition: the month turned and nobody made the next one.
func (e *RowError) noPartition() bool {
	return e.SQLState == "23514" && e.Constraint == ""
}
