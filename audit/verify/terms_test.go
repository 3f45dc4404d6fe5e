package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"bronzeward/audit"
)

// Every column of the tables is known here: a column that was added without being compared would prove nothing.
func TestEveryColumnIsCompared(t *testing.T) {
	d := newDatabase(t)
	for _, tab := range []*table{entries, outcomes} {
		rows, err := d.owner.Query(t.Context(), "select attname::text from pg_attribute where attrelid = ('audit.' || $1)::regclass and attnum > 0 and not attisdropped order by 1", tab.name)
		if err != nil {
			t.Fatal(err)
		}
		var have, want []string
		var name string
		for rows.Next() {
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			have = append(have, name)
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		for _, c := range tab.columns {
			want = append(want, c.name)
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("audit.%s has the columns\n%v, verified are\n%v", tab.name, have, want)
		}
	}
}

// texts are words and paths, odd ones among them.
func texts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`(\.?[a-z"\\ ]{0,3}|\[[0-9]{0,2}\]|\["([a-z.\]"]|\\"|\\\\){0,3}"\]){0,4}`),
		rapid.StringOf(rapid.SampledFrom([]rune(".[]\"\\aä\n\r \t\x1f\x00…𝄞"))),
		rapid.Custom(func(t *rapid.T) string {
			return "a." + strings.Repeat(rapid.SampledFrom([]string{"x", "ä", "𝄞", "b.", "[0]"}).Draw(t, "long"), rapid.IntRange(100, 700).Draw(t, "times"))
		}),
		rapid.String(),
	)
}

// The terms that are expected are those that the database makes of what a gateway writes.
func TestTermsAreThoseOfTheDatabase(t *testing.T) {
	d := newDatabase(t)
	ctx := context.WithoutCancel(t.Context())
	rapid.Check(t, func(t *rapid.T) {
		e := sample(0)
		e.ID, e.Codes = uuid.New(), rapid.SliceOfN(texts(), 0, 4).Draw(t, "codes")
		e.MachineName, e.Caller.Subject = texts().Draw(t, "machine"), texts().Draw(t, "caller")
		changes := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			change := map[string]any{}
			for _, name := range []string{"path", "field"} {
				if rapid.IntRange(0, 5).Draw(t, "has "+name) > 0 {
					change[name] = texts().Draw(t, name)
				}
			}
			changes = append(changes, change)
		}
		facts, err := json.Marshal(map[string]any{"config": map[string]any{"changes": changes}})
		if err != nil {
			t.Fatal(err)
		}
		e.Facts = rapid.SampledFrom([][]byte{
			facts, facts, facts, facts, facts, nil, []byte(`{"config":null}`), []byte(`["changes"]`), []byte(`no JSON "changes":[{`),
			[]byte(`{"config":{"changes":[{"path":"a"}]},"config":{"changes":[{"path":"b"},null,[],{"path":null}]}}`),
			[]byte(`{"config":{"changes":[{"path":"a"}]},"config":{}}`), []byte(`{"config":[{"changes":[{"path":"a"}]}]}`),
			[]byte(`{"change":{"changes":[{"path":"a"}]}}`), []byte(`{"Config":{"changes":[{"path":"a"}]}}`), []byte(`{"config":{"changes":[{"Path":"a","path":"\u0000"},{"path":"\ud800b"}]}}`),
		}).Draw(t, "facts")

		tx, err := d.owner.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := audit.Append(ctx, tx, e); err != nil {
			t.Fatal(err)
		}
		var record []byte
		if err := tx.QueryRow(ctx, "select record from audit.entries where id = $1", e.ID).Scan(&record); err != nil {
			t.Fatal(err)
		}
		values := make([]member, len(entries.columns))
		if !scan(record, entries.members, values) {
			t.Fatalf("the record is not canonical: %s", record)
		}
		rows, err := tx.Query(ctx, "select field, term, machine_name is not distinct from $2 and caller_subject is not distinct from $3 from audit.terms where id = $1",
			e.ID, maybeOf(values[columnMachine]).pointer(), maybeOf(values[columnCaller]).pointer())
		if err != nil {
			t.Fatal(err)
		}
		want, got := []string{}, []string{}
		for rows.Next() {
			var x term
			var same bool
			if err := rows.Scan(&x.field, &x.text, &same); err != nil {
				t.Fatal(err)
			}
			if !same {
				t.Errorf("%s %q has not the entry's machine and caller", x.field, x.text)
			}
			want = append(want, fmt.Sprintf("%s %q", x.field, x.text))
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		for _, x := range termsOf(record, values) {
			got = append(got, fmt.Sprintf("%s %q", x.field, x.text))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngives    %v\nexpected %v", record, got, want)
		}
	})
}

