package verify

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// lookups asks for single rows and leaves, in the snapshot. For one goroutine.
type lookups struct{ conn *pgx.Conn }

// lookBatch is how many are asked for at once.
const lookBatch = 4096

// coverage reads which ranges of time the tables of rows have partitions for.
func (k *lookups) coverage(ctx context.Context) (coverage, error) {
	rows, err := k.conn.Query(ctx, `select p.relname::text, pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT',
			(regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']*)''\)'))[1]::timestamptz,
			(regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']*)''\)'))[1]::timestamptz
		from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
		where p.relnamespace = to_regnamespace('audit') and p.relname in ('entries', 'outcomes')`)
	if err != nil {
		return nil, fmt.Errorf("reading partitions: %w", cause(err))
	}
	out := coverage{}
	var name string
	var rest *bool
	var from, to *time.Time
	_, err = pgx.ForEachRow(rows, []any{&name, &rest, &from, &to}, func() error {
		r := [2]int64{math.MinInt64, math.MaxInt64}
		if from != nil {
			r[0] = from.UnixMicro()
		}
		if to != nil {
			r[1] = to.UnixMicro()
		}
		source := byte(sourceEntry)
		if name == outcomes.name {
			source = sourceOutcome
		}
		out[source] = append(out[source], r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading partitions: %w", cause(err))
	}
	return out, nil
}

// leavesOf are the leaves of ids.
func (k *lookups) leavesOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID][]leaf, error) {
	rows, err := k.conn.Query(ctx, "select tree, index, recorded_at, id, source, leaf from audit.leaves where id = any($1)", ids)
	if err != nil {
		return nil, fmt.Errorf("looking leaves up: %w", cause(err))
	}
	out := map[uuid.UUID][]leaf{}
	var l leaf
	var recorded pgtype.Timestamptz
	var source string
	var bytes []byte
	_, err = pgx.ForEachRow(rows, []any{&l.tree, &l.index, &recorded, &l.id, &source, &bytes}, func() error {
		l.at = stampMicros(recorded)
		if l.source = sourceEntry; source == "outcome" {
			l.source = sourceOutcome
		}
		l.hash, _ = hashOf(bytes)
		out[l.id] = append(out[l.id], l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking leaves up: %w", cause(err))
	}
	return out, nil
}

// key is a row's primary key.
type key struct {
	at int64
	id uuid.UUID
}

// counts says how many rows of a table have each key; table is one of entries, outcomes and unsequenced.
func (k *lookups) counts(ctx context.Context, table string, keys []key) (map[key]int, error) {
	times, ids := make([]time.Time, len(keys)), make([]uuid.UUID, len(keys))
	for i, x := range keys {
		times[i], ids[i] = time.UnixMicro(x.at), x.id
	}
	rows, err := k.conn.Query(ctx, "select w.at, w.id, count(*)::int from unnest($1::timestamptz[], $2::uuid[]) as w(at, id) join audit."+table+
		" t on t.recorded_at = w.at and t.id = w.id group by 1, 2", times, ids)
	if err != nil {
		return nil, fmt.Errorf("looking rows of %s up: %w", table, cause(err))
	}
	out := map[key]int{}
	var recorded time.Time
	var id uuid.UUID
	var n int
	_, err = pgx.ForEachRow(rows, []any{&recorded, &id, &n}, func() error {
		out[key{recorded.UnixMicro(), id}] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking rows of %s up: %w", table, cause(err))
	}
	return out, nil
}

// elsewhere finds rows of a table by id alone.
func (k *lookups) elsewhere(ctx context.Context, table string, ids []uuid.UUID) (map[uuid.UUID]int64, error) {
	rows, err := k.conn.Query(ctx, "select id, recorded_at from audit."+table+" where id = any($1)", ids)
	if err != nil {
		return nil, fmt.Errorf("looking rows of %s up: %w", table, cause(err))
	}
	out := map[uuid.UUID]int64{}
	var id uuid.UUID
	var recorded time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &recorded}, func() error {
		out[id] = recorded.UnixMicro()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking rows of %s up: %w", table, cause(err))
	}
	return out, nil
}
