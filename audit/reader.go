package audit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed queries/entries.sql
var entriesSQL string

//go:embed queries/outcomes.sql
var outcomesSQL string

// ErrNotFound is returned by Get for an id that is not in the book.
var ErrNotFound = errors.New("no such entry")

// Reader reads the book. The role of its pool is bronzeward_auditor or bronzeward_gateway, or a member. Its methods are
// safe for concurrent use.
type Reader struct {
	pool  *pgxpool.Pool
	depth depth
}

// NewReader does no I/O.
func NewReader(pool *pgxpool.Pool) *Reader { return &Reader{pool: pool, depth: pageDepth} }

// Row is one entry as the database has it.
type Row struct {
	RecordedAt       time.Time // database clock, UTC
	ID               uuid.UUID
	Kind             Kind
	Verdict          Verdict
	Method           string
	Class            string
	Mode             string
	DryRun           bool
	Issuer           string // of the caller, as Subject, CallerKind and Proof
	Subject          string
	CallerKind       string
	Proof            string
	ClientAddress    string
	MachineID        uuid.UUID
	MachineName      string
	Cluster          string
	Digest           string
	Base             string
	Persistent       string
	ChangeID         string
	AttemptID        uuid.UUID
	Epoch            uuid.UUID
	AuthorityVersion int64
	PolicyRevision   string
	Codes            []string
	Instance         string
	Count            int64
	Leaf             [32]byte
	// Last is the newest outcome, nil if there is none. In it, Record is empty.
	Last *OutcomeRow
	// Record is set by Get, and by List where Page.Records asks for it; ParseEntry reads it. Outcomes, oldest first, are set
	// by Get only.
	Record   []byte
	Outcomes []OutcomeRow
}

// Cursor is the place after the row.
func (r Row) Cursor() Cursor { return Cursor{recordedAt: r.RecordedAt, id: r.ID} }

// OutcomeRow is one outcome as the database has it. Its message is in Record only; ParseOutcome reads it.
type OutcomeRow struct {
	RecordedAt time.Time // database clock, UTC
	ID         uuid.UUID
	EntryID    uuid.UUID
	AttemptID  uuid.UUID
	Kind       OutcomeKind
	State      string
	Code       string
	Digest     string
	Persistent string
	Issuer     string
	Subject    string
	Duration   time.Duration
	BytesOut   int64
	Instance   string
	Leaf       [32]byte
	Record     []byte
}

// Get returns an entry with its record and all its outcomes, or ErrNotFound.
func (r *Reader) Get(ctx context.Context, id uuid.UUID) (Row, error) {
	return r.get(ctx, id, "", "")
}

// GetOf is Get for an entry of one caller: whoever else's it is, the answer is ErrNotFound, in the same time.
func (r *Reader) GetOf(ctx context.Context, id uuid.UUID, issuer, subject string) (Row, error) {
	if !Searchable(issuer) || !Searchable(subject) {
		return Row{}, ErrNotFound
	}
	return r.get(ctx, id, issuer, subject)
}

// Searchable is whether a text is found by a Filter for itself alone: it is not empty, nothing of it was escaped and nothing
// cut. Whoever may see one person's entries only may see none when the person's name is not.
func Searchable(text string) bool {
	return text != "" && len(text) <= maxColumn && escape(text) == text
}

func (r *Reader) get(ctx context.Context, id uuid.UUID, issuer, subject string) (Row, error) {
	rows, err := r.pool.Query(ctx, `with e as (
    select *, true as wanted, false as last_scanned from audit.entries
    where id = $3 and ($4 = '' or caller_issuer = $4 and caller_subject = $5) order by recorded_at limit 1
)
`+entriesSQL, true, true, id, issuer, subject)
	if err != nil {
		return Row{}, fmt.Errorf("reading an entry: %w", cause(err))
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanRow)
	row := found.Row
	if errors.Is(err, pgx.ErrNoRows) {
		return Row{}, ErrNotFound
	}
	if err != nil {
		return Row{}, fmt.Errorf("reading an entry: %w", cause(err))
	}
	if row.Outcomes, err = r.outcomes(ctx, "where entry_id = $1", id); err != nil {
		return Row{}, err
	}
	return row, nil
}

// OutcomesOfAttempt returns everything recorded about an attempt, oldest first, whichever entry it names.
func (r *Reader) OutcomesOfAttempt(ctx context.Context, attempt uuid.UUID) ([]OutcomeRow, error) {
	return r.outcomes(ctx, "where attempt_id = $1", attempt)
}

func (r *Reader) outcomes(ctx context.Context, where string, id uuid.UUID) ([]OutcomeRow, error) {
	rows, err := r.pool.Query(ctx, outcomesSQL+where+"\norder by recorded_at, id", id)
	if err != nil {
		return nil, fmt.Errorf("reading outcomes: %w", cause(err))
	}
	out, err := pgx.CollectRows(rows, scanOutcome)
	if err != nil {
		return nil, fmt.Errorf("reading outcomes: %w", cause(err))
	}
	return out, nil
}

// scanned is a row of queries/entries.sql.
type scanned struct {
	Row
	wanted bool // it is asked for
	last   bool // no more rows were looked at than up to this one
}

func scanRow(row pgx.CollectableRow) (scanned, error) {
	var r scanned
	var leaf []byte
	var last struct {
		id            *uuid.UUID
		at            *time.Time
		kind          *OutcomeKind
		state, code   *string
		attempt       *uuid.UUID
		duration, out *int64
	}
	err := row.Scan(&r.RecordedAt, &r.ID, &r.Kind, &r.Verdict, &r.Method, &r.Class, &r.Mode, &r.DryRun, &r.Issuer, &r.Subject,
		&r.CallerKind, &r.Proof, &r.ClientAddress, &r.MachineID, &r.MachineName, &r.Cluster, &r.Digest, &r.Base, &r.Persistent,
		&r.ChangeID, &r.AttemptID, &r.Epoch, &r.AuthorityVersion, &r.PolicyRevision, &r.Codes, &r.Instance, &r.Count, &leaf,
		&r.Record, &last.at, &last.id, &last.attempt, &last.kind, &last.state, &last.code, &last.duration, &last.out, &r.wanted, &r.last)
	if err != nil {
		return scanned{}, err
	}
	r.RecordedAt = r.RecordedAt.UTC()
	copy(r.Leaf[:], leaf)
	if last.id != nil {
		r.Last = &OutcomeRow{
			RecordedAt: last.at.UTC(), ID: *last.id, EntryID: r.ID, AttemptID: *last.attempt, Kind: *last.kind,
			State: *last.state, Code: *last.code, Duration: time.Duration(*last.duration) * time.Microsecond, BytesOut: *last.out,
		}
	}
	return r, nil
}

// scanOutcome reads a row of queries/outcomes.sql.
func scanOutcome(row pgx.CollectableRow) (OutcomeRow, error) {
	var o OutcomeRow
	var leaf []byte
	var micros int64
	err := row.Scan(&o.RecordedAt, &o.ID, &o.EntryID, &o.AttemptID, &o.Kind, &o.State, &o.Code, &o.Digest, &o.Persistent,
		&o.Issuer, &o.Subject, &micros, &o.BytesOut, &o.Instance, &leaf, &o.Record)
	o.RecordedAt = o.RecordedAt.UTC()
	o.Duration = time.Duration(micros) * time.Microsecond
	copy(o.Leaf[:], leaf)
	return o, err
}
