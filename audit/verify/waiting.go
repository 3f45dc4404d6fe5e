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

// waitingQueries find what is wrong with audit.unsequenced. Its rows lead, and for each the others are looked up by their own
// index: how many rows wait changes within seconds and statistics do not, so that the planner must have no choice here. One
// that thinks that many wait where none does goes through every leaf, and for each through what was deleted from it.
var waitingQueries = []struct {
	sql, text string
	kind      Kind
	differs   []string
}{
	{
		`select u.recorded_at, u.id, u.source, l.tree, l.index from audit.unsequenced u
			cross join lateral (select l.tree, l.index from audit.leaves l where l.id = u.id offset 0) l`,
		"the row waits for a leaf and has one", Unsequenced, nil,
	},
	{
		`select u.recorded_at, u.id, u.source, 0::int, -1::bigint from audit.unsequenced u
			left join lateral (select true as there from audit.entries e where e.recorded_at = u.recorded_at and e.id = u.id limit 1) e on u.source = 'entry'
			left join lateral (select true as there from audit.outcomes o where o.recorded_at = u.recorded_at and o.id = u.id limit 1) o on u.source = 'outcome'
			where e.there is null and o.there is null`,
		"the row that waits for its leaf is not here: it was deleted", Missing, nil,
	},
	{
		`select u.recorded_at, u.id, u.source, 0::int, -1::bigint from audit.unsequenced u
			left join lateral (select e.leaf from audit.entries e where e.recorded_at = u.recorded_at and e.id = u.id offset 0) e on u.source = 'entry'
			left join lateral (select o.leaf from audit.outcomes o where o.recorded_at = u.recorded_at and o.id = u.id offset 0) o on u.source <> 'entry'
			where u.leaf <> e.leaf or u.leaf <> o.leaf`,
		"the row changed while it waits for its leaf", Changed,
		[]string{"record"},
	},
}

// waitingFaults looks at audit.unsequenced: rows that have a leaf already, rows that are not there, rows that changed.
func waitingFaults(ctx context.Context, conn *pgx.Conn, found *findings) error {
	for _, q := range waitingQueries {
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
	const old = ` from audit.unsequenced u left join lateral (select true as there from audit.leaves l where l.id = u.id limit 1) l on true
		where recorded_at < $1 and l.there is null`
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
