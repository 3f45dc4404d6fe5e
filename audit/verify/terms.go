package verify

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"bronzeward/audit"
)

// term is one that audit.terms should hold of an entry. field is code or path; machine and caller are the entry's.
type term struct {
	field, text     string
	machine, caller maybe
}

// maybe is a text, or NULL: not there.
type maybe struct {
	text  string
	there bool
}

// maybeOf is the column that projects a member of the record.
func maybeOf(value member) maybe {
	var s string
	if value == nil || json.Unmarshal(value, &s) != nil || s == "" {
		return maybe{}
	}
	return maybe{audit.Projected(s), true}
}

// columnText is a field as it came from the database, bounded.
func columnText(field []byte) maybe {
	if field == nil {
		return maybe{}
	}
	return maybe{bounded(field), true}
}

// pointer is the parameter of a statement.
func (m maybe) pointer() *string {
	if !m.there {
		return nil
	}
	return &m.text
}

const (
	fieldCode, fieldPath = "code", "path"
	// maxTerm is how many characters of a path are kept (audit.path_terms).
	maxTerm = 384
)

// namesPaths are the bytes that audit.names_paths looks for.
var namesPaths = []byte(`"changes":[{`)

// step is a step of a path, as audit.path_terms writes it. PostgreSQL takes the longest match, and so must this.
var step = func() *regexp.Regexp {
	re := regexp.MustCompile(`\.?[^.[]+|\[(?:"(?:[^"\\]|\\[\s\S])*"|[^\]]*)\]`)
	re.Longest()
	return re
}()

// termsOf are the terms that a record gives, each once, as queries/insert_searched.sql and audit.path_terms make them. values
// are those of its members that have columns. Most records, those of allowed reads, give none, and cost a search for a few bytes.
// The paths are texts, as every gateway writes them; of one that is not, PostgreSQL would make a term and this does not.
func termsOf(record []byte, values []member) []term {
	codes := values[columnCodes]
	if codes == nil && !bytes.Contains(record, namesPaths) {
		return nil
	}
	set := termSet{seen: map[term]bool{}, machine: maybeOf(values[columnMachine]), caller: maybeOf(values[columnCaller])}
	for _, c := range codeTerms(codes) {
		set.add(fieldCode, c)
	}
	if bytes.Contains(record, namesPaths) {
		for _, p := range changedPaths(record) {
			set.addPath(p)
		}
	}
	return set.list
}

type termSet struct {
	machine, caller maybe
	seen            map[term]bool
	list            []term
}

func (s *termSet) add(field, text string) {
	if t := (term{field, text, s.machine, s.caller}); !s.seen[t] {
		s.seen[t] = true
		s.list = append(s.list, t)
	}
}

// addPath adds a path and all that it lies in.
func (s *termSet) addPath(path string) {
	s.add(fieldPath, cutTerm(path))
	var prefix strings.Builder
	for _, found := range step.FindAllString(path, -1) {
		prefix.WriteString(found)
		s.add(fieldPath, cutTerm(prefix.String()))
	}
}

// cutTerm keeps the first maxTerm characters.
func cutTerm(s string) string {
	if len(s) <= maxTerm || utf8.RuneCountInString(s) <= maxTerm {
		return s
	}
	n := 0
	for i := range s {
		if n++; n > maxTerm {
			return s[:i]
		}
	}
	return s
}

// codeTerms are the elements of the column codes of a record that says codes: each cut, then split at the unit separator.
// An empty text is split into nothing.
func codeTerms(codes member) []string {
	var list []string
	if codes == nil || json.Unmarshal(codes, &list) != nil {
		return nil
	}
	for i, c := range list {
		list[i] = audit.Projected(c)
	}
	joined := strings.Join(list, "\x1f")
	if joined == "" {
		return nil
	}
	return strings.Split(joined, "\x1f")
}
