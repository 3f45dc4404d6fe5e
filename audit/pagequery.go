package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

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

// looking is one page's statement while it is made.
type looking struct {
	query
	filter Filter
	page   Page
	asked  map[string]condition
	lead   lead
	// covered are the conditions that the index tells of; index is how many of its rows are looked through, 0 where there
	// are none of those conditions.
	covered []string
	index   int
	// rest are the conditions that a row itself tells of; rows is how many rows are looked at.
	rest []string
	rows int
	// twoSteps is whether the index gives the places of the page's rows, which are read after that.
	twoSteps bool
}

// look begins a page's statement.
func look(f Filter, p Page, limit int, d depth) *looking {
	l := &looking{filter: f, page: p, asked: f.conditions()}
	l.lead = f.lead(l.asked)
	var covered, rest []condition
	for _, name := range slices.Sorted(maps.Keys(l.asked)) {
		switch {
		case slices.Contains(l.lead.answers, name):
		case slices.Contains(l.lead.covers, name):
			covered = append(covered, l.asked[name])
		default:
			rest = append(rest, l.asked[name])
		}
	}
	switch l.rows = d.rows; {
	case len(rest) == 0:
		l.rows = limit + 1
	case len(l.lead.answers) == 0:
		l.rows = d.all
	}
	if len(covered) > 0 {
		l.index = d.index
	}
	l.twoSteps = !p.Records && len(rest) == 0 && len(l.lead.answers) > 0 && !slices.Contains(l.lead.answers, "digest")
	if !l.twoSteps {
		l.args = []any{p.Records, !p.Records} // of queries/entries.sql
	}
	for _, c := range covered {
		l.covered = append(l.covered, l.text(c))
	}
	for _, c := range rest {
		l.rest = append(l.rest, l.text(c))
	}
	return l
}

// statement is the whole page's where one step gives it. The texts are fixed; values are parameters. It looks through the
// rows that lead, marks those that are wanted, and ends at one more than a page has or at the end of what may be looked
// through.
func (l *looking) statement(limit int) string {
	looked := ""
	if l.lead.field != "" || l.index > 0 {
		looked = "    select e.*, n.* from (\n        " + l.narrow() + "\n    ) n\n    cross join lateral (select * from audit.entries e where e.recorded_at = n.at and e.id = n.at_id limit 1) e\n   " +
			l.order("n.at", "n.at_id")
	} else {
		looked = l.direct()
	}
	wanted := "e.fits"
	if len(l.rest) > 0 {
		wanted += " and " + strings.Join(l.rest, " and ")
	}
	return fmt.Sprintf("with looked as (\n%s\n), e as (\n    select e.*, (%s) is true as wanted, e.ends as last_scanned from looked e where (%s) or e.ends\n)\n%s%s\nlimit %d",
		looked, wanted, wanted, entriesSQL, l.order("e.at", "e.at_id"), limit+2)
}

// order is that of the page.
func (l *looking) order(at, id string) string {
	direction := " desc"
	if l.page.Order == OldestFirst {
		direction = ""
	}
	return " order by " + at + direction + ", " + id + direction
}

// nth numbers rows in the order of the page.
func (l *looking) nth(at, id string) string {
	return "row_number() over (" + strings.TrimSpace(l.order(at, id)) + ")"
}

// lastRow says that a row is the last of the rows that may be looked at.
func (l *looking) lastRow(nth string) string {
	if len(l.rest) == 0 {
		return "false"
	}
	return nth + " = " + strconv.Itoa(l.rows)
}

// narrow goes through rows of an index alone, at most so many in order, and gives the places of those that fit: the rows of
// a machine, a person or a term lie far apart in the book. Where no more may be looked through, the last row says so.
func (l *looking) narrow() string {
	source, where := "audit.entries", []string{}
	if l.lead.field != "" {
		source = "audit.terms"
		term := l.filter.path()
		if l.lead.field == "code" {
			term = *column(escape(l.filter.Code))
		}
		where = append(where, "e.field = '"+l.lead.field+"'", l.text(condition{"e.term = ?", []any{term}}),
			// Months that were detached left their terms behind.
			"e.recorded_at >= (select min(recorded_at) from audit.entries)", "e.recorded_at < 'infinity'")
	}
	for _, name := range l.lead.answers {
		if name != l.lead.field {
			where = append(where, l.text(l.asked[name]))
		}
	}
	if l.lead.where != "" {
		where = append(where, l.lead.where)
	}
	where = append(where, l.place("e", l.filter, l.page)...)
	fits, index, ends := "true", l.rows, "false"
	if l.index > 0 {
		fits, index, ends = "("+strings.Join(l.covered, " and ")+") is true", l.index, "n.nth = "+strconv.Itoa(l.index)
	}
	inner := fmt.Sprintf("select e.recorded_at, e.id, %s as fits, %s as nth from %s e where %s%s limit %d",
		fits, l.nth("e.recorded_at", "e.id"), source, strings.Join(where, " and "), l.order("e.recorded_at", "e.id"), index)
	middle := fmt.Sprintf("select n.recorded_at as at, n.id as at_id, n.fits, %s or %s as ends\n        from (%s) n where n.fits or %s%s limit %d",
		ends, l.lastRow(l.nth("n.recorded_at", "n.id")), inner, ends, l.order("n.recorded_at", "n.id"), l.rows)
	return middle
}

// direct goes through rows of the book in the order of an index.
func (l *looking) direct() string {
	arms := []condition{{}}
	if len(l.lead.answers) > 0 {
		arms = []condition{l.asked[l.lead.answers[0]]}
	}
	if slices.Contains(l.lead.answers, "digest") {
		// One index scan for each, because those of several are in no order together.
		arms = arms[:0]
		for _, d := range l.filter.digests() {
			arms = append(arms, is("digest", d))
		}
	}
	order, limit := l.order("e.recorded_at", "e.id"), " limit "+strconv.Itoa(l.rows)
	var scans []string
	for _, arm := range arms {
		var where []string
		if arm.sql != "" {
			where = append(where, l.text(arm))
		}
		if l.lead.where != "" {
			where = append(where, l.lead.where)
		}
		where = append(where, l.place("e", l.filter, l.page)...)
		one := "select * from audit.entries e"
		if len(where) > 0 {
			one += " where " + strings.Join(where, " and ")
		}
		scans = append(scans, "("+one+order+limit+")")
	}
	return "    select e.*, e.recorded_at as at, e.id as at_id, true as fits, " + l.lastRow(l.nth("e.recorded_at", "e.id")) + " as ends from (" +
		strings.Join(scans, " union all ") + ") e" + order + limit
}
