package audit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStatsCountEveryEntryOnce(t *testing.T) {
	db := newDatabase(t)
	r := NewReader(readPool(t, db.name))
	if c, err := r.Stats(t.Context(), time.Time{}, time.Time{}, nil); err != nil || c.Entries != 0 {
		t.Errorf("of an empty book: %+v, %v", c, err)
	}
	manyEntries(t, db, 60)
	b := newBook(t, db, nil)
	refused := readEntry()
	refused.Verdict, refused.Count, refused.Caller, refused.MachineName, refused.Codes = Refused, 7, Caller{}, "", []string{"BW-X2"}
	if _, err := b.Write(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	var told time.Time
	c, err := r.Stats(t.Context(), time.Time{}, time.Time{}, func(upTo time.Time) { told = upTo })
	if err != nil {
		t.Fatal(err)
	}
	if c.Entries != 61 || c.Calls != 67 || !told.Equal(c.Until) {
		t.Errorf("%d entries, %d calls, told up to %s", c.Entries, c.Calls, told)
	}
	for name, lists := range map[string][2][]Counted{
		"verdicts": {c.Verdicts, {{Value: "refuse", Entries: 21, Calls: 27}, {Value: "allow", Entries: 20, Calls: 20}, {Value: "deny", Entries: 20, Calls: 20}}},
		"machines": {c.Machines, {{Value: "worker-0", Entries: 20, Calls: 20}, {Value: "worker-1", Entries: 20, Calls: 20}, {Value: "worker-2", Entries: 20, Calls: 20}}},
		"codes":    {c.Codes, {{Value: "BW-1", Entries: 60, Calls: 60}, {Value: "BW-X2", Entries: 21, Calls: 27}, {Value: "BW-X0", Entries: 20, Calls: 20}, {Value: "BW-X1", Entries: 20, Calls: 20}}},
		"persons": {c.Persons, {
			{Value: "u-0", Issuer: "https://id-0", Entries: 15, Calls: 15},
			{Value: "u-1", Issuer: "https://id-1", Entries: 15, Calls: 15},
			{Value: "u-2", Issuer: "https://id-0", Entries: 15, Calls: 15},
			{Value: "u-3", Issuer: "https://id-1", Entries: 15, Calls: 15},
		}},
	} {
		if diff := cmp.Diff(lists[1], lists[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(c.Methods) != 6 || c.Methods[0].Entries != 12 {
		t.Errorf("methods: %+v", c.Methods)
	}
	// A time that ends before the last entry leaves it out.
	rows, _, err := r.List(t.Context(), Filter{}, Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := r.Stats(t.Context(), time.Time{}, rows[0].RecordedAt, nil); err != nil || c.Entries != 60 {
		t.Errorf("%d entries before the last one, %v", c.Entries, err)
	}
}
