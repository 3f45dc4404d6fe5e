package audit

import "strings"

// depth is how much one page looks through for what the leading index does not answer.
type depth struct {
	index int // rows of an index, where it holds what else is asked
	rows  int // rows of the book, each of which may lie on a page of its own
	all   int // rows by the primary key, where they lie side by side
}

var pageDepth = depth{index: 2000, rows: 1000, all: 3000}

// lead is what leads through the book: the rows of one index in the order of recorded_at and id.
type lead struct {
	// answers are the conditions, by name, that choose its rows.
	answers []string
	// covers are those that its index tells of each row, so that the row itself is not looked at.
	covers []string
	// where is what the index is made for and no condition says.
	where string
	// field is of audit.terms where that leads.
	field string
}

// leads through entries, by what is asked (004_search.sql has their indexes).
const (
	onlyRefused = "e.verdict <> 'allow'"
	onlyActs    = "e.class <> 'read'"
	onlyOthers  = "e.kind <> 'rpc'"
)

// lead picks what leads. The first that is asked does: those before find fewer rows.
func (f Filter) lead(asked map[string]condition) lead {
	has := func(name string) bool {
		_, ok := asked[name]
		return ok
	}
	notAllowed := f.Verdict != "" && f.Verdict != Allowed
	beyondReading := f.Class != "" && f.Class != "read"
	by := func(name string) lead { return lead{answers: []string{name}} }
	machine := func(where string, covers ...string) lead {
		return lead{answers: []string{"machine_name"}, covers: append(covers, "caller_subject", "method"), where: where}
	}
	caller := func(where string, covers ...string) lead {
		return lead{answers: []string{"caller_subject"}, covers: append(covers, "method"), where: where}
	}
	method := lead{answers: []string{"method"}, covers: []string{"machine_name", "caller_subject"}}
	switch {
	case has("attempt_id"):
		return by("attempt_id")
	case has("change_id"):
		return by("change_id")
	case has("digest"):
		return by("digest")
	case has("path"):
		return termLead("path", has)
	case has("code"):
		return termLead("code", has)
	case notAllowed && has("machine_name"):
		return machine(onlyRefused, "verdict")
	case notAllowed && has("caller_subject"):
		return caller(onlyRefused, "verdict")
	case beyondReading && has("machine_name"):
		return machine(onlyActs, "class")
	case beyondReading && has("caller_subject"):
		return caller(onlyActs, "class")
	case has("method") && !strings.HasPrefix(f.Method, "/"): // an act of a person
		return method
	case has("machine_name"):
		return machine("")
	case has("caller_subject"):
		return caller("")
	case notAllowed:
		return lead{answers: []string{"verdict"}, where: onlyRefused}
	case has("method"):
		return method
	case f.Kind != "" && f.Kind != KindRPC:
		return lead{answers: []string{"kind"}, where: onlyOthers}
	case beyondReading:
		return lead{answers: []string{"class"}, where: onlyActs}
	}
	return lead{}
}

// termLead leads through audit.terms, which hold the machine and the caller too.
func termLead(field string, has func(string) bool) lead {
	l := lead{answers: []string{field}, field: field}
	switch {
	case has("machine_name"):
		l.answers, l.covers = append(l.answers, "machine_name"), []string{"caller_subject"}
	case has("caller_subject"):
		l.answers = append(l.answers, "caller_subject")
	}
	return l
}
