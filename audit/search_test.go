package audit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// changing is a denied apply that would have changed these paths.
func changing(t testing.TB, paths ...string) Entry {
	t.Helper()
	e := deniedApply()
	e.ID = newID(t)
	var changes []string
	for _, p := range paths {
		changes = append(changes, fmt.Sprintf(`{"document":"v1alpha1","path":%q,"field":"machine.files.content","before":null,"after":1,"reboot":false}`, p))
	}
	e.Facts = []byte(`{"version":1,"config":{"digest":"d","changes":[` + strings.Join(changes, ",") + `]}}`)
	return e
}

func TestAChangedPathIsFoundByAllThatItLiesIn(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, nil)
	e := changing(t, `machine.nodeLabels["a.b/[c]\"d"]`, "machine.files[0].content", "debug")
	if _, err := b.Write(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	// What looks like changed paths and is none: the text in a string, facts that are no object, and none at all.
	for _, facts := range []string{`{"x":"\"changes\":[{"}`, `"\"changes\":[{\"path\":\"debug\"}]"`, `{"config":{"changes":[{"path":7}]},"changes":[{"path":"debug"}]}`, `{"config":{"changes":[]}}`} {
		other := readEntry()
		other.ID, other.Facts = newID(t), []byte(facts)
		if _, err := b.Write(t.Context(), other); err != nil {
			t.Fatalf("%s: %v", facts, err)
		}
	}
	r := NewReader(connect(t, db.name, asAuditor))
	for _, row := range []struct {
		path string
		want bool
	}{
		{"machine", true},
		{"machine.nodeLabels", true},
		{`machine.nodeLabels["a.b/[c]\"d"]`, true},
		{"machine.files", true},
		{"machine.files[0]", true},
		{"machine.files[0].content", true},
		{"machine.files.content", true}, // the field, whatever its index
		{"debug", true},
		{"machine.node", false},
		{"machine.files[1]", false},
		{`machine.nodeLabels["a`, false},
		{"files", false},
		{"machine.files%", false},
	} {
		list, _, err := r.List(t.Context(), Filter{Path: row.path}, Page{})
		if err != nil || (len(list) == 1 && list[0].ID == e.ID) != row.want || len(list) > 1 {
			t.Errorf("%s: %d rows, %v, want found: %v", row.path, len(list), err, row.want)
		}
	}
	if n := count(t, db.owner, "select count(*) from audit.terms where field = 'code'"); n != 1 {
		t.Errorf("%d codes, want that of the denied apply", n)
	}
}

