package audit

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The statements insert one row or many; both return id, recorded_at and leaf. Of many rows, each at its own cost, one
// statement over arrays takes a third of the database's time that as many statements take.
var (
	//go:embed queries/insert_entry.sql
	insertEntry string
	//go:embed queries/insert_entries.sql
	insertEntries string
	// insertSearched is insertEntries for rows with words, which go into audit.terms. It costs half as much again, so that
	// rows without any (an allowed read) take the others.
	//
	//go:embed queries/insert_searched.sql
	insertSearched string
	//go:embed queries/insert_outcome.sql
	insertOutcome string
	//go:embed queries/insert_outcomes.sql
	insertOutcomes string
)

// statement is a row ready to be inserted: built once, by the goroutine that wants it written.
type statement struct {
	id      uuid.UUID
	entry   uuid.UUID // the entry an outcome is about; an entry's own id
	outcome bool
	words   bool  // an entry with codes or changed paths, which audit.terms is told of
	args    []any // parameters of the statement for one row
}

func entryStatement(e Entry) (statement, error) {
	if e.ID == uuid.Nil {
		made, err := uuid.NewV7()
		if err != nil {
			return statement{}, fmt.Errorf("making an id: %w", err)
		}
		e.ID = made
	}
	e = e.clean()
	record := e.record()
	words := len(e.Codes) > 0 || bytes.Contains(record, namesPaths)
	return statement{id: e.ID, entry: e.ID, words: words, args: e.columns(record)}, nil
}

// namesPaths are the bytes that audit.names_paths looks for. Within a string of a record a quotation mark is escaped, so
// that they stand for the member facts.config.changes alone.
var namesPaths = []byte(`"changes":[{`)

func outcomeStatement(o Outcome) (statement, error) {
	if o.EntryID == uuid.Nil {
		return statement{}, errors.New("an outcome without entry")
	}
	if o.ID == uuid.Nil {
		made, err := uuid.NewV7()
		if err != nil {
			return statement{}, fmt.Errorf("making an id: %w", err)
		}
		o.ID = made
	}
	o = o.clean()
	return statement{id: o.ID, entry: o.EntryID, outcome: true, args: o.columns(o.record())}, nil
}

// sql is the statement for this row alone, with its parameters.
func (s statement) sql() (string, []any) {
	switch {
	case s.outcome:
		return insertOutcome, s.args
	case s.words:
		return insertSearched, transpose([]statement{s})
	}
	return insertEntry, s.args
}

// run inserts the row alone.
func (s statement) run(ctx context.Context, tx pgx.Tx) (Receipt, error) {
	sql, args := s.sql()
	r, err := scanReceipt(tx.QueryRow(ctx, sql, args...))
	if err != nil {
		return Receipt{}, fmt.Errorf("inserting %s: %w", s.id, cause(err))
	}
	return r, nil
}

// scanReceipt reads what every statement here returns.
func scanReceipt(row pgx.Row) (Receipt, error) {
	var r Receipt
	var leaf []byte
	if err := row.Scan(&r.ID, &r.RecordedAt, &leaf); err != nil {
		return Receipt{}, err
	}
	if copy(r.Leaf[:], leaf) != len(r.Leaf) {
		return Receipt{}, errors.New("the database returned a leaf of another length")
	}
	r.RecordedAt = r.RecordedAt.UTC()
	return r, nil
}

// columns are the parameters of queries/insert_entry.sql. e is clean.
func (e Entry) columns(record []byte) []any {
	return []any{
		e.ID, string(e.Kind), string(e.Verdict), column(e.Method), column(e.Class), column(e.Mode), e.DryRun,
		column(e.Caller.Issuer), column(e.Caller.Subject), column(e.Caller.Kind), column(e.Caller.Proof), column(e.ClientAddress),
		uuidColumn(e.MachineID), column(e.MachineName), column(e.Cluster), column(e.Digest), column(e.Base), column(e.Persistent),
		column(e.ChangeID), uuidColumn(e.AttemptID), uuidColumn(e.Epoch), e.AuthorityVersion, column(e.PolicyRevision),
		codesColumn(e.Codes), column(e.Instance), e.Count, record,
	}
}

// columns are the parameters of queries/insert_outcome.sql. o is clean.
func (o Outcome) columns(record []byte) []any {
	return []any{
		o.ID, o.EntryID, uuidColumn(o.AttemptID), string(o.Kind), column(o.State), column(o.Code), column(o.Digest),
		column(o.Persistent), column(o.Caller.Issuer), column(o.Caller.Subject), o.Duration.Microseconds(), o.BytesOut,
		column(o.Instance), record,
	}
}

func uuidColumn(u uuid.UUID) *uuid.UUID {
	if u == uuid.Nil {
		return nil
	}
	return &u
}

// codesColumn joins the codes with the unit separator, at which the statements split: an array of arrays cannot have
// rows of different length. A code is a word; one that holds the separator is shown as two.
func codesColumn(codes []string) *string {
	if len(codes) == 0 {
		return nil
	}
	short := make([]string, len(codes))
	for i, c := range codes {
		short[i] = cut(c, maxColumn)
	}
	joined := strings.Join(short, "\x1f")
	return &joined
}

// transpose makes the parameters of a statement for many rows: one array per column. All rows are of one kind, so that
// a column's values are of one type. The arrays are of types that pgx encodes without reflection, which takes longer than
// all else that a row costs here.
func transpose(rows []statement) []any {
	out := make([]any, len(rows[0].args))
	for c := range out {
		switch rows[0].args[c].(type) {
		case uuid.UUID:
			out[c] = array(rows, c, func(u uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: u, Valid: true} })
		case *uuid.UUID:
			out[c] = array(rows, c, func(u *uuid.UUID) pgtype.UUID {
				if u == nil {
					return pgtype.UUID{}
				}
				return pgtype.UUID{Bytes: *u, Valid: true}
			})
		case string:
			out[c] = array(rows, c, func(s string) pgtype.Text { return pgtype.Text{String: s, Valid: true} })
		case *string:
			out[c] = array(rows, c, func(s *string) pgtype.Text {
				if s == nil {
					return pgtype.Text{}
				}
				return pgtype.Text{String: *s, Valid: true}
			})
		case bool:
			out[c] = array(rows, c, func(b bool) pgtype.Bool { return pgtype.Bool{Bool: b, Valid: true} })
		case int64:
			out[c] = array(rows, c, func(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: true} })
		case []byte:
			out[c] = array(rows, c, func(b []byte) []byte { return b })
		}
	}
	return out
}

func array[T, E any](rows []statement, c int, element func(T) E) pgtype.FlatArray[E] {
	list := make(pgtype.FlatArray[E], len(rows))
	for i, r := range rows {
		value, _ := r.args[c].(T)
		list[i] = element(value)
	}
	return list
}
