package audit

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/stats.sql
var statsSQL string

// ErrManyValues is returned by Stats when a field has more values than it keeps.
var ErrManyValues = errors.New("too many different values to count: take a shorter time")

const (
	// statsWindow is how much time one statement counts, so that none runs long however much is asked.
	statsWindow = 6 * time.Hour
	// maxValues is how many different values of one field are counted.
	maxValues = 100_000
)

// Counts are what the entries of a time say. All are exact; a row inserted while they are counted may be in or not.
type Counts struct {
	Since, Until time.Time
	Entries      int64
	Calls        int64 // Entries, where a refusal stands for as many as it counts
	Verdicts     []Counted
	Machines     []Counted // entries that name one
	Persons      []Counted // those who were proven
	Methods      []Counted // methods and acts
	Codes        []Counted // an entry counts under each of its reasons
}

// Counted is how often a value is there, most frequent first.
type Counted struct {
	Value   string
	Issuer  string // of a person
	Entries int64
	Calls   int64
}

// Stats counts the entries recorded from since on and before until; zero times are the first entry's, and now by the
// database's clock. progress, if there is one, is told up to when it has counted.
func (r *Reader) Stats(ctx context.Context, since, until time.Time, progress func(upTo time.Time)) (Counts, error) {
	var first, now *time.Time
	if err := r.pool.QueryRow(ctx, "select (select min(recorded_at) from audit.entries), clock_timestamp()").Scan(&first, &now); err != nil {
		return Counts{}, fmt.Errorf("counting entries: %w", cause(err))
	}
	if until.IsZero() || until.After(*now) {
		until = *now
	}
	if first != nil && (since.IsZero() || since.Before(*first)) {
		since = *first
	}
	c := Counts{Since: since.UTC(), Until: until.UTC()}
	if first == nil {
		return c, nil
	}
	sums := [6]map[[2]string]*Counted{}
	for i := range sums {
		sums[i] = map[[2]string]*Counted{}
	}
	for from := since; from.Before(until); {
		to := from.Add(statsWindow)
		if to.After(until) {
			to = until
		}
		if err := r.countWindow(ctx, from, to, &sums); err != nil {
			return Counts{}, fmt.Errorf("counting entries: %w", err)
		}
		if progress != nil {
			progress(to)
		}
		from = to
	}
	for _, all := range sums[0] {
		c.Entries, c.Calls = all.Entries, all.Calls
	}
	for i, list := range []*[]Counted{&c.Verdicts, &c.Machines, &c.Persons, &c.Methods, &c.Codes} {
		*list = ranked(sums[i+1])
	}
	return c, nil
}

func (r *Reader) countWindow(ctx context.Context, from, to time.Time, sums *[6]map[[2]string]*Counted) error {
	rows, err := r.pool.Query(ctx, statsSQL, from, to)
	if err != nil {
		return cause(err)
	}
	var field int
	var one Counted
	var calls *int64
	_, err = pgx.ForEachRow(rows, []any{&field, &one.Value, &one.Issuer, &one.Entries, &calls}, func() error {
		if field != 0 && one.Value == "" || calls == nil {
			return nil // entries without it
		}
		key := [2]string{one.Value, one.Issuer}
		sum := sums[field][key]
		if sum == nil {
			if len(sums[field]) == maxValues {
				return ErrManyValues
			}
			sum = &Counted{Value: one.Value, Issuer: one.Issuer}
			sums[field][key] = sum
		}
		sum.Entries += one.Entries
		sum.Calls += *calls
		return nil
	})
	return cause(err)
}

// ranked are the values by how often they are there, equals by name.
func ranked(sums map[[2]string]*Counted) []Counted {
	out := make([]Counted, 0, len(sums))
	for _, c := range sums {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Counted) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Issuer, b.Issuer))
	})
	return out
}
