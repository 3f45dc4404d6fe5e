package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// fewWords writes n entries of few different values each, some of them empty.
func fewWords(t *testing.T, db database, r *rand.Rand, n int) {
	t.Helper()
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	rows := make([]statement, n)
	for i := range rows {
		e := changing(t, "machine.type", pick("machine.type", "cluster.id"))
		if r.IntN(2) == 0 {
			e.Facts = nil
		}
		e.Codes = [][]string{nil, {"BW-1"}, {"BW-1", "BW-2"}}[r.IntN(3)]
		e.MachineName, e.Caller.Subject = pick("", "worker-1", "worker-2"), pick("", "u-1", "u-2")
		e.Method, e.Class = pick("", "/m/1", "machines.pin"), pick("", "read", "apply")
		e.Kind, e.Verdict, e.Cluster = Kind(pick("rpc", "http")), Verdict(pick("allow", "deny", "refuse")), pick("", "lab")
		e.Digest, e.ChangeID, e.AttemptID = pick("", "sha256:1", "sha256:2"), pick("", "ch-1"), uuid.Nil
		rows[i] = mustStatement(t, e)
	}
	for chunk := range slices.Chunk(rows, 40) {
		if _, err := db.gateway.Exec(t.Context(), insertSearched, transpose(chunk)...); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is asked together, however little a page may look through and wherever that ends, the pages hold what a plain
// look at every row finds, each row once and in order.
func TestPagesOfEveryCombinationAreThoseOfAPlainFilter(t *testing.T) {
	db := newDatabase(t)
	r := rand.New(rand.NewPCG(11, 13))
	const n = 160
	fewWords(t, db, r, n)
	all, err := NewReader(db.gateway).everyRow(t)
	if err != nil || len(all) != n {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	parts := []func(*Filter){
		func(f *Filter) { f.Machine = "worker-1" }, func(f *Filter) { f.Subject = "u-1" }, func(f *Filter) { f.Code = "BW-1" },
		func(f *Filter) { f.Path = "machine.type" }, func(f *Filter) { f.Verdict = Denied }, func(f *Filter) { f.Verdict = Allowed },
		func(f *Filter) { f.Class = "apply" }, func(f *Filter) { f.Class = "read" }, func(f *Filter) { f.Method = "/m/1" },
		func(f *Filter) { f.Method = "machines.pin" }, func(f *Filter) { f.Kind = KindHTTP }, func(f *Filter) { f.Cluster = "lab" },
		func(f *Filter) { f.Digests = []string{"sha256:1", "sha256:2"} }, func(f *Filter) { f.ChangeID = "ch-1" },
		func(f *Filter) { f.Reasoned = true },
		func(f *Filter) { f.Since, f.Until = all[n/4].RecordedAt, all[3*n/4].RecordedAt },
	}
	walked, paged := 0, 0
	for mask := range 1 << len(parts) {
		var f Filter
		asked := 0
		for i, part := range parts {
			if mask>>i&1 == 1 {
				part(&f)
				asked++
			}
		}
		if asked == 3 && r.IntN(10) != 0 || asked > 3 && r.IntN(300) != 0 { // every pair, and some of the others
			continue
		}
		reader := &Reader{pool: db.gateway, depth: depth{index: 5 + r.IntN(30), rows: 4 + r.IntN(20), all: 5 + r.IntN(30)}}
		p := Page{Limit: 1 + r.IntN(12), Order: Order(r.IntN(2)), Records: r.IntN(2) == 0}
		want := plainly(t, db, f, p.Order)
		var got []uuid.UUID
		for pages := 0; ; pages++ {
			rows, next, err := reader.List(t.Context(), f, p)
			if err != nil {
				t.Fatalf("%+v by %+v, %+v: %v", f, p, reader.depth, err)
			}
			if len(rows) > p.Limit || pages > n {
				t.Fatalf("%+v by %+v, %+v: a page of %d rows, %d pages", f, p, reader.depth, len(rows), pages)
			}
			for _, row := range rows {
				got = append(got, row.ID)
				if e, err := ParseEntry(row.Record); p.Records && (err != nil || e.ID != row.ID) || !p.Records && row.Record != nil {
					t.Fatalf("%+v by %+v: a record of %s, %v", f, p, e.ID, err)
				}
			}
			if next.IsZero() {
				paged += pages
				break
			}
			p.After = next
		}
		if counted, err := reader.Count(t.Context(), f); err != nil || counted != int64(len(want)) {
			t.Errorf("%+v: %d counted of %d, %v", f, counted, len(want), err)
		}
		if walked++; !slices.Equal(got, want) {
			t.Errorf("%+v, %+v: %d rows, want %d", f, reader.depth, len(got), len(want))
		}
	}
	if t.Logf("%d filters, %d further pages", walked, paged); paged < walked {
		t.Errorf("control: %d further pages of %d filters: nothing was looked through in parts", paged, walked)
	}
}

// everyRow reads all rows, oldest first.
func (r *Reader) everyRow(t *testing.T) ([]Row, error) {
	t.Helper()
	rows, _, err := r.List(t.Context(), Filter{}, Page{Limit: MaxLimit, Order: OldestFirst})
	return rows, err
}

// plainly finds the rows by a look at every one.
func plainly(t *testing.T, db database, f Filter, o Order) []uuid.UUID {
	t.Helper()
	q := &query{}
	where := append([]string{"true"}, q.place("e", f, Page{})...)
	for _, c := range f.conditions() {
		where = append(where, q.text(c))
	}
	rows, err := db.owner.Query(t.Context(), fmt.Sprintf("select id from audit.entries e where %s order by recorded_at, id", strings.Join(where, " and ")), q.args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	if o == NewestFirst {
		slices.Reverse(list)
	}
	return list
}
