package audit

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// manyEntries writes n entries that differ in everything a Filter asks.
func manyEntries(t *testing.T, db database, n int) {
	t.Helper()
	var rows []statement
	for i := range n {
		e := readEntry()
		e.MachineID = uuid.MustParse(fmt.Sprintf("018f2f6e-0000-7000-8000-00000000000%d", i%3))
		e.MachineName, e.Cluster = fmt.Sprint("worker-", i%3), fmt.Sprint("lab-", i%2)
		e.Caller.Subject, e.Caller.Issuer = fmt.Sprint("u-", i%4), fmt.Sprint("https://id-", i%2)
		e.Method, e.Class = fmt.Sprint("/m/", i%5), fmt.Sprint("class-", i%6)
		e.Verdict = []Verdict{Allowed, Denied, Refused}[i%3]
		e.Kind = []Kind{KindRPC, KindHTTP, KindPolicy, KindSystem}[i%4]
		e.Digest, e.ChangeID = fmt.Sprint("sha256:", i%7), fmt.Sprint("ch-", i%8)
		e.AttemptID = uuid.MustParse(fmt.Sprintf("018f2f6e-0000-7000-8000-0000000000a%d", i%9))
		e.Codes = []string{"BW-1", fmt.Sprint("BW-X", i%3)}
		rows = append(rows, mustStatement(t, e))
	}
	for chunk := range slices.Chunk(rows, 40) { // rows of one statement share a recorded_at or nearly
		if _, err := db.gateway.Exec(t.Context(), insertSearched, transpose(chunk)...); err != nil {
			t.Fatal(err)
		}
	}
}

