package audit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

func TestAppendLivesAndDiesWithItsTransaction(t *testing.T) {
	for name, commit := range map[string]bool{"rolled back": false, "control: committed": true} {
		t.Run(name, func(t *testing.T) {
			db := newDatabase(t)
			tx, err := db.gateway.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r, err := Append(t.Context(), tx, deniedApply())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := AppendOutcome(t.Context(), tx, Outcome{EntryID: r.ID, Kind: OutcomeState, State: "completed"}); err != nil {
				t.Fatal(err)
			}
			want, end := 0, tx.Rollback
			if commit {
				want, end = 1, tx.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{
				"select count(*) from audit.entries", "select count(*) from audit.outcomes",
				"select count(*) from audit.unsequenced where source = 'entry'", "select count(*) from audit.unsequenced where source = 'outcome'",
			} {
				if n := count(t, db.owner, sql); n != want {
					t.Errorf("%s: %d, want %d", sql, n, want)
				}
			}
		})
	}
}

func TestLeafIsTheDatabasesOwnAndGoAgrees(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	e := deniedApply()
	e.ID = newID(t)
	r, err := b.Write(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	row, err := NewReader(db.gateway).Get(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(e.Record()), string(row.Record)); diff != "" {
		t.Errorf("the record is not stored verbatim:\n%s", diff)
	}
	if want := Leaf(e.Record(), r.RecordedAt); r.Leaf != want || row.Leaf != want {
		t.Errorf("receipt %x, row %x, want %x", r.Leaf, row.Leaf, want)
	}
	if !r.RecordedAt.Equal(row.RecordedAt) || r.ID != e.ID {
		t.Errorf("receipt %v, row recorded at %v", r, row.RecordedAt)
	}
	if r.Leaf == Leaf(e.Record(), r.RecordedAt.Add(time.Microsecond)) || r.Leaf == Leaf(readEntry().Record(), r.RecordedAt) {
		t.Error("control: the leaf does not depend on time and record")
	}
}

func TestTimeIsTheDatabasesNotTheGateways(t *testing.T) {
	db := newDatabase(t)
	tx, err := db.gateway.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var before, after, began time.Time
	if err := tx.QueryRow(t.Context(), "select clock_timestamp(), now()").Scan(&before, &began); err != nil {
		t.Fatal(err)
	}
	e := readEntry()
	e.At = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	r, err := Append(t.Context(), tx, e)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRow(t.Context(), "select clock_timestamp()").Scan(&after); err != nil {
		t.Fatal(err)
	}
	if r.RecordedAt.Before(before) || r.RecordedAt.After(after) || r.RecordedAt.Equal(began) {
		t.Errorf("recorded at %v, want between %v and %v, and not the transaction's begin", r.RecordedAt, before, after)
	}
}

// nasty is what a stranger may put into any string.
const nasty = "nul\x00 bad\xff\xfe \xed\xa0\x80 quote' \"\\ {} ,\x1f $1 \u2028 end"

func TestNoByteOfAStringRefusesARow(t *testing.T) {
	db := newDatabase(t)
	long := nasty + strings.Repeat("ü", 100_000)
	e := Entry{
		Kind: KindRPC, Verdict: Denied, Method: long, Class: long, Mode: long, ClientAddress: long, MachineID: newID(t),
		MachineName: long, Cluster: long, NodeID: long, Digest: long, Base: long, Persistent: long, ChangeID: long, AttemptID: newID(t),
		PolicyRevision: long, OPAVersion: long, Codes: []string{nasty, long, ""}, Detail: long, Instance: long,
		Caller: Caller{
			Issuer: long, Subject: long, Name: long, Kind: long, Groups: []string{long}, Proof: long, CertificateSerial: long,
			SPKI: long, TokenID: long,
		},
		Reasons: []policy.Reason{{Code: long, Message: long, Rule: long, Severity: policy.Severity(long), Hint: long}},
		Facts:   []byte("{\"a\":\"\\u0000 \\ud800 \xff\"}"),
	}
	o := Outcome{
		Kind: OutcomeAnswered, State: long, Code: long, Message: long, Digest: long, Persistent: long, ActiveVersion: long,
		PersistentVersion: long, Caller: e.Caller, Instance: long,
	}
	var ids []uuid.UUID
	err := pgx.BeginFunc(t.Context(), db.gateway, func(tx pgx.Tx) error {
		r, err := Append(t.Context(), tx, e)
		if err != nil {
			return err
		}
		ids = append(ids, r.ID)
		o.EntryID = r.ID
		_, err = AppendOutcome(t.Context(), tx, o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// jsonb is stricter than JSON; an auditor's SQL must be able to read every record.
	if n := count(t, db.owner, `select count(*) from (select record from audit.entries union all select record from audit.outcomes)
		where convert_from(record, 'UTF8')::jsonb ->> 'v' = '1'`); n != 2 {
		t.Errorf("%d records are jsonb, want 2", n)
	}
	row, err := NewReader(db.gateway).Get(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := `nul\x00 bad\xff\xfe \xed\xa0\x80 quote' "\ {}`; !strings.HasPrefix(row.Method, want) {
		t.Errorf("method %q, want it to begin %q", row.Method[:60], want)
	}

	// Control: the bytes as they came are what PostgreSQL refuses.
	if _, err := db.gateway.Exec(t.Context(), "select $1::text", nasty); sqlState(err) != "22021" {
		t.Errorf("control: %v, want an invalid byte sequence", err)
	}
}

func TestOneRowAndManyRowsAreWrittenAlike(t *testing.T) {
	db := newDatabase(t)
	entries := []Entry{readEntry(), deniedApply(), {Kind: KindSystem, Verdict: Refused, Codes: []string{"A", "B"}}}
	outcomes := []Outcome{fullOutcome(), {EntryID: newID(t), Kind: OutcomeLate}}
	write := func(many bool) {
		var b pgx.Batch
		var es, os []statement
		for _, e := range entries {
			s, err := entryStatement(e)
			if err != nil {
				t.Fatal(err)
			}
			es = append(es, s)
		}
		for _, o := range outcomes {
			s, err := outcomeStatement(o)
			if err != nil {
				t.Fatal(err)
			}
			os = append(os, s)
		}
		if many {
			queueRows(&b, es, insertSearched)
			queueRows(&b, os, insertOutcomes)
		} else {
			for _, s := range append(es, os...) {
				sql, args := s.sql()
				b.Queue(sql, args...)
			}
		}
		if err := db.gateway.SendBatch(t.Context(), &b).Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range entries {
		entries[i].ID = newID(t)
	}
	for i := range outcomes {
		outcomes[i].ID = newID(t)
	}
	write(false)
	write(true)
	const same = `select count(*) from (select id, to_jsonb(t) - 'recorded_at' - 'leaf' as cols, count(*) as n from audit.%s t group by 1, 2) where n = 2`
	if n := count(t, db.owner, strings.ReplaceAll(same, "%s", "entries")); n != len(entries) {
		t.Errorf("%d entries alike, want %d", n, len(entries))
	}
	if n := count(t, db.owner, strings.ReplaceAll(same, "%s", "outcomes")); n != len(outcomes) {
		t.Errorf("%d outcomes alike, want %d", n, len(outcomes))
	}
}

func TestErrorsQuoteNothingOfARow(t *testing.T) {
	db := newDatabase(t)
	var log lines
	b := newBook(t, db, func(c *BookConfig) { c.Logger = log.logger() })
	e := readEntry()
	e.Kind, e.Detail, e.Method = "nonsense", "s3cret", "s3cret"
	_, err := b.Write(t.Context(), e)
	var row *RowError
	if !errors.As(err, &row) || row.Constraint != "entries_kind_known" {
		t.Fatalf("%v, want the constraint's name", err)
	}
	if text := err.Error() + log.String(); strings.Contains(text, "s3cret") || strings.Contains(text, "nonsense") {
		t.Errorf("a value of the row is in %q", text)
	}
	// Control: the database's own words hold the row.
	_, raw := db.owner.Exec(context.Background(), insertEntry, mustStatement(t, e).args...)
	if text := detail(raw); !strings.Contains(text, "s3cret") {
		t.Errorf("control: %q", text)
	}
}
