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

// Range is which past decisions are wanted.
type Range struct {
	span
	// Machine is whose alone; empty takes all.
	Machine string
	// Said takes decisions with a reason alone.
	Said bool
}

// RangeFlags say which past decisions are wanted.
type RangeFlags struct {
	Since   string `help:"Only decisions from this time on: a time, a day in your zone, or so long ago, such as 24h or 30d."`
	Until   string `help:"Only decisions before this time, written like --since."`
	Machine string `short:"m" help:"Only decisions about this machine."`
}

// Range reads the flags.
func (f RangeFlags) Range() (Range, error) {
	s, err := rangeOf(f.Since, f.Until)
	return Range{span: s, Machine: f.Machine}, err
}

// SinceOnly is the range from a time on, as --since writes it; flag names it in errors.
func SinceOnly(flag, since string) (Range, error) {
	from, err := endOf(flag, since)
	return Range{span: span{from: from}}, err
}

// Past reads past decisions and the laws they were made by, in the book's own database. Safe for
// concurrent use.
type Past struct{ pool *pgxpool.Pool }

// OpenPast opens the book's database as OpenBook does.
func (f DatabaseFlags) OpenPast(ctx context.Context, from Settings) (*Past, error) {
	pool, err := f.OpenBook(ctx, from)
	if err != nil {
		return nil, err
	}
	return &Past{pool}, nil
}

// PastOf reads through a pool that is open already, and is its owner's to close.
func PastOf(pool *pgxpool.Pool) *Past { return &Past{pool} }

// Close closes the pool.
func (p *Past) Close() { p.pool.Close() }

// Bound counts the decisions of a range, and ends an open range at the database's clock: what is
// recorded from then on is not in it.
func (p *Past) Bound(ctx context.Context, r Range) (bound Range, n int64, err error) {
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

// Pages gives the decisions of a range, oldest first.
func (p *Past) Pages(r Range) replay.Pages {
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

// Live is the revision that is live; empty when none is.
func (p *Past) Live(ctx context.Context) (revision string, err error) {
	if err := p.pool.QueryRow(ctx, liveRevisionSQL).Scan(&revision); err != nil {
		return "", fmt.Errorf("reading the live revision: %w", away(err))
	}
	return revision, nil
}

// ShortestRevision is how much of a revision names it.
const ShortestRevision = 8

// Law is the law of a revision, or of the one that begins so; replay.ErrNotKept when there is none.
// That it is the revision's own is checked.
func (p *Past) Law(ctx context.Context, revision string) (*policy.Bundle, error) {
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
