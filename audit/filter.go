package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Filter says which entries are wanted; a zero field asks nothing, and all that is asked must hold.
type Filter struct {
	MachineID uuid.UUID
	Machine   string // the machine's name when it was judged
	Cluster   string
	Issuer    string // of the caller
	Subject   string // of the caller
	Digest    string // of the configuration asked for
	Method    string
	Class     string
	Verdict   Verdict
	Kind      Kind
	Code      string // one of the reasons' codes
	AttemptID uuid.UUID
	ChangeID  string
	Since     time.Time // recorded at this time or later
	Until     time.Time // recorded before this time
}

// Order is the direction of a list.
type Order int

// The orders. NewestFirst is the zero value.
const (
	NewestFirst Order = iota
	OldestFirst
)

// DefaultLimit and MaxLimit bound a page's rows.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Page says which part of a list is wanted.
type Page struct {
	Limit int    // rows; 0 is DefaultLimit, more than MaxLimit is an error
	Order Order  // NewestFirst if left out
	After Cursor // the place a page before ended; zero begins
}

// Validate returns all problems, joined.
func (f Filter) Validate() error {
	var problems []error
	switch f.Verdict {
	case "", Allowed, Denied, Refused:
	default:
		problems = append(problems, errors.New("verdict: one of allow, deny, refuse"))
	}
	switch f.Kind {
	case "", KindRPC, KindHTTP, KindPolicy, KindSystem:
	default:
		problems = append(problems, errors.New("kind: one of rpc, http, policy, system"))
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		problems = append(problems, errors.New("since: not before until"))
	}
	return errors.Join(problems...)
}

// Validate returns all problems, joined.
func (p Page) Validate() error {
	var problems []error
	if p.Limit < 0 || p.Limit > MaxLimit {
		problems = append(problems, fmt.Errorf("limit: 1 to %d", MaxLimit))
	}
	if p.Order != NewestFirst && p.Order != OldestFirst {
		problems = append(problems, errors.New("order: newest or oldest first"))
	}
	return errors.Join(problems...)
}

// List returns a page of entries without their records, and the Cursor to go on after it; the zero Cursor means that
// the list ended. A row's place is its recorded_at and id, so that pages neither repeat nor skip what was committed when
// the first was read. A transaction may commit after another that was recorded later: who follows the newest rows
// looks back a little, or follows the tree's order.
func (r *Reader) List(ctx context.Context, f Filter, p Page) ([]Row, Cursor, error) {
	if err := errors.Join(f.Validate(), p.Validate()); err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", err)
	}
	limit := p.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	sql, args := listQuery(f, p, limit+1)
	rows, err := r.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", cause(err))
	}
	list, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("listing entries: %w", cause(err))
	}
	if len(list) <= limit {
		return list, Cursor{}, nil
	}
	list = list[:limit]
	return list, list[limit-1].Cursor(), nil
}

// listQuery adds the conditions that are asked to queries/entries.sql. The texts are fixed; values are parameters.
func listQuery(f Filter, p Page, limit int) (string, []any) {
	var where []string
	args := []any{false}
	add := func(condition string, value any) {
		args = append(args, value)
		where = append(where, strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(args))))
	}
	text := func(col, value string) {
		if value != "" {
			add("e."+col+" = ?", *column(escape(value)))
		}
	}
	if f.MachineID != uuid.Nil {
		add("e.machine_id = ?", f.MachineID)
	}
	text("machine_name", f.Machine)
	text("cluster", f.Cluster)
	text("caller_issuer", f.Issuer)
	text("caller_subject", f.Subject)
	text("digest", f.Digest)
	text("method", f.Method)
	text("class", f.Class)
	text("verdict", string(f.Verdict))
	text("kind", string(f.Kind))
	if f.Code != "" {
		add("? = any (e.codes)", *column(escape(f.Code)))
	}
	if f.AttemptID != uuid.Nil {
		add("e.attempt_id = ?", f.AttemptID)
	}
	text("change_id", f.ChangeID)
	if !f.Since.IsZero() {
		add("e.recorded_at >= ?", f.Since.UTC())
	}
	if !f.Until.IsZero() {
		add("e.recorded_at < ?", f.Until.UTC())
	}
	direction, beyond := " desc", "<"
	if p.Order == OldestFirst {
		direction, beyond = "", ">"
	}
	if !p.After.IsZero() {
		// The first condition says no more than the second, but it is the one that rules out partitions.
		add("e.recorded_at "+beyond+"= ?", p.After.recordedAt)
		at := "$" + strconv.Itoa(len(args))
		add("(e.recorded_at, e.id) "+beyond+" ("+at+", ?)", p.After.id)
	}
	var sql strings.Builder
	sql.WriteString(entriesSQL)
	if len(where) > 0 {
		sql.WriteString("where " + strings.Join(where, "\n  and ") + "\n")
	}
	fmt.Fprintf(&sql, "order by e.recorded_at%s, e.id%s\nlimit %d", direction, direction, limit)
	return sql.String(), args
}
