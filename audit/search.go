package audit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// How many rows one page looks through for what the leading index does not answer. By the primary key they lie side by
// side; by another index each may lie on a page of its own.
const (
	scanAll     = 5000
	scanIndexed = 2000
)

// maxTerm is the longest term in characters; audit.path_terms cuts there.
const maxTerm = 512

func checkList(f Filter, p Page) error { return errors.Join(f.Validate(), p.Validate()) }

// condition is one thing that must hold of the entry e: a fixed text, in which each ? is a value.
type condition struct {
	sql    string
	values []any
}

func is(column string, value any) condition { return condition{"e." + column + " = ?", []any{value}} }

// conditions are what the filter asks, by name. Times are no part of them: every index ends in recorded_at.
func (f Filter) conditions() map[string]condition {
	all := map[string]condition{}
	text := func(name, value string) {
		if value != "" {
			all[name] = is(name, *column(escape(value)))
		}
	}
	id := func(name string, value uuid.UUID) {
		if value != uuid.Nil {
			all[name] = is(name, value)
		}
	}
	id("machine_id", f.MachineID)
	text("machine_name", f.Machine)
	text("cluster", f.Cluster)
	text("caller_issuer", f.Issuer)
	text("caller_subject", f.Subject)
	text("method", f.Method)
	text("class", f.Class)
	text("verdict", string(f.Verdict))
	text("kind", string(f.Kind))
	id("attempt_id", f.AttemptID)
	text("change_id", f.ChangeID)
	id("epoch", f.Epoch)
	if len(f.Digests) > 0 {
		all["digest"] = condition{"e.digest = any (?)", []any{f.digests()}}
	}
	if f.Path != "" {
		all["path"] = hasTerm("path", f.path())
	}
	if f.Code != "" {
		all["code"] = condition{"? = any (e.codes)", []any{*column(escape(f.Code))}}
	}
	return all
}

func hasTerm(field, term string) condition {
	return condition{
		"exists (select from audit.terms t where t.field = '" + field + "' and t.term = ? and t.recorded_at = e.recorded_at and t.id = e.id)",
		[]any{term},
	}
}

// digests are those asked for as the column holds them, each once.
func (f Filter) digests() []string {
	out := make([]string, len(f.Digests))
	for i, d := range f.Digests {
		out[i] = *column(escape(d))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (f Filter) path() string {
	path := []rune(escape(f.Path))
	return string(path[:min(len(path), maxTerm)])
}

// lead is what leads through the book: the rows of one index in the order of recorded_at and id.
type lead struct {
	// answers are the conditions that it answers, by name.
	answers []string
	// where is what the index is made for and no condition says.
	where string
	// field is of audit.terms where that leads.
	field string
	scan  int
}

// lead picks what leads. The first that is asked does: those before find fewer rows.
func (f Filter) lead(asked map[string]condition) lead {
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := asked[name]; !ok {
				return false
			}
		}
		return true
	}
	notAllowed := f.Verdict != "" && f.Verdict != Allowed
	acted := f.Class != "" && f.Class != "read"
	const refused, beyond = "e.verdict <> 'allow'", "e.class <> 'read'"
	switch {
	case has("attempt_id"):
		return lead{answers: []string{"attempt_id"}, scan: scanIndexed}
	case has("change_id"):
		return lead{answers: []string{"change_id"}, scan: scanIndexed}
	case has("digest"):
		return lead{answers: []string{"digest"}, scan: scanIndexed}
	case has("path"):
		return lead{answers: []string{"path"}, field: "path", scan: scanIndexed}
	case has("code"):
		return lead{answers: []string{"code"}, field: "code", scan: scanIndexed}
	case notAllowed && has("machine_name"):
		return lead{answers: []string{"machine_name"}, where: refused, scan: scanIndexed}
	case notAllowed && has("caller_subject"):
		return lead{answers: []string{"caller_subject"}, where: refused, scan: scanIndexed}
	case acted && has("machine_name"):
		return lead{answers: []string{"machine_name"}, where: beyond, scan: scanIndexed}
	case acted && has("caller_subject"):
		return lead{answers: []string{"caller_subject"}, where: beyond, scan: scanIndexed}
	case has("method") && !strings.HasPrefix(f.Method, "/"): // an act of a person
		return lead{answers: []string{"method"}, scan: scanIndexed}
	case has("machine_name"):
		return lead{answers: []string{"machine_name"}, scan: scanIndexed}
	case has("caller_subject"):
		return lead{answers: []string{"caller_subject"}, scan: scanIndexed}
	case notAllowed:
		return lead{answers: []string{"verdict"}, where: refused, scan: scanIndexed}
	case has("method"):
		return lead{answers: []string{"method"}, scan: scanIndexed}
	case f.Kind != "" && f.Kind != KindRPC:
		return lead{answers: []string{"kind"}, where: "e.kind <> 'rpc'", scan: scanIndexed}
	case acted:
		return lead{answers: []string{"class"}, where: beyond, scan: scanIndexed}
	}
	return lead{scan: scanAll}
}