// Every way a row is inserted has its words found, and a row without any has none.
func TestEveryWayToInsertKeepsTheWords(t *testing.T) {
	db := newDatabase(t)
	r := NewReader(db.gateway)
	ways := map[string]func(Entry) error{
		"in a transaction": func(e Entry) error {
			return pgx.BeginFunc(t.Context(), db.gateway, func(tx pgx.Tx) error {
				_, err := Append(t.Context(), tx, e)
				return err
			})
		},
		"in the book": func(e Entry) error {
			_, err := newBook(t, db, nil).Write(t.Context(), e)
			return err
		},
		"in a batch with others": func(e Entry) error {
			b := newBook(t, db, nil)
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				wg.Go(func() {
					one := readEntry()
					if i == 3 {
						one = e
					}
					_, errs[i] = b.Write(t.Context(), one)
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		},
	}
	for name, write := range ways {
		e := changing(t, "machine.type")
		if err := write(e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range []Filter{{Path: "machine.type"}, {Code: "BW-CONFIG-004"}} {
			list, _, err := r.List(t.Context(), f, Page{})
			if err != nil || !slices.ContainsFunc(list, func(row Row) bool { return row.ID == e.ID }) {
				t.Errorf("%s: %+v does not find it: %v", name, f, err)
			}
		}
	}
	if n := count(t, db.owner, "select count(*) from audit.terms t join audit.entries e on e.id = t.id where e.verdict = 'allow'"); n != 0 {
		t.Errorf("%d words of allowed reads, want none", n)
	}
}

func readPool(t testing.TB, name string) *pgxpool.Pool {
	t.Helper()
	pool, err := ReadPool(t.Context(), shared.Server(t).DSN(name, asAuditor), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestAReadPoolOnlyReads(t *testing.T) {
	db := newDatabase(t)
	pool, err := ReadPool(t.Context(), shared.Server(t).DSN(db.name, asGateway), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "delete from audit.unsequenced"); sqlState(err) != "25006" {
		t.Errorf("%v, want it refused as read-only", err)
	}
	if got := texts(t, pool, "select current_setting('statement_timeout')"); got[0] != "8s" {
		t.Errorf("statement_timeout %s", got)
	}
	if _, err := ReadPool(t.Context(), "postgres://u:s3cret@%zz", "test"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

// leads are filters, and the index that leads through the book for each.
var leads = []struct {
	name   string
	filter Filter
	index  string
	only   bool // rows of the book are looked at only where they fit
}{
	{"nothing", Filter{}, "entries_pk", false},
	{"machine", Filter{Machine: "worker-1"}, "entries_by_machine_name", true},
	{"machine and person", Filter{Machine: "worker-1", Subject: "u-1"}, "entries_by_machine_name", true},
	{"machine and method", Filter{Machine: "worker-1", Method: "/m/1"}, "entries_by_machine_name", true},
	{"machine, person and method", Filter{Machine: "worker-1", Subject: "u-1", Method: "/m/1"}, "entries_by_machine_name", true},
	{"machine and verdict", Filter{Machine: "worker-1", Verdict: Denied}, "entries_refused_machine", true},
	{"machine and class", Filter{Machine: "worker-1", Class: "class-5"}, "entries_acted_machine", true},
	{"person", Filter{Subject: "u-1"}, "entries_by_caller", true},
	{"person and method", Filter{Subject: "u-1", Method: "/m/1"}, "entries_by_caller", true},
	{"person and verdict", Filter{Subject: "u-1", Verdict: Refused}, "entries_refused_caller", true},
	{"person and class", Filter{Subject: "u-1", Class: "class-5"}, "entries_acted_caller", true},
	{"digest", Filter{Digests: []string{"sha256:2"}}, "entries_by_digest", false},
	{"digests", Filter{Digests: []string{"sha256:2", "sha256:3"}}, "entries_by_digest", false},
	{"path", Filter{Path: "machine.type"}, "terms_pk", true},
	{"code", Filter{Code: "BW-X2"}, "terms_pk", true},
	{"machine and code", Filter{Machine: "worker-1", Code: "BW-X2"}, "terms_by_machine", true},
	{"machine and path", Filter{Machine: "worker-1", Path: "machine.type"}, "terms_by_machine", true},
	{"person and code", Filter{Subject: "u-1", Code: "BW-X2"}, "terms_by_caller", true},
	{"person and path", Filter{Subject: "u-1", Path: "machine.type"}, "terms_by_caller", true},
	{"machine, person and code", Filter{Machine: "worker-1", Subject: "u-1", Code: "BW-X2"}, "terms_by_machine", true},
	{"verdict", Filter{Verdict: Refused}, "entries_by_verdict", true},
	{"kind", Filter{Kind: KindPolicy}, "entries_by_kind", true},
	{"class", Filter{Class: "class-5"}, "entries_by_class", true},
	{"method", Filter{Method: "/m/1"}, "entries_by_method", true},
	{"act and person", Filter{Method: "machines.pin", Subject: "u-1"}, "entries_by_method", true},
	{"cluster", Filter{Cluster: "lab-1"}, "entries_pk", false},
	{"change", Filter{ChangeID: "ch-5"}, "entries_by_change", true},
	{"attempt", Filter{AttemptID: uuid.MustParse("018f2f6e-0000-7000-8000-0000000000a1")}, "entries_by_attempt", true},
	{"epoch", Filter{Epoch: uuid.MustParse("5b0f8f5e-1111-4111-8111-111111111111")}, "entries_pk", false},
	{"time", Filter{Since: time.Now().Add(-time.Minute)}, "entries_pk", false},
}

// sorts finds a plan that sorts entries; outcomes of one entry may be.
var sorts = regexp.MustCompile(`Sort Key: (e|e_[0-9]+|n|looked|entries[0-9_]*)\.`)

// No page reads a partition that has rows from end to end, in either order, first or later, however rare what is asked.
func TestEveryFilterGoesThroughAnIndex(t *testing.T) {
	db := newDatabase(t)
	manyEntries(t, db, 6000)
	if _, err := db.owner.Exec(t.Context(), "analyze audit.entries, audit.outcomes, audit.terms"); err != nil {
		t.Fatal(err)
	}
	populated := texts(t, db.owner, "select tableoid::regclass::text from audit.entries limit 1")[0]
	// ofPartition is the index of the partition that has rows, by that of the whole table.
	ofPartition := func(index string) string {
		if found := texts(t, db.owner, fmt.Sprintf(`select i.indexrelid::regclass::text from pg_inherits h join pg_index i on i.indexrelid = h.inhrelid
			where h.inhparent = 'audit.%s'::regclass and i.indrelid = '%s'::regclass`, index, populated)); len(found) == 1 {
			index = found[0]
		}
		return strings.TrimPrefix(index, "audit.")
	}
	pool := readPool(t, db.name)
	first, _, err := NewReader(pool).List(t.Context(), Filter{}, Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	planOf := func(sql string) string {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		// The plan is one for all values, so none are given.
		results, err := conn.Conn().PgConn().Exec(t.Context(), "explain (generic_plan) "+sql).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for _, row := range results[0].Rows {
			plan.Write(row[0])
			plan.WriteByte('\n')
		}
		return plan.String()
	}
	explain := func(f Filter, p Page) string {
		if l := look(f, p, 50, pageDepth); l.twoSteps {
			return planOf(l.narrow())
		} else {
			return planOf(l.statement(50))
		}
	}
	short := strings.TrimPrefix(populated, "audit.")
	if plan := planOf(placesSQL + entriesSQL); strings.Contains(plan, "Seq Scan on "+short) ||
		!strings.Contains(plan, "Index Scan using "+ofPartition("entries_pk")+" on") && !strings.Contains(plan, "Index Scan using "+ofPartition("entries_by_id")+" on") {
		t.Errorf("rows at places: %s", plan)
	}
	for _, row := range leads {
		index := ofPartition(row.index)
		scan := regexp.MustCompile(`Index Scan (Backward )?using ` + index + ` on`)
		if row.only {
			scan = regexp.MustCompile(`Index Only Scan (Backward )?using ` + index + ` on`)
		}
		for name, page := range map[string]Page{"newest": {}, "oldest": {Order: OldestFirst}, "next": {After: first[0].Cursor()}} {
			t.Run(row.name+" "+name, func(t *testing.T) {
				plan := explain(row.filter, page)
				if strings.Contains(plan, "Seq Scan on "+short) || !scan.MatchString(plan) || sorts.MatchString(plan) && row.name != "digests" {
					t.Errorf("want %s, no sequential scan and no sort:\n%s", scan, plan)
				}
			})
		}
	}
	// Control: without the index the plan is another.
	for index, f := range map[string]Filter{"entries_by_change": {ChangeID: "ch-5"}, "terms_by_machine": {Machine: "worker-1", Code: "BW-X2"}} {
		own := ofPartition(index)
		if _, err := db.owner.Exec(t.Context(), "drop index audit."+index); err != nil {
			t.Fatal(err)
		}
		if plan := explain(f, Page{}); strings.Contains(plan, own) {
			t.Errorf("control: %s", plan)
		}
	}
}

func TestIndexesOfLaterMigrationsAreOnEveryPartition(t *testing.T) {
	db := newDatabase(t)
	if _, err := EnsurePartitions(t.Context(), db.gateway, PartitionsAhead+2); err != nil {
		t.Fatal(err)
	}
	want := texts(t, db.owner, "select count(*)::text from pg_index where indrelid = 'audit.entries'::regclass")[0]
	for _, got := range texts(t, db.owner, `select max(c.relname) || ' ' || count(i.*) filter (where exists (select from pg_inherits h where h.inhrelid = i.indexrelid))
		from pg_class c join pg_index i on i.indrelid = c.oid where c.relispartition and c.relname like 'entries%' and c.relkind = 'r' group by c.oid`) {
		if !strings.HasSuffix(got, " "+want) {
			t.Errorf("%s indexes that belong to the table's, want %s", got, want)
		}
	}
}

// What is asked besides is looked for a few thousand rows at a time, and still every row is found once.
func TestAPageLooksThroughSoManyRowsAndGoesOn(t *testing.T) {
	db := newDatabase(t)
	manyEntries(t, db, 4*pageDepth.rows)
	e := readEntry()
	e.ID, e.MachineName, e.Cluster = newID(t), "worker-1", "rare"
	if _, err := newBook(t, db, nil).Write(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	r := NewReader(db.gateway)
	for _, f := range []Filter{
		{Verdict: Refused, Kind: KindSystem, Cluster: "lab-1"},
		{Method: "/m/1", Cluster: "rare"},
		{Cluster: "rare"},
		{Code: "BW-1", Cluster: "lab-1", Kind: KindRPC},
		{Code: "BW-1", Cluster: "rare"},
	} {
		for _, order := range []Order{NewestFirst, OldestFirst} {
			var got []uuid.UUID
			p, pages := Page{Limit: 50, Order: order}, 0
			for {
				rows, next, err := r.List(t.Context(), f, p)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					got = append(got, row.ID)
				}
				if pages++; next.IsZero() {
					break
				}
				p.After = next
			}
			conditions, q := []string{"true"}, &query{}
			for _, c := range f.conditions() {
				conditions = append(conditions, q.text(c))
			}
			rows, err := db.owner.Query(t.Context(), "select id from audit.entries e where "+strings.Join(conditions, " and ")+" order by recorded_at, id", q.args...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			if err != nil {
				t.Fatal(err)
			}
			if order == NewestFirst {
				slices.Reverse(want)
			}
			if !cmp.Equal(want, got, cmp.Comparer(func(a, b []uuid.UUID) bool { return slices.Equal(a, b) })) {
				t.Errorf("%+v: %d rows in %d pages, want %d", f, len(got), pages, len(want))
			}
			if f.Cluster == "rare" && f.Code == "BW-1" && pages < 3 {
				t.Errorf("%+v: %d pages: it was looked through at once", f, pages)
			}
		}
	}
}

func TestOneCallersOwn(t *testing.T) {
	db := newDatabase(t)
	e := readEntry()
	e.ID = newID(t)
	if _, err := newBook(t, db, nil).Write(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	r := NewReader(db.gateway)
	if row, err := r.GetOf(t.Context(), e.ID, e.Caller.Issuer, e.Caller.Subject); err != nil || row.ID != e.ID {
		t.Errorf("%v", err)
	}
	for name, who := range map[string][2]string{
		"another subject": {e.Caller.Issuer, "x"}, "another issuer": {"x", e.Caller.Subject}, "nobody": {"", ""}, "no subject": {e.Caller.Issuer, ""}, "no issuer": {"", e.Caller.Subject},
	} {
		if _, err := r.GetOf(t.Context(), e.ID, who[0], who[1]); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
}

// A row of an index has its bounds: what is longer would refuse the decision. Here every text that indexes hold is as long
// as a gateway can write it, of bytes that cannot be made shorter.
func TestTheLongestTextsFitIntoEveryIndex(t *testing.T) {
	db := newDatabase(t)
	r := rand.New(rand.NewPCG(1, 2))
	wide := func(n int) string { // four bytes each
		out := make([]rune, n)
		for i := range out {
			out[i] = rune(0x20000 + r.IntN(0xa000))
		}
		return string(out)
	}
	e := changing(t, wide(2*maxTerm), "machine."+wide(maxTerm))
	for _, s := range []*string{
		&e.MachineName, &e.Caller.Subject, &e.Caller.Issuer, &e.Method, &e.Class, &e.Cluster, &e.Digest, &e.ChangeID,
	} {
		*s = wide(maxColumn)
	}
	e.Verdict, e.Codes = Refused, []string{wide(maxColumn), wide(maxColumn)}
	if _, err := newBook(t, db, nil).Write(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Filter{
		{Machine: e.MachineName, Subject: e.Caller.Subject, Method: e.Method},
		{Subject: e.Caller.Subject, Method: e.Method},
		{Machine: e.MachineName, Code: e.Codes[0], Subject: e.Caller.Subject},
		{Machine: e.MachineName, Path: "machine"},
		{Class: e.Class},
	} {
		if list, _, err := NewReader(db.gateway).List(t.Context(), f, Page{}); err != nil || len(list) != 1 {
			t.Errorf("%d rows, %v", len(list), err)
		}
	}
	if n := count(t, db.owner, "select max(length(term)) from audit.terms"); n != maxTerm {
		t.Errorf("the longest term has %d characters, want %d", n, maxTerm)
	}
	// Control: a little more, and PostgreSQL refuses the row.
	_, err := db.owner.Exec(t.Context(), `insert into audit.terms (field, term, recorded_at, id, machine_name, caller_subject)
		select field, $1, recorded_at, gen_random_uuid(), machine_name, caller_subject from audit.terms limit 1`, wide(maxTerm+32))
	if sqlState(err) != "54000" {
		t.Errorf("control: %v", err)
	}
	_, err = db.owner.Exec(t.Context(), `insert into audit.entries (id, kind, verdict, authority_version, count, record, machine_name, method, caller_subject)
		values (gen_random_uuid(), 'rpc', 'allow', 1, 1, '{"v":1}', $1, $2, $3)`, wide(maxColumn/2), wide(maxColumn/2), wide(maxColumn/2))
	if sqlState(err) != "54000" {
		t.Errorf("control: %v", err)
	}
}
