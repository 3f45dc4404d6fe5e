package audit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/partitions.sql
var partitionsSQL string

// PartitionsAhead is how many months ahead the gateway keeps partitions: three, so that a gateway that cannot make any
// is noticed long before it stops.
const PartitionsAhead = 3

// EnsurePartitions makes the partitions of the current month and of so many months ahead, by the database's clock, and
// returns how many were missing. Calls from several replicas take turns. A partition that was attached by hand gets the
// trigger it lacks.
func EnsurePartitions(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, months int,
) (int, error) {
	var made int
	if err := db.QueryRow(ctx, "select audit.ensure_partitions($1)", months).Scan(&made); err != nil {
		return 0, fmt.Errorf("making partitions: %w", cause(err))
	}
	return made, nil
}

// Partition is one attached partition of the book. A month that was detached has none: its rows are elsewhere, its
// leaves are still in the tree.
type Partition struct {
	Table string // entries or outcomes
	Name  string // in schema audit
	// From is the first moment whose rows it takes, Until the first it does not take. Both are zero for a default
	// partition, which the book must not have.
	From, Until time.Time
}

// Partitions are those that are attached, oldest first, and the database's clock.
func Partitions(ctx context.Context, db querier) (list []Partition, now time.Time, err error) {
	rows, err := db.Query(ctx, partitionsSQL)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the book's partitions: %w", err)
	}
	var (
		p           Partition
		from, until *time.Time
	)
	if _, err := pgx.ForEachRow(rows, []any{&p.Table, &p.Name, &from, &until, &now}, func() error {
		p.From, p.Until = time.Time{}, time.Time{}
		if from != nil && until != nil {
			p.From, p.Until = from.UTC(), until.UTC()
		}
		list = append(list, p)
		return nil
	}); err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the book's partitions: %w", err)
	}
	return list, now.UTC(), nil
}

// reach is the first moment from now on at which a row of either table finds no partition; now itself if there is none
// for now. list is sorted by From.
func reach(list []Partition, now time.Time) time.Time {
	end := map[string]time.Time{"entries": now, "outcomes": now}
	for _, p := range list {
		if at := end[p.Table]; !p.From.After(at) && p.Until.After(at) {
			end[p.Table] = p.Until
		}
	}
	if end["entries"].Before(end["outcomes"]) {
		return end["entries"]
	}
	return end["outcomes"]
}

// monthsBetween is how many whole months after now's own end at until or before; -1 if until is not after now.
func monthsBetween(now, until time.Time) int {
	if !until.After(now) {
		return -1
	}
	now = now.UTC()
	ahead := -1
	for next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC); !next.After(until); next = next.AddDate(0, 1, 0) {
		ahead++
	}
	return max(ahead, 0)
}

// PartitionKeeper makes the book's months ahead of time and knows how far they reach. Its methods are safe for
// concurrent use.
type PartitionKeeper struct {
	db  querier
	log *slog.Logger

	mu    sync.Mutex
	until time.Time // guarded by mu
}

// keepEvery is how often a keeper looks: a detached or dropped month is noticed within the hour, and one look costs the
// database less than one call.
const keepEvery = time.Hour

// NewPartitionKeeper does no I/O. db's role is the gateway's.
func NewPartitionKeeper(db querier, log *slog.Logger) *PartitionKeeper {
	return &PartitionKeeper{db: db, log: log}
}

// Prepare makes what is missing of this month and of PartitionsAhead more. It errs if rows of this very moment would
// find no partition afterwards, or if there is a default partition; months ahead that cannot be made are a warning in
// the log, because there is time to see to them.
func (k *PartitionKeeper) Prepare(ctx context.Context) error {
	_, failed := EnsurePartitions(ctx, k.db, PartitionsAhead)
	list, now, err := Partitions(ctx, k.db)
	if err != nil {
		return errors.Join(failed, err)
	}
	for _, p := range list {
		if p.From.IsZero() {
			return fmt.Errorf("audit.%s is a default partition of audit.%s, which hides that a month is missing: detach it as bronzeward_owner and move its rows into months",
				p.Name, p.Table)
		}
	}
	until := reach(list, now)
	k.mu.Lock()
	k.until = until
	k.mu.Unlock()
	ahead := monthsBetween(now, until)
	if ahead < 0 {
		missing := fmt.Errorf("the book has no partition for this month (%s, UTC), so that nothing could be recorded: run `select audit.ensure_partitions(%d)` as bronzeward_owner",
			now.Format("2006-01"), PartitionsAhead)
		if failed != nil {
			return fmt.Errorf("%w: %w", missing, failed)
		}
		return missing
	}
	if failed != nil {
		k.log.Error("the book's next months could not be made", slog.Int("months_ahead", ahead), slog.Any("cause", failed))
	}
	return nil
}

// Run prepares every hour until ctx ends.
func (k *PartitionKeeper) Run(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := k.Prepare(ctx); err != nil && ctx.Err() == nil {
			k.log.Error("the book's next months could not be made", slog.Int("months_ahead", -1), slog.Any("cause", err))
		}
	}
}

// Ahead is how many whole months after now's have partitions, as last seen: -1 if not even now has, or nobody looked yet.
func (k *PartitionKeeper) Ahead(now time.Time) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return monthsBetween(now, k.until)
}

// fewAhead is how many months are too few: with one left there are at least four weeks to see to it.
const fewAhead = 2

// Warnings are sentences for who watches, empty while enough months are there.
func (k *PartitionKeeper) Warnings(now time.Time) []string {
	switch ahead := k.Ahead(now); {
	case ahead < 0:
		return []string{"the book has no partition for this month, so that nothing can be recorded and every call is refused; run `select audit.ensure_partitions(3)` as bronzeward_owner"}
	case ahead < fewAhead:
		return []string{fmt.Sprintf("the book has partitions for %d more months, and the gateway could not make others; the log says why", ahead)}
	}
	return nil
}