// query collects the parameters of a statement.
type query struct{ args []any }

// text is a condition with its values as parameters.
func (q *query) text(c condition) string {
	sql := c.sql
	for _, v := range c.values {
		q.args = append(q.args, v)
		sql = strings.Replace(sql, "?", "$"+strconv.Itoa(len(q.args)), 1)
	}
	return sql
}

// place are the conditions of time and place of the rows that name names.
func (q *query) place(name string, f Filter, p Page) []string {
	var where []string
	add := func(sql string, values ...any) {
		where = append(where, q.text(condition{strings.ReplaceAll(sql, "e.", name+"."), values}))
	}
	if !f.Since.IsZero() {
		add("e.recorded_at >= ?", f.Since.UTC())
	}
	if !f.Until.IsZero() {
		add("e.recorded_at < ?", f.Until.UTC())
	}
	if !p.After.IsZero() {
		beyond := "<"
		if p.Order == OldestFirst {
			beyond = ">"
		}
		// The first condition says no more than the second, but it is the one that rules out partitions.
		add("e.recorded_at "+beyond+"= ?", p.After.recordedAt)
		add("(e.recorded_at, e.id) "+beyond+" (?, ?)", p.After.recordedAt, p.After.id)
	}
	return where
}

// listQuery is the statement of a page. The texts are fixed; values are parameters. It looks through the rows that lead,
// marks those that are wanted, and ends at one more than a page has or at the end of what may be looked through.
func listQuery(f Filter, p Page, limit int) (string, []any) {
	asked := f.conditions()
	lead := f.lead(asked)
	q := &query{args: []any{false, true}}
	order := func(name string) string {
		direction := " desc"
		if p.Order == OldestFirst {
			direction = ""
		}
		return " order by " + name + ".recorded_at" + direction + ", " + name + ".id" + direction
	}
	var rest []string
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if !slices.Contains(lead.answers, name) {
			rest = append(rest, q.text(asked[name]))
		}
	}
	scan := lead.scan
	if len(rest) == 0 {
		scan = limit + 1
	}
	rows := q.leading(lead, f, p, asked, order, scan)
	wanted := "true"
	if len(rest) > 0 {
		wanted = strings.Join(rest, " and ")
	}
	last := "nth = " + strconv.Itoa(scan)
	if len(rest) == 0 {
		last = "false"
	}
	sql := fmt.Sprintf("with looked as (\n%s\n), e as (\n    select e.*, (%s) as wanted, %s as last_scanned from looked e where (%s) or %s\n)\n%s%s\nlimit %d",
		rows, wanted, last, wanted, last, entriesSQL, strings.NewReplacer("e.recorded_at", "e.at", "e.id", "e.at_id").Replace(order("e")), limit+2)
	return sql, q.args
}

// leading are the rows that lead, at most scan of them in order, numbered in nth.
func (q *query) leading(lead lead, f Filter, p Page, asked map[string]condition, order func(string) string, scan int) string {
	nth := ", row_number() over (" + strings.TrimSpace(order("e")) + ") as nth"
	if lead.field != "" {
		term := f.path()
		if lead.field == "code" {
			term = *column(escape(f.Code))
		}
		where := append([]string{
			"e.field = '" + lead.field + "'", q.text(condition{"e.term = ?", []any{term}}),
			// Months that were detached left their terms behind.
			"e.recorded_at >= (select min(recorded_at) from audit.entries)",
		}, q.place("e", f, p)...)
		return "    select e.*, t.recorded_at as at, t.id as at_id, t.nth\n    from (select recorded_at, id" + nth + " from audit.terms e where " + strings.Join(where, " and ") + order("e") +
			" limit " + strconv.Itoa(scan) + ") t\n    cross join lateral (select * from audit.entries e where e.recorded_at = t.recorded_at and e.id = t.id limit 1) e\n   " +
			order("t")
	}
	arms := []condition{{}}
	if len(lead.answers) > 0 {
		arms = []condition{asked[lead.answers[0]]}
	}
	if slices.Contains(lead.answers, "digest") {
		// One index scan for each, because those of several are in no order together.
		arms = arms[:0]
		for _, d := range f.digests() {
			arms = append(arms, is("digest", d))
		}
	}
	var scans []string
	for _, arm := range arms {
		var where []string
		if arm.sql != "" {
			where = append(where, q.text(arm))
		}
		if lead.where != "" {
			where = append(where, lead.where)
		}
		where = append(where, q.place("e", f, p)...)
		one := "select * from audit.entries e"
		if len(where) > 0 {
			one += " where " + strings.Join(where, " and ")
		}
		scans = append(scans, "("+one+order("e")+" limit "+strconv.Itoa(scan)+")")
	}
	return "    select e.*, e.recorded_at as at, e.id as at_id" + nth + " from (" + strings.Join(scans, " union all ") + ") e" + order("e") + " limit " + strconv.Itoa(scan)
}
