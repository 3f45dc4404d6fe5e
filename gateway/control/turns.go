package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	// migrationLock is the key of the session advisory lock by which migrations take turns. Any
	// login may hold it, so that the wait for it is bounded.
	migrationLock = int64(4779331608118544)
	// migrateWithin ends a migration's wait for a lock where the connection has no lock_timeout
	// of its own: longer than a migration takes that runs beside this one.
	migrateWithin = "1min"
)

// codeLockTimeout is the database's when lock_timeout has passed.
const codeLockTimeout = "55P03"

// takeTurn waits until no other migration runs, and bounds every wait for a lock on the
// connection. within is that bound; leave ends the turn and takes the bound off again.
func takeTurn(ctx context.Context, conn *pgx.Conn) (within string, leave func() error, err error) {
	var before string
	if err := conn.QueryRow(ctx, "select current_setting('lock_timeout')").Scan(&before); err != nil {
		return "", nil, fmt.Errorf("reading lock_timeout: %w", err)
	}
	within = before
	if within == "0" {
		within = migrateWithin
	}
	if err := boundWaits(ctx, conn, within); err != nil {
		return "", nil, err
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", migrationLock); err != nil {
		err = fmt.Errorf("waiting for another migration: %w", waited(ctx, conn, within, err))
		return "", nil, errors.Join(err, boundWaits(context.WithoutCancel(ctx), conn, before))
	}
	return within, func() error {
		ctx := context.WithoutCancel(ctx)
		_, err := conn.Exec(ctx, "select pg_advisory_unlock($1)", migrationLock)
		return errors.Join(err, boundWaits(ctx, conn, before))
	}, nil
}

// boundWaits sets lock_timeout. It is said again before each part of a migration, because the
// runner resets all settings after each file.
func boundWaits(ctx context.Context, conn *pgx.Conn, within string) error {
	if _, err := conn.Exec(ctx, "select set_config('lock_timeout', $1, false)", within); err != nil {
		return fmt.Errorf("setting lock_timeout: %w", err)
	}
	return nil
}

// waited says what to do about a wait that was ended, and who holds the migrations' lock if
// somebody does. Other errors are given back as they are.
func waited(ctx context.Context, conn *pgx.Conn, within string, err error) error {
	if sqlState(err) != codeLockTimeout {
		return err
	}
	holder := "another session holds a lock that is needed"
	var (
		pid  int
		name string
	)
	if conn.QueryRow(ctx, sqlMigrationLockHolder, migrationLock).Scan(&pid, &name) == nil && pid != int(conn.PgConn().PID()) {
		holder = fmt.Sprintf("session %d of %q holds the migrations' lock", pid, name)
	}
	return fmt.Errorf("%s for longer than %s: end that session (pg_terminate_backend), or give migrate a longer lock_timeout: %w",
		holder, within, err)
}
