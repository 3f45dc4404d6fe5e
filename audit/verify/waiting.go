package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// patience is how long after the verification a row that seems to have waited for over a minute may still get its leaf:
// recorded_at is when it was inserted, and its transaction may have committed a moment ago.
const patience = 3 * time.Second

// waitingFaults looks at audit.unsequenced: rows that have a leaf already, rows that are not there, rows that changed.
func waitingFaults(ctx context.Context, conn *pgx.Conn, found *findings) error {
	for _, q := range []struct {
		sql, text string
		kind      Kind
		differs   []string
	}{
		{
			`select u.recorded_at, u.id, u.source, l.tree, l.index from audit.unsequenced u join audit.leaves l on l.id = u.id`,
			"the row waits for a leaf and has one", Unsequenced, nil,
		},
		{
			`select u.recorded_at, u.id, u.source, 0::int, -1::bigint from audit.unsequenced u where u.source = 'entry'
				and not exists (select from audit.entries e where e.recorded_at = u.recorded_at and e.id = u.id)
			union all select u.recorded_at, u.id, u.source, 0::int, -1::bigint from audit.unsequenced u where u.source <> 'entry'
				and (u.source <> 'outcome' or not exists (select from audit.outcomes e where e.recorded_at = u.recorded_at and e.id = u.id))`,
			"the row that waits for its leaf is not here: it was deleted", Missing, nil,
		},
		{
			`select u.recorded_at, u.id, u.source, 0::int, -1::bigint from audit.unsequenced u
				join audit.entries e on e.recorded_at = u.recorded_at and e.id = u.id where u.source = 'entry' and u.leaf <> e.leaf
			union all select u.recorded_at, u.id, u.source, 0::int, -1::bigint from audit.unsequenced u
				join audit.outcomes e on e.recorded_at = u.recorded_at and e.id = u.id where u.source <> 'entry' and u.leaf <> e.leaf`,
			"the row changed while it waits for its leaf", Changed,
			[]string{"record"},
		},
	} {
		rows, err := conn.Query(ctx, q.sql)
		if err != nil {
			return fmt.Errorf("reading audit.unsequenced: %w", cause(err))
		}
		if err := eachWaiting(rows, func(recorded time.Time, id uuid.UUID, table string, tree int32, index int64) {
			f := Finding{Kind: q.kind, Table: table, ID: id, RecordedAt: recorded, Differs: q.differs, Text: q.text}
			if index >= 0 {
				f.Tree, f.Indexes = tree, at(index)
			}
			found.add(f)
		}); err != nil {
			return fmt.Errorf("reading audit.unsequenced: %w", cause(err))
		}
	}
	return nil
}

func eachWaiting(rows pgx.Rows, call func(time.Time, uuid.UUID, string, int32, int64)) error {
	var recorded pgtype.Timestamptz // the gateway's role may name any time, infinity too
	var id uuid.UUID
	var source string
	var tree int32
	var index int64
	_, err := pgx.ForEachRow(rows, []any{&recorded, &id, &source, &tree, &index}, func() error {
		table := entries.name
		if source == "outcome" {
			table = outcomes.name
		}
		call(moment(stampMicros(recorded)), id, table, tree, index)
		return nil
	})
	return err
}

// tooLong tells of rows that have no leaf a minute after they were recorded. conn is outside of the snapshot: a row that
// gets its leaf within a few seconds is none of them.
func tooLong(ctx context.Context, conn *pgx.Conn, now int64, found *findings) error {
	const old = " from audit.unsequenced u where recorded_at < $1 and not exists (select from audit.leaves l where l.id = u.id)"
	limit := time.UnixMicro(now).Add(-time.Minute)
	ticker := time.NewTicker(patience / 12)
	defer ticker.Stop()
	for begun := time.Now(); ; {
		var any bool
		if err := conn.QueryRow(ctx, "select exists (select"+old+")", limit).Scan(&any); err != nil {
			return fmt.Errorf("reading audit.unsequenced: %w", cause(err))
		}
		if !any {
			return nil
		}
		if time.Since(begun) > patience {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	rows, err := conn.Query(ctx, "select recorded_at, id, source, 0::int, -1::bigint"+old+" order by recorded_at", limit)
	if err == nil {
		err = eachWaiting(rows, func(recorded time.Time, id uuid.UUID, table string, _ int32, _ int64) {
			found.add(Finding{
				Kind: Unsequenced, Table: table, ID: id, RecordedAt: recorded,
				Text: "the row has waited for its leaf for more than a minute: no gateway sequences, or something hinders it",
			})
		})
	}
	if err != nil {
		return fmt.Errorf("reading audit.unsequenced: %w", cause(err))
	}
	return nil
}
