package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
)

// maxTries bounds how often a transaction that lost to another is run again, whole.
const maxTries = 3

// SQLSTATEs that mean something here. Those that begin with BW are raised by our triggers.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeUnique        = "23505"
	codeForeignKey    = "23503"
	codeCheck         = "23514"
	codeGuard         = "BW018"
)

// unavailable wraps a fault of the database, keeping the cause for the log.
func unavailable(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, doing, err)
}

// lostRace is true for errors after which the same transaction may be run again.
func lostRace(err error) bool {
	code := sqlState(err)
	return code == codeSerialization || code == codeDeadlock
}

// sqlState is the database's code, whether it refused us or the book.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	var row *audit.RowError
	if errors.As(err, &row) {
		return row.SQLState
	}
	return ""
}

// knownCommit turns an unanswered COMMIT into what a new connection found: for whatever sends
// nothing out of the house, that is the answer.
func knownCommit(err error) error {
	var unknown *CommitUnknownError
	if !errors.As(err, &unknown) || unknown.Recorded == nil {
		return err
	}
	if *unknown.Recorded {
		return nil
	}
	return unavailable("committing", unknown.Cause)
}

// written names the row of the book by which an unanswered COMMIT is looked up.
type written struct {
	entry   uuid.UUID
	outcome uuid.UUID // zero when the transaction wrote an entry
}

// inTx runs work in one READ COMMITTED transaction and commits it. work names the row of the
// book that it wrote, by which an unanswered COMMIT is looked up. A lost race is run again,
// whole, at most three times. The error of an unanswered COMMIT is *CommitUnknownError.
func (s *Store) inTx(ctx context.Context, work func(tx pgx.Tx) (written, error)) error {
	return s.inTxOf(ctx, s.pool, work)
}

// inTxOf is inTx over the connections of one of the two pools.
func (s *Store) inTxOf(ctx context.Context, pool *pgxpool.Pool, work func(tx pgx.Tx) (written, error)) error {
	var err error
	for range maxTries {
		if err = s.oneTx(ctx, pool, work); err == nil || !lostRace(err) {
			return err
		}
	}
	return unavailable("losing to other transactions", err)
}

func (s *Store) oneTx(ctx context.Context, pool *pgxpool.Pool, work func(tx pgx.Tx) (written, error)) error {
	if s.life.Err() != nil {
		return ErrClosed
	}
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return unavailable("beginning a transaction", err)
	}
	// A rollback after a commit is a no-op; before it, it must happen even when the caller
	// has gone, or the locks would stay until the connection is noticed dead.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CommitWithin)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	row, err := work(tx)
	if err != nil {
		return err
	}
	return s.commit(ctx, tx, row)
}

// commit is synchronous: nil means durable, and *CommitUnknownError means that nobody said.
// It is detached from the caller, because a COMMIT that is cut short is an unknown one.
func (s *Store) commit(ctx context.Context, tx pgx.Tx, row written) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CommitWithin)
	defer cancel()
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" {
		// The server said that it rolled back.
		return err
	}
	return &CommitUnknownError{EntryID: row.entry, Recorded: s.recorded(ctx, row), Cause: err}
}

// recorded looks the row up on a new connection. It first waits, on the authority lock's
// exclusive side, for the transaction that wrote it to end: one that still commits is not
// there yet. Nil means that it could not be found out.
func (s *Store) recorded(ctx context.Context, row written) *bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CommitWithin)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		s.log.WarnContext(ctx, "an unanswered commit could not be looked up", "entry", row.entry, "error", err)
		return nil
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	var found bool
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlLockExclusive); err != nil {
			return err
		}
		if row.outcome != uuid.Nil {
			return tx.QueryRow(ctx, sqlRecordedOutcome, row.entry, row.outcome).Scan(&found)
		}
		return tx.QueryRow(ctx, sqlRecordedEntry, row.entry).Scan(&found)
	})
	if err != nil {
		s.log.WarnContext(ctx, "an unanswered commit could not be looked up", "entry", row.entry, "error", err)
		return nil
	}
	return &found
}

// sqlError turns a refusal by the database into the error a caller acts on.
func sqlError(doing string, err error) error {
	if lostRace(err) {
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%s: %w", doing, ErrNotFound)
		}
		return unavailable(doing, err)
	}
	switch pg.Code {
	case codeUnique:
		return fmt.Errorf("%s: %w: %s", doing, ErrConflict, taken(pg))
	case codeForeignKey:
		return fmt.Errorf("%s: %w (%s)", doing, ErrNotFound, pg.ConstraintName)
	case codeCheck, codeGuard:
		return &GuardError{Guard: pg.ConstraintName, Message: pg.Message}
	default:
		return unavailable(doing, err)
	}
}

// taken says what exists already: the key's values, which are names and addresses people
// gave, without the database's own words around them.
func taken(pg *pgconn.PgError) string {
	_, values, ok := strings.Cut(pg.Detail, ")=(")
	if end := strings.LastIndex(values, ")"); ok && end >= 0 {
		return values[:end]
	}
	return pg.ConstraintName
}