// walk reads all pages.
func walk(t *testing.T, r *Reader, f Filter, p Page) []Row {
	t.Helper()
	var all []Row
	for {
		rows, next, err := r.List(t.Context(), f, p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows...)
		if next.IsZero() {
			return all
		}
		if len(rows) != p.Limit {
			t.Fatalf("a page of %d rows that is not the last, want %d", len(rows), p.Limit)
		}
		if p.After, err = ParseCursor(next.String()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPagesHoldEveryRowOnceInBothOrders(t *testing.T) {
	db := newDatabase(t)
	manyEntries(t, db, 211)
	r := NewReader(connect(t, db.name, asAuditor))
	all, _, err := r.List(t.Context(), Filter{}, Page{Limit: MaxLimit, Order: OldestFirst})
	if err != nil || len(all) != 211 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	if !slices.IsSortedFunc(all, func(a, b Row) int {
		if c := a.RecordedAt.Compare(b.RecordedAt); c != 0 {
			return c
		}
		return slices.Compare(a.ID[:], b.ID[:])
	}) {
		t.Error("not in the order of recorded_at and id")
	}
	middle, last := all[100], all[210]
	for name, c := range map[string]struct {
		filter Filter
		keep   func(Row) bool
	}{
		"all":              {Filter{}, func(Row) bool { return true }},
		"machine id":       {Filter{MachineID: middle.MachineID}, func(r Row) bool { return r.MachineID == middle.MachineID }},
		"machine name":     {Filter{Machine: "worker-1"}, func(r Row) bool { return r.MachineName == "worker-1" }},
		"cluster":          {Filter{Cluster: "lab-1"}, func(r Row) bool { return r.Cluster == "lab-1" }},
		"person":           {Filter{Issuer: "https://id-1", Subject: "u-3"}, func(r Row) bool { return r.Subject == "u-3" && r.Issuer == "https://id-1" }},
		"digest":           {Filter{Digests: []string{"sha256:2"}}, func(r Row) bool { return r.Digest == "sha256:2" }},
		"method and class": {Filter{Method: "/m/1", Class: "class-1"}, func(r Row) bool { return r.Method == "/m/1" && r.Class == "class-1" }},
		"verdict":          {Filter{Verdict: Denied}, func(r Row) bool { return r.Verdict == Denied }},
		"kind":             {Filter{Kind: KindPolicy}, func(r Row) bool { return r.Kind == KindPolicy }},
		"code":             {Filter{Code: "BW-X2"}, func(r Row) bool { return slices.Contains(r.Codes, "BW-X2") }},
		"attempt":          {Filter{AttemptID: middle.AttemptID}, func(r Row) bool { return r.AttemptID == middle.AttemptID }},
		"change":           {Filter{ChangeID: "ch-5"}, func(r Row) bool { return r.ChangeID == "ch-5" }},
		"time": {Filter{Since: middle.RecordedAt, Until: last.RecordedAt}, func(r Row) bool {
			return !r.RecordedAt.Before(middle.RecordedAt) && r.RecordedAt.Before(last.RecordedAt)
		}},
		"nobody": {Filter{Subject: "' or true --"}, func(Row) bool { return false }},
		"a NUL":  {Filter{Subject: "u-1\x00"}, func(Row) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []Row
			for _, row := range all {
				if c.keep(row) {
					want = append(want, row)
				}
			}
			for _, limit := range []int{1, 7, 211} {
				if limit == 1 && name != "person" {
					continue
				}
				if diff := cmp.Diff(want, walk(t, r, c.filter, Page{Limit: limit, Order: OldestFirst})); diff != "" {
					t.Errorf("oldest first, by %d:\n%s", limit, diff)
				}
				got := walk(t, r, c.filter, Page{Limit: limit})
				slices.Reverse(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("newest first, by %d:\n%s", limit, diff)
				}
			}
		})
	}
}

func TestPagingGoesOnWhileTheBookGrows(t *testing.T) {
	db := newDatabase(t)
	manyEntries(t, db, 30)
	r := NewReader(db.gateway)
	want := walk(t, r, Filter{}, Page{Limit: 30})
	first, next, err := r.List(t.Context(), Filter{}, Page{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	manyEntries(t, db, 30)
	if diff := cmp.Diff(want, append(first, walk(t, r, Filter{}, Page{Limit: 10, After: next})...)); diff != "" {
		t.Error(diff)
	}
}

func TestEntryIsShownWithItsOutcomes(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	e := deniedApply()
	e.ID = newID(t)
	if _, err := b.Write(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	r := NewReader(connect(t, db.name, asAuditor))
	if row, err := r.Get(t.Context(), e.ID); err != nil || row.Last != nil || len(row.Outcomes) != 0 {
		t.Errorf("before an outcome: %+v, %v", row.Last, err)
	}
	o := fullOutcome()
	o.EntryID, o.AttemptID = e.ID, e.AttemptID
	for _, kind := range []OutcomeKind{OutcomeUnanswered, OutcomeAccounted} {
		o.ID, o.Kind = newID(t), kind
		if err := b.WriteOutcome(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	row, err := r.Get(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(row.Outcomes) != 2 || row.Outcomes[0].Kind != OutcomeUnanswered || row.Last == nil || row.Last.ID != o.ID || row.Last.State != o.State {
		t.Errorf("outcomes %+v, last %+v", row.Outcomes, row.Last)
	}
	parsed, err := ParseEntry(row.Record)
	if err != nil || parsed.Reasons[0].Hint != "ask" || string(parsed.Facts) != string(e.Facts) {
		t.Errorf("%+v, %v", parsed, err)
	}
	last := row.Outcomes[1]
	if got, err := ParseOutcome(last.Record); err != nil || got.Message != o.Message || last.Duration != 1500*time.Microsecond || last.Leaf != Leaf(last.Record, last.RecordedAt) {
		t.Errorf("%+v, %+v, %v", got, last, err)
	}
	if of, err := r.OutcomesOfAttempt(t.Context(), e.AttemptID); err != nil || !cmp.Equal(of, row.Outcomes) {
		t.Errorf("of the attempt: %+v, %v", of, err)
	}
	if list, _, err := r.List(t.Context(), Filter{}, Page{}); err != nil || len(list) != 1 || list[0].Record != nil || list[0].Last == nil {
		t.Errorf("in a list: %+v, %v", list, err)
	}
	if _, err := r.Get(t.Context(), uuid.New()); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

func TestSenselessQuestionsAreRefusedAtOnce(t *testing.T) {
	r := NewReader(nil) // no question gets as far as the database
	now := time.Now()
	for name, q := range map[string]struct {
		f Filter
		p Page
	}{
		"verdict": {Filter{Verdict: "maybe"}, Page{}}, "kind": {Filter{Kind: "x"}, Page{}}, "times": {Filter{Since: now, Until: now}, Page{}},
		"limit": {Filter{}, Page{Limit: MaxLimit + 1}}, "negative": {Filter{}, Page{Limit: -1}}, "order": {Filter{}, Page{Order: 2}},
	} {
		if _, _, err := r.List(t.Context(), q.f, q.p); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
}
