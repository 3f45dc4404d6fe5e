package audit

import (
	"errors"
	"slices"

	"github.com/google/uuid"
)

// maxTerm is the longest term in characters; audit.path_terms cuts there.
const maxTerm = 384

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
	if f.Reasoned {
		all["reasoned"] = condition{"cardinality(e.codes) > 0", nil}
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
