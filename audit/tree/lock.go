package tree

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sequencerLock is the key of the session advisory lock that the one sequencer of a database holds. It is not the key of
// the authority lock, which is the lock of a table (control.lock_authority), nor control's 4779331608118542 to …544.
// Any login may take it. One that is no gateway's holds up nobody: the sequencer then goes on without the lock.
const sequencerLock int64 = 4779331608118545

//go:embed queries/lock_holders.sql
var lockHoldersSQL string

// tryLock tries for the lock, once. It also sees to it that COMMIT means that the rows are on disk: a checkpoint must
// not be signed over leaves that the server may forget.
//
// Where only a login that is no gateway's has the lock, the answer is true all the same: the primary key of the leaves keeps
// replicas apart that work without it, each failing now and then against another.
func (q *Sequencer) tryLock(ctx context.Context, conn *pgx.Conn) (bool, error) {
	step, cancel := context.WithTimeout(ctx, q.cfg.StepTimeout)
	defer cancel()
	if _, err := conn.Exec(step, `select set_config('synchronous_commit', 'on', false)
		where current_setting('synchronous_commit') in ('off', 'local')`); err != nil {
		return false, fmt.Errorf("setting synchronous_commit: %w", cause(err))
	}
	var held bool
	if err := conn.QueryRow(step, "select pg_try_advisory_lock($1)", q.cfg.lock).Scan(&held); err != nil {
		return false, fmt.Errorf("trying for the sequencer's lock: %w", cause(err))
	}
	if held {
		return true, nil
	}
	var ours, others int
	if err := conn.QueryRow(step, lockHoldersSQL, q.cfg.lock).Scan(&ours, &others); err != nil {
		return false, fmt.Errorf("looking who has the sequencer's lock: %w", cause(err))
	}
	if ours > 0 || others == 0 {
		return false, nil
	}
	q.cfg.Logger.Warn("a login that is no gateway's has the lock of the book's sequencer, which goes on without it", "lock", q.cfg.lock)
	return true, nil
}
