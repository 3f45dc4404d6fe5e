package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ending is how a transaction ended.
type ending int

const (
	committed ending = iota // every item has its receipt
	notBegun                // no connection, or it broke before a row was sent: nothing is written
	unguarded               // the guard failed: nothing is written
	refused                 // the database refused a row, and so did not see COMMIT: nothing is written
	unknown                 // COMMIT was sent and has no answer
)

// transaction is one try to write items.
type transaction struct {
	book  *Book
	items []*item // run takes out those it answered as stale
	pid   uint32  // the server's process, once begun
}

// run begins, takes the guard, and sends all rows together with COMMIT in one message.
func (t *transaction) run(ctx context.Context) (ending, error) {
	begun := time.Now()
	conn, err := t.book.cfg.Pool.Acquire(ctx)
	if err != nil {
		return notBegun, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return notBegun, fmt.Errorf("beginning: %w", cause(err))
	}
	t.pid = conn.Conn().PgConn().PID()
	if err := t.guard(ctx, tx); err != nil {
		undo(ctx, tx)
		return unguarded, fmt.Errorf("taking the authority lock: %w", cause(err))
	}
	if len(t.items) == 0 {
		undo(ctx, tx)
		return committed, nil
	}

	// If the process ends from here on, the rows are in the book or not, and nobody was told that they are.
	receipts, err := t.send(ctx, tx)
	var server *pgconn.PgError
	switch {
	case err == nil:
	case pgconn.SafeToRetry(err):
		return notBegun, fmt.Errorf("sending rows: %w", err)
	case errors.As(err, &server) && receipts == nil:
		undo(ctx, tx)
		return refused, fmt.Errorf("inserting rows: %w", cause(err))
	default:
		// Closing ends the server's process, so that what it did can be known.
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return unknown, errors.Join(fmt.Errorf("committing: %w", cause(err)), conn.Conn().Close(stop))
	}
	t.book.committed(len(t.items), time.Since(begun))
	for _, it := range t.items {
		t.book.answer(it, receipts[it.id], nil)
	}
	return committed, nil
}

// guard takes the authority lock if there are entries, and answers those judged at another version.
func (t *transaction) guard(ctx context.Context, tx pgx.Tx) error {
	entries := false
	for _, it := range t.items {
		entries = entries || it.guarded
	}
	if !entries {
		return nil
	}
	current, err := t.book.cfg.Guard(ctx, tx)
	if err != nil {
		return err
	}
	live := make([]*item, 0, len(t.items))
	for _, it := range t.items {
		if it.judged && it.version != current {
			t.book.answer(it, Receipt{}, &StaleError{Current: current})
		} else {
			live = append(live, it)
		}
	}
	t.items = live
	return nil
}

// send returns no receipts and the database's error if a row was refused: the server then skips what follows in the
// message, COMMIT included. With receipts, or with another error, COMMIT may have happened.
func (t *transaction) send(ctx context.Context, tx pgx.Tx) (map[uuid.UUID]Receipt, error) {
	var batch pgx.Batch
	var entries, searched, outcomes []statement
	for _, it := range t.items {
		switch {
		case it.outcome:
			outcomes = append(outcomes, it.statement)
		case it.words:
			searched = append(searched, it.statement)
		default:
			entries = append(entries, it.statement)
		}
	}
	queueRows(&batch, entries, insertEntries)
	queueRows(&batch, searched, insertSearched)
	queueRows(&batch, outcomes, insertOutcomes)
	statements := batch.Len()
	batch.Queue("commit")
	answers := tx.SendBatch(ctx, &batch)
	receipts := make(map[uuid.UUID]Receipt, len(t.items))
	for range statements {
		rows, err := answers.Query()
		if err == nil {
			err = collect(rows, receipts)
		}
		if err != nil {
			_ = answers.Close() // says the same error again
			return nil, err
		}
	}
	tag, err := answers.Exec()
	if closing := answers.Close(); err == nil && tag.String() != "COMMIT" {
		return receipts, errors.Join(fmt.Errorf("the database answered %q to COMMIT", tag), closing)
	}
	if err == nil && len(receipts) != len(t.items) {
		return receipts, fmt.Errorf("the database returned %d receipts for %d rows", len(receipts), len(t.items))
	}
	return receipts, err
}

// queueRows queues one statement for all rows, the cheaper one if there is one row only.
func queueRows(batch *pgx.Batch, rows []statement, many string) {
	switch len(rows) {
	case 0:
	case 1:
		sql, args := rows[0].sql()
		batch.Queue(sql, args...)
	default:
		batch.Queue(many, transpose(rows)...)
	}
}

func collect(rows pgx.Rows, into map[uuid.UUID]Receipt) error {
	defer rows.Close()
	for rows.Next() {
		r, err := scanReceipt(rows)
		if err != nil {
			return err
		}
		into[r.ID] = r
	}
	return rows.Err()
}

// undo rolls back. A connection that cannot is closed by the pool, and then the database rolls back.
func undo(ctx context.Context, tx pgx.Tx) {
	_ = tx.Rollback(ctx)
}
