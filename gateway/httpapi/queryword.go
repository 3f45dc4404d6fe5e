package httpapi

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
)

// Parameters of one form each. All are empty or zero when they are left out.

var (
	aCode   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,127}$`)
	aDigest = regexp.MustCompile(`^[a-z0-9-]+(:[A-Za-z0-9._-]+){1,2}$`)
)

// word is a parameter that is one of a few words.
func (q *query) word(name string, words ...string) string {
	if !q.values.Has(name) {
		return ""
	}
	value := q.values.Get(name)
	if !slices.Contains(words, value) {
		q.fail(malformed("the parameter %s is one of %s, not %s", name, strings.Join(words, ", "), quoted(value)))
		return ""
	}
	return value
}

// pattern is a parameter of a form; what says which.
func (q *query) pattern(name string, form *regexp.Regexp, what string) string {
	value := q.values.Get(name)
	if q.values.Has(name) && !form.MatchString(value) {
		q.fail(malformed("the parameter %s is %s, not %s", name, what, quoted(value)))
		return ""
	}
	return value
}

// id is a parameter that is a UUID.
func (q *query) id(name string) uuid.UUID {
	if !q.values.Has(name) {
		return uuid.Nil
	}
	id := parseID(q.values.Get(name))
	if id == uuid.Nil {
		q.fail(malformed("the parameter %s is an id, which is a UUID, not %s", name, quoted(q.values.Get(name))))
	}
	return id
}

// time is a parameter that is a moment, RFC 3339.
func (q *query) time(name string) time.Time {
	if !q.values.Has(name) {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, q.values.Get(name))
	if err != nil || at.Year() < 2000 || at.Year() > 9998 {
		q.fail(malformed("the parameter %s is a time as in 2026-09-01T12:00:00Z, not %s", name, quoted(q.values.Get(name))))
		return time.Time{}
	}
	return at.UTC()
}

// change is the id of a change.
func (q *query) change() string {
	if !q.values.Has("change") {
		return ""
	}
	id, err := control.ParseChangeID(q.values.Get("change"))
	if err != nil {
		q.fail(malformed("the parameter change is the id of a change, chg_…, not %s", quoted(q.values.Get("change"))))
		return ""
	}
	return id.String()
}

// digests are those asked for.
func (q *query) digests() []string {
	all := q.values["digest"]
	if len(all) > audit.MaxDigests {
		q.fail(malformed("the parameter digest is given at most %d times", audit.MaxDigests))
		return nil
	}
	for _, value := range all {
		if len(value) > 200 || !aDigest.MatchString(value) {
			q.fail(malformed("the parameter digest is a digest with its scheme, as in hmac-sha256:k1:…, not %s", quoted(value)))
			return nil
		}
	}
	return all
}

// wait is how long a request waits.
func (q *query) wait() time.Duration {
	if !q.values.Has("wait") {
		return 0
	}
	value := q.values.Get("wait")
	seconds, err := strconv.Atoi(strings.TrimSuffix(value, "s"))
	wait := time.Duration(seconds) * time.Second
	if err != nil || wait <= 0 || wait > mostWait || strconv.Itoa(seconds)+"s" != value {
		q.fail(malformed("the parameter wait is from 1s to %ds, not %s", int(mostWait/time.Second), quoted(value)))
		return 0
	}
	return wait
}

// decisionID is the id of the path.
func (c *call) decisionID() (uuid.UUID, error) {
	text, err := c.word()
	if err != nil {
		return uuid.Nil, err
	}
	if id := parseID(text); id != uuid.Nil {
		return id, nil
	}
	return uuid.Nil, malformed("%s is no id of a decision, which is a UUID", quoted(text))
}