func TestASumIsOfAMultiset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTermSums([]chunk{{}})
		draw := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 12)
		a, b := draw.Draw(t, "one"), draw.Draw(t, "other")
		sumOf := func(list []int) (total sum) {
			for _, n := range list {
				h, _ := s.hash(term{field: "code", text: string(rune(n))}, int64(n), uuid.UUID{}, nil)
				total.add(h)
			}
			return total
		}
		same := sumOf(a) == sumOf(b)
		slices.Sort(a)
		slices.Sort(b)
		if same != slices.Equal(a, b) {
			t.Errorf("%v and %v have the same sum: %v", a, b, same)
		}
	})
	// It carries over words.
	var s sum
	h := hash{}
	for i := range h {
		h[i] = 0xff
	}
	one := hash{1}
	s.add(h)
	s.add(one)
	if s != (sum{}) {
		t.Errorf("2^256 is %v", s)
	}
}

// What a month that is detached leaves behind is accepted as the month is; what has no leaf is not.
func TestTermsOfADetachedMonthAreAccepted(t *testing.T) {
	d := newDatabase(t)
	month := before().Format("2006-01")
	behind := count(t, d, "select count(*) from audit.terms where recorded_at < '"+before().AddDate(0, 1, 0).Format("2006-01-02")+"+00'")
	if behind < 50 {
		t.Fatalf("%d terms stay behind", behind)
	}
	d.tamper(t, "drop table audit.entries_"+before().Format("2006_01")+"; drop table audit.outcomes_"+before().Format("2006_01"))
	if r := d.verify(t, Options{Detached: []string{month}}); !r.Whole {
		t.Errorf("told %v", told(r.Findings))
	}
	if r := d.verify(t, Options{}); r.Counts[Term] != 0 || r.Counts[Detached] != 2 {
		t.Errorf("not accepted: %v", r.Counts)
	}
	d.tamper(t, "insert into audit.terms select 'code', 'BW-X', recorded_at, gen_random_uuid() from audit.terms order by recorded_at limit 1")
	if r := d.verify(t, Options{Detached: []string{month}}); r.Counts[Term] != 1 || len(r.Counts) != 1 {
		t.Errorf("one put in besides: %v", told(r.Findings))
	}
}

// With a range, the terms of that range alone are compared.
func TestTermsOfARange(t *testing.T) {
	d := newDatabase(t)
	begin := d.moment(t, "select recorded_at from audit.leaves where tree = 1 and index = 300")
	early, late := d.expand(t, `term terms 1/{D20} [] {D20.id} code "BW-MODE-001"`), d.expand(t, `term terms 1/{D400} [] {D400.id} code "BW-MODE-001"`)
	d.tamper(t, d.expand(t, `delete from audit.terms where id in ('{D20.id}', '{D400.id}') and term = 'BW-MODE-001'`))
	for what, row := range map[string]struct {
		options Options
		want    []string
	}{
		"since": {Options{Since: begin}, []string{late}}, "until": {Options{Until: begin}, []string{early}}, "both": {Options{Since: begin, Until: begin.AddDate(0, 0, 1)}, []string{late}},
		"neither": {Options{}, []string{early, late}},
	} {
		slices.Sort(row.want)
		if got := told(d.verify(t, row.options).Findings); !slices.Equal(got, row.want) {
			t.Errorf("%s: told %v, want %v", what, got, row.want)
		}
	}
}

// A book that was not migrated to have terms is verified without them; its schema version alone does not say so.
func TestABookWithoutTermsIsVerified(t *testing.T) {
	d := newDatabase(t)
	d.tamper(t, d.expand(t, `update audit.schema_version set version = 3; delete from audit.terms where id = '{D20.id}'`))
	if r := d.verify(t, Options{}); r.Counts[Term] != 2 {
		t.Errorf("the version says that there are none: %v", r.Counts)
	}
	if _, err := d.owner.Exec(t.Context(), "drop table audit.terms"); err != nil {
		t.Fatal(err)
	}
	if r := d.verify(t, Options{}); !r.Whole {
		t.Errorf("told %v", told(r.Findings))
	}
	if _, err := d.owner.Exec(t.Context(), "update audit.schema_version set version = 4"); err != nil {
		t.Fatal(err)
	}
	if _, err := Book(t.Context(), d.config(t), Options{}); err == nil {
		t.Error("a book whose terms were taken away is verified")
	}
}
