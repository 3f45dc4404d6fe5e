package httpapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
)

const (
	defaultLimit = 50
	mostLimit    = 500
	// mostWord and mostName are the longest names of things and of people, in characters.
	mostWord = 256
	mostName = 1000
)

// query is a request's parameters: each once unless it says otherwise, none it does not
// take. The first problem found is kept, so that a handler asks once.
type query struct {
	values url.Values
	err    error
}

// query reads the parameters of the URL; takes are their names.
func (c *call) query(takes ...string) *query {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return &query{err: malformed("the URL's query is not well formed")}
	}
	q := &query{values: values}
	for name, all := range values {
		switch {
		case !slices.Contains(takes, name):
			q.err = malformed("%s is not a parameter this request takes", quoted(name))
		case len(all) > 1 && name != "state" && name != "digest":
			q.err = malformed("the parameter %s is given twice", name)
		}
	}
	return q
}

func (q *query) fail(p *problem) {
	if q.err == nil {
		q.err = p
	}
}

// text is a parameter of 1 to most visible characters; empty when it is left out.
func (q *query) text(name string, most int) string {
	if !q.values.Has(name) {
		return ""
	}
	value := q.values.Get(name)
	if err := checkText("the parameter "+name, value, 1, most); err != nil {
		q.fail(err)
		return ""
	}
	return value
}

// flag is a parameter that is true or false; false when it is left out.
func (q *query) flag(name string) bool {
	switch value := q.values.Get(name); {
	case value == "true":
		return true
	case value != "false" && q.values.Has(name):
		q.fail(malformed("the parameter %s is true or false, not %s", name, quoted(value)))
	}
	return false
}

// limit is how many items a page has.
func (q *query) limit() int {
	if !q.values.Has("limit") {
		return defaultLimit
	}
	n, err := strconv.Atoi(q.values.Get("limit"))
	if err != nil || n < 1 || n > mostLimit {
		q.fail(malformed("the parameter limit is a number from 1 to %d, not %s", mostLimit, quoted(q.values.Get("limit"))))
		return defaultLimit
	}
	return n
}

// states are those asked for; live is two of them.
func (q *query) states() []control.ChangeState {
	var out []control.ChangeState
	for _, name := range q.values["state"] {
		switch state := control.ChangeState(name); {
		case name == "live":
			out = append(out, control.ChangeWaiting, control.ChangeApproved)
		case slices.Contains(control.ChangeStates(), state):
			out = append(out, state)
		default:
			q.fail(malformed("%s is no state of a change", quoted(name)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// driftStates are those asked for.
func (q *query) driftStates() []control.DriftState {
	var out []control.DriftState
	for _, name := range q.values["state"] {
		state := control.DriftState(name)
		if !slices.Contains(control.DriftStates(), state) {
			q.fail(malformed("%s is no state of a drift", quoted(name)))
		}
		out = append(out, state)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkText refuses a text that is too short, too long or has characters nobody sees.
func checkText(what, text string, least, most int) *problem {
	if n := utf8.RuneCountInString(text); n < least || n > most {
		return malformed("%s has %d to %d characters, not %d", what, least, most, n)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return malformed("%s has characters that cannot be seen", what)
	}
	return nil
}

// word is the id of the path as a text.
func (c *call) word() (string, error) {
	text, err := url.PathUnescape(c.id)
	if err != nil {
		return "", malformed("the path is not well formed")
	}
	if p := checkText("the id in the path", text, 1, mostWord); p != nil {
		return "", p
	}
	return text, nil
}

// changeID is the id of the path; one of another kind is refused, and told which it is.
func (c *call) changeID() (control.ChangeID, error) {
	text, err := c.word()
	if err != nil {
		return control.ChangeID{}, err
	}
	return control.ParseChangeID(text)
}

func (c *call) driftID() (control.DriftID, error) {
	text, err := c.word()
	if err != nil {
		return control.DriftID{}, err
	}
	return control.ParseDriftID(text)
}

func (c *call) approvalID() (control.ApprovalID, error) {
	text, err := c.word()
	if err != nil {
		return control.ApprovalID{}, err
	}
	return control.ParseApprovalID(text)
}

func (c *call) attemptID() (uuid.UUID, error) {
	text, err := c.word()
	if err != nil {
		return uuid.Nil, err
	}
	if id, err := uuid.Parse(text); err == nil && len(text) == len(id.String()) {
		return id, nil
	}
	if _, err := control.ParseChangeID(text); err == nil {
		return uuid.Nil, malformed("%s is the id of a change, not of an attempt", quoted(text))
	}
	if _, err := control.ParseApprovalID(text); err == nil {
		return uuid.Nil, malformed("%s is the id of an approval, not of an attempt", quoted(text))
	}
	return uuid.Nil, malformed("%s is no id of an attempt, which is a UUID", quoted(text))
}
