package book

import (
	"context"
	_ "embed"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/policy"
	"bronzeward/policytest/replay"
)

//go:embed queries/past.sql
var pastSQL string

//go:embed queries/pastcount.sql
var pastCountSQL string

//go:embed queries/law.sql
var lawSQL string

//go:embed queries/liverevision.sql
var liveRevisionSQL string

// pastPage is how many entries are read at once.
const pastPage = 500

// databasePast is the past in the book's own database.
type databasePast struct{ pool *pgxpool.Pool }

// PastOf reads the book's own database. Close closes the pool: who has it for more leaves that.
func PastOf(pool *pgxpool.Pool) Past { return &databasePast{pool} }

// Close closes the pool.
func (p *databasePast) Close() { p.pool.Close() }

func (p *databasePast) Bound(ctx context.Context, r Range) (bound Range, n int64, err error) {
	from, until := r.ends()
	var now time.Time
	if err := p.pool.QueryRow(ctx, pastCountSQL, from, until, r.Machine, !r.Said).Scan(&n, &now); err != nil {
		return r, 0, fmt.Errorf("counting decisions: %w", away(err))
	}
	if r.until.IsZero() {
		r.until = now
	}
	return r, n, nil
}

func (p *databasePast) Pages(r Range) replay.Pages {
	at, until := r.ends()
	id := pgtype.UUID{Valid: true} // no id is zero, so that the first is included
	return func(ctx context.Context) ([]replay.Row, error) {
		found, err := p.pool.Query(ctx, pastSQL, at, id, until, r.Machine, !r.Said, pastPage)
		if err != nil {
			return nil, fmt.Errorf("reading decisions: %w", away(err))
		}
		rows := make([]replay.Row, 0, pastPage)
		var record pgtype.DriverBytes
		var kept chunked
		if _, err := pgx.ForEachRow(found, []any{&at, &id, &record}, func() error {
			rows = append(rows, replay.Row{ID: id.Bytes, RecordedAt: at.UTC(), Record: kept.keep(record)})
			return nil
		}); err != nil {
			return nil, fmt.Errorf("reading decisions: %w", away(err))
		}
		return rows, nil
	}
}

func (p *databasePast) Live(ctx context.Context) (revision string, err error) {
	if err := p.pool.QueryRow(ctx, liveRevisionSQL).Scan(&revision); err != nil {
		return "", fmt.Errorf("reading the live revision: %w", away(err))
	}
	return revision, nil
}

func (p *databasePast) Law(ctx context.Context, revision string) (*policy.Bundle, error) {
	if _, err := hex.DecodeString(revision[:len(revision)&^1]); err != nil || len(revision) < ShortestRevision {
		return nil, fmt.Errorf("%w: %q is no revision, which has 64 hex digits, of which %d are enough", replay.ErrNotKept, revision, ShortestRevision)
	}
	found, err := p.pool.Query(ctx, lawSQL, revision)
	var list []savedLaw
	if err == nil {
		list, err = pgx.CollectRows(found, pgx.RowToStructByPos[savedLaw])
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the law %.12s: %w", revision, away(err))
	case len(list) == 0:
		return nil, fmt.Errorf("%w: no law of revision %.12s was ever saved here", replay.ErrNotKept, revision)
	case len(list) > 1:
		return nil, fmt.Errorf("two laws begin with %s: name more of it", revision)
	}
	b, err := policy.Open(list[0].Content)
	if err != nil {
		return nil, fmt.Errorf("opening the law %.12s: %w", revision, err)
	}
	if b.Revision() != list[0].Revision {
		return nil, fmt.Errorf("the law %.12s is stored under the name %.12s: the database was changed", b.Revision(), list[0].Revision)
	}
	return b, nil
}

type savedLaw struct {
	Revision string
	Content  []byte
}
