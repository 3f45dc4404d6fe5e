package control

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
)

// minServer is the oldest PostgreSQL served. Its features are all in 15; older ones are untested.
const minServer = 150000

const (
	// idleWithin ends a session that stops within a transaction: a replica that is paused, or
	// whose host is gone, would hold the authority lock's shared side, and no revocation could
	// return. Far above the judge's time budget.
	idleWithin = "10s"
	// lockWithin ends a wait for a lock: above idleWithin, so that who waits for a stuck
	// session outlives it.
	lockWithin = "15s"
)

// prepareConn makes a commit on this connection durable before it is answered, and bounds how
// long it may hold or wait for locks. A stronger synchronous_commit than "on" is kept. The
// simple protocol is used because nothing has been found out yet about what is in between.
func prepareConn(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `select set_config('synchronous_commit', 'on', false)
			where current_setting('synchronous_commit') not in ('on', 'remote_apply');
		set idle_in_transaction_session_timeout = '`+idleWithin+`';
		set lock_timeout = '`+lockWithin+`'`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return fmt.Errorf("preparing the connection: %w", err)
	}
	return nil
}

// checkServer refuses what cannot keep a commit or a lock, and warns about what may lose
// commits in a failover.
func (s *Store) checkServer(ctx context.Context) error {
	if err := s.checkSession(ctx); err != nil {
		return err
	}
	var (
		version          int
		fsync, fullPages string
		asynchronous     int
	)
	if err := s.pool.QueryRow(ctx, sqlServer).Scan(&version, &fsync, &fullPages, &asynchronous); err != nil {
		return unavailable("reading the server's settings", err)
	}
	switch {
	case version < minServer:
		return fmt.Errorf("%w: PostgreSQL %d is too old; 15 or newer is needed", ErrUnsafeDatabase, version/10000)
	case fsync != "on":
		return fmt.Errorf("%w: fsync is %s, so a committed decision may be lost in a crash; set fsync = on", ErrUnsafeDatabase, fsync)
	}
	if fullPages != "on" {
		s.log.WarnContext(ctx, "full_page_writes is off: a crash may tear pages, unless the file system cannot")
	}
	if asynchronous > 0 {
		s.log.WarnContext(ctx, "standbys follow asynchronously: a failover may lose decisions that were answered",
			"standbys", asynchronous)
	}
	return nil
}

// checkSession finds a proxy that pools by transaction: behind one, a session is not one
// backend, so that session locks, settings and LISTEN get lost. One session takes a lock,
// another keeps a backend busy, and the first must still be where it was. The lock's key is
// random, so that nobody can hold it beforehand.
func (s *Store) checkSession(ctx context.Context) error {
	a, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return unavailable("checking the session", err)
	}
	defer closeNow(ctx, a)
	b, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return unavailable("checking the session", err)
	}
	defer closeNow(ctx, b)

	var first, busy, second int
	var taken, held bool
	key := rand.Int64()
	// The simple protocol sends one message each, which is what such a proxy counts in.
	if err := a.QueryRow(ctx, `select pg_backend_pid(), pg_try_advisory_lock($1)`,
		pgx.QueryExecModeSimpleProtocol, key).Scan(&first, &taken); err != nil {
		return unavailable("checking the session", err)
	}
	tx, err := b.Begin(ctx)
	if err != nil {
		return unavailable("checking the session", err)
	}
	err = tx.QueryRow(ctx, "select pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&busy)
	if err == nil {
		err = a.QueryRow(ctx, `select pg_backend_pid(), pg_advisory_unlock($1)`,
			pgx.QueryExecModeSimpleProtocol, key).Scan(&second, &held)
	}
	_ = tx.Rollback(ctx)
	if err != nil {
		return unavailable("checking the session", err)
	}
	if busy == first || second != first || !taken || !held {
		return fmt.Errorf("%w: a proxy that pools by transaction is in the way; connect directly, or pool by session",
			ErrUnsafeDatabase)
	}
	return nil
}

// closeNow closes also when the caller has gone.
func closeNow(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	_ = conn.Close(ctx)
}
