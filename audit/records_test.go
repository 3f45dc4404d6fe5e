package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
)

// A page of records ends where they are as much as a page may hold, and goes on there. The control is the same page
// without the records, which holds all of the rows.
func TestAPageOfRecordsIsBoundedInBytes(t *testing.T) {
	db := newDatabase(t)
	const n, size = 10, 1 << 20
	var ids []uuid.UUID
	for i := range n {
		e := Entry{ID: uuid.Must(uuid.NewV7()), Kind: KindRPC, Verdict: Allowed, Method: fmt.Sprintf("/m/%d", i), Count: 1}
		long, err := json.Marshal(bytes.Repeat([]byte("a"), size*3/4)) // base64 makes it longer by a third
		if err != nil {
			t.Fatal(err)
		}
		e.Facts = append(append([]byte(`{"long":`), long...), '}')
		if _, err := db.gateway.Exec(t.Context(), insertSearched, transpose([]statement{mustStatement(t, e)})...); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	r, p := NewReader(db.gateway), Page{Limit: n, Order: OldestFirst}
	if rows, next, err := r.List(t.Context(), Filter{}, p); err != nil || len(rows) != n || !next.IsZero() {
		t.Fatalf("control: %d rows, %v", len(rows), err)
	}
	p.Records = true
	first, next, err := r.List(t.Context(), Filter{}, p)
	if err != nil || len(first) != PageBytes/size || next.IsZero() {
		t.Fatalf("%d rows and the end %t, %v", len(first), next.IsZero(), err)
	}
	p.After = next
	rest, next, err := r.List(t.Context(), Filter{}, p)
	if err != nil || len(first)+len(rest) != n || !next.IsZero() {
		t.Fatalf("then %d rows and the end %t, %v", len(rest), next.IsZero(), err)
	}
	for i, row := range append(first, rest...) {
		if e, err := ParseEntry(row.Record); err != nil || e.ID != ids[i] || row.Last != nil {
			t.Errorf("row %d is %s, %v", i, e.ID, err)
		}
	}
}
