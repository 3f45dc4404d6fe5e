package audit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed queries/find.sql
var findSQL string

const (
	// retryAfter is between two tries of a row that nobody waits for: long enough not to load a database that is coming up.
	retryAfter = time.Second
	// lookAgain is between two looks for a row whose COMMIT had no answer.
	lookAgain = 20 * time.Millisecond
)

// errUnsure says that nobody knows yet whether the row is durable.
var errUnsure = errors.New("COMMIT had no answer, and the server's process has not ended")

// resolve answers items whose COMMIT had no answer, by what a new connection reads.
func (b *Book) resolve(items []*item, pid uint32, why error) {
	b.stats.unknown.Add(1)
	found, err := b.find(items, pid)
	b.cfg.Logger.Warn("commit without answer", "rows", len(items), "durable", len(found), "error", errors.Join(why, err))
	for _, it := range items {
		if r, ok := found[it.id]; ok {
			b.stats.lasted.Add(1)
			b.answer(it, r, nil)
			continue
		}
		if err != nil {
			it.unsure = pid
		}
		b.answer(it, Receipt{}, errors.Join(why, err))
	}
}

// find reads the receipts of the items that are durable, on a new connection. With pid it waits until that process of
// the server has ended, because until then it may still commit; an item that is not found then never will be. An error
// means that this is not known; what was found is durable all the same.
func (b *Book) find(items []*item, pid uint32) (map[uuid.UUID]Receipt, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.UnknownTimeout)
	defer cancel()
	ids, entries := make([]uuid.UUID, len(items)), make([]uuid.UUID, len(items))
	for i, it := range items {
		ids[i], entries[i] = it.id, it.entry
	}
	var problem error
	for {
		found, ended, err := b.look(ctx, ids, entries, pid)
		if err == nil && (ended || len(found) == len(ids)) {
			return found, nil
		}
		if problem = err; err == nil {
			problem = errUnsure
		}
		select {
		case <-ctx.Done():
			return found, problem
		case <-time.After(lookAgain):
		}
	}
}

// look opens a connection of its own: the pool's may be as dead as the one that gave no answer.
func (b *Book) look(ctx context.Context, ids, entries []uuid.UUID, pid uint32) (found map[uuid.UUID]Receipt, ended bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, b.cfg.Pool.Config().ConnConfig)
	if err != nil {
		return nil, false, fmt.Errorf("connecting: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(stop) // what was read is read
	}()
	// In this order: the process first, then, in a later statement with its own snapshot, what it left.
	if err := conn.QueryRow(ctx, "select not exists (select from pg_stat_activity where pid = $1)", int32(pid)).Scan(&ended); err != nil {
		return nil, false, fmt.Errorf("looking for the server's process: %w", cause(err))
	}
	rows, err := conn.Query(ctx, findSQL, ids, entries)
	if err != nil {
		return nil, false, fmt.Errorf("looking for rows: %w", cause(err))
	}
	found = map[uuid.UUID]Receipt{}
	var r Receipt
	var leaf []byte
	if _, err := pgx.ForEachRow(rows, []any{&r.ID, &r.RecordedAt, &leaf}, func() error {
		r.RecordedAt = r.RecordedAt.UTC()
		copy(r.Leaf[:], leaf)
		found[r.ID] = r
		return nil
	}); err != nil {
		return nil, false, fmt.Errorf("looking for rows: %w", cause(err))
	}
	return found, ended, nil
}

// answer tells the caller. err nil means durable; a *StaleError goes out as it is, everything else as ErrUnavailable.
func (b *Book) answer(it *item, r Receipt, err error) {
	var stale *StaleError
	var row *RowError
	switch {
	case err == nil:
	case errors.As(err, &stale):
		b.stats.stale.Add(1)
	case errors.As(err, &row) && !passing(err):
		b.stats.rowsRefused.Add(1)
		b.cfg.Logger.Error("row refused", "id", it.id, "error", err)
		err = unavailable(err)
	default:
		b.stats.unavailable.Add(1)
		err = unavailable(err)
	}
	if it.done != nil {
		it.done <- result{r, err}
		return
	}
	if err != nil && (row == nil || passing(row)) && b.later(it) {
		return
	}
	if err != nil {
		b.stats.abandoned.Add(1)
		b.cfg.Logger.Error("outcome not recorded", "id", it.id, "error", err)
	}
	<-b.parked
}

// later queues the item again after a while; false once the Book closes.
func (b *Book) later(it *item) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.quitting {
		return false
	}
	b.retries.Go(func() {
		select {
		case <-time.After(retryAfter):
		case <-b.quit:
		}
		b.queue <- it // Close closes the queue after the last of these
	})
	return true
}
