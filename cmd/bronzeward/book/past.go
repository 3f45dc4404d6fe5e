package book

import (
	"context"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
	"bronzeward/policytest/replay"
)

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

// Since is the beginning; zero where it is open.
func (r Range) Since() time.Time { return r.from }

// SinceOnly is the range from a time on, as --since writes it; flag names it in errors.
func SinceOnly(flag, since string) (Range, error) {
	from, err := endOf(flag, since)
	return Range{span: span{from: from}}, err
}

// ShortestRevision is how much of a revision names it.
const ShortestRevision = 8

// RevisionLike is whether a text may be a revision, or the beginning that names one.
func RevisionLike(name string) bool {
	return len(name) >= ShortestRevision && len(name) <= 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// Past reads past decisions and the laws they were made by, in the book's own database or through a
// gateway. Law and Live are safe for concurrent use.
type Past interface {
	// Bound counts the decisions of a range, and ends an open range at the database's clock: what is recorded from
	// then on is not in it. n is zero where they are too many to be counted.
	Bound(ctx context.Context, r Range) (bound Range, n int64, err error)
	// Pages gives the decisions of a range, oldest first.
	Pages(r Range) replay.Pages
	// Live is the revision that is live; empty when none is.
	Live(ctx context.Context) (revision string, err error)
	// Law is the law of a revision, or of the one that begins so; replay.ErrNotKept when there is none.
	// That it is the revision's own is checked.
	Law(ctx context.Context, revision string) (*policy.Bundle, error)
	Close()
}

// OpenPast opens the book where it is named: its database, or else a gateway.
func (f ReachFlags) OpenPast(ctx context.Context, g *cli.Globals, from Settings) (Past, error) {
	pool, client, _, err := f.reach(ctx, g, from)
	if err != nil {
		return nil, err
	}
	if pool != nil {
		return PastOf(pool), nil
	}
	return PastAt(client), nil
}
