package audit

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lateTx is a transaction whose BEGIN goes out in one message with whatever is sent first, which saves a round trip of the
// three that a group commit would take. It is for one goroutine. Nested transactions and large objects it has not.
type lateTx struct {
	pgx.Tx // nil: what is not below is not there
	conn   *pgx.Conn
	begun  bool
}

// begin sends BEGIN alone, where nothing is there to send it with.
func (t *lateTx) begin(ctx context.Context) error {
	if t.begun {
		return nil
	}
	_, err := t.conn.Exec(ctx, "begin")
	t.begun = err == nil
	return err
}

// SendBatch sends BEGIN before what is in the batch, if it has not been sent. The answers are those of the batch.
func (t *lateTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if t.begun {
		return t.conn.SendBatch(ctx, b)
	}
	var all pgx.Batch
	all.Queue("begin")
	all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	t.begun = true
	answers := t.conn.SendBatch(ctx, &all)
	// An error of BEGIN is the error of everything that follows: whoever reads the next answer gets it.
	_, _ = answers.Exec()
	return answers
}

func (t *lateTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.begin(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.conn.Exec(ctx, sql, args...)
}

func (t *lateTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	return t.conn.Query(ctx, sql, args...)
}

func (t *lateTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.begin(ctx); err != nil {
		return failedRow{err}
	}
	return t.conn.QueryRow(ctx, sql, args...)
}

// Rollback ends the transaction if one was begun.
func (t *lateTx) Rollback(ctx context.Context) error {
	if !t.begun {
		return nil
	}
	_, err := t.conn.Exec(ctx, "rollback")
	return err
}

// Commit is what only the Book does, with the rows.
func (t *lateTx) Commit(context.Context) error {
	return errors.New("the book commits, not its guard")
}

// Conn is the connection.
func (t *lateTx) Conn() *pgx.Conn { return t.conn }

// failedRow is the row of a query that was not sent.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
