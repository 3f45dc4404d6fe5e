package httpapi

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// A cursor names the last item of a page, so that the next one begins behind it whatever was
// added meanwhile. It is the list's name and the item's key, as base64url of UTF-8; a client
// makes nothing of it.
const (
	listOfChanges     = "changes"
	listOfMachines    = "machines"
	listOfAttempts    = "attempts"
	listOfRevocations = "identity-revocations"
	listOfTimeline    = "timeline"
	listOfDrifts      = "drifts"

	// mostCursor is the longest cursor: two names of 1000 characters.
	mostCursor = 12000
)

func cursorOf(list string, key ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(append([]string{list}, key...), "\x00")))
}

// cursor gives the parts of the key, as many as the list's cursors have; null without one.
func (q *query) cursor(list string, parts int) []string {
	if !q.values.Has("cursor") || q.values.Get("cursor") == "" {
		return nil
	}
	key, p := parseCursor(list, parts, q.values.Get("cursor"))
	if p != nil {
		q.fail(p)
	}
	return key
}

func parseCursor(list string, parts int, text string) ([]string, *problem) {
	bad := malformed("the parameter cursor is not one that this list gave as next")
	if len(text) > mostCursor {
		return nil, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, bad
	}
	key := strings.Split(string(raw), "\x00")
	if len(key) != parts+1 || key[0] != list {
		return nil, bad
	}
	if slices.Contains(key, "") || !utf8.Valid(raw) || cursorOf(list, key[1:]...) != text {
		return nil, bad // the decoder passes over line ends
	}
	return key[1:], nil
}

// The keys of each list, read back. A key that does not parse is a cursor somebody made.

func (q *query) afterChange() (id control.ChangeID) {
	if key := q.cursor(listOfChanges, 1); key != nil {
		var err error
		if id, err = control.ParseChangeID(key[0]); err != nil {
			q.fail(malformed("the parameter cursor is not one that this list gave as next"))
		}
	}
	return id
}

func (q *query) afterDrift() (id control.DriftID) {
	if key := q.cursor(listOfDrifts, 1); key != nil {
		var err error
		if id, err = control.ParseDriftID(key[0]); err != nil {
			q.fail(malformed("the parameter cursor is not one that this list gave as next"))
		}
	}
	return id
}

func (q *query) afterAttempt() uuid.UUID {
	key := q.cursor(listOfAttempts, 1)
	if key == nil {
		return uuid.Nil
	}
	return q.uuid(key[0])
}

func (q *query) afterMachine() string {
	if key := q.cursor(listOfMachines, 1); key != nil {
		return key[0]
	}
	return ""
}

func (q *query) afterRevocation() policy.Person {
	if key := q.cursor(listOfRevocations, 2); key != nil {
		return policy.Person{Issuer: key[0], Subject: key[1]}
	}
	return policy.Person{}
}

func (q *query) afterTimeline() (last control.TimelineItem) {
	key := q.cursor(listOfTimeline, 2)
	if key == nil {
		return last
	}
	at, err := time.Parse(time.RFC3339Nano, key[0])
	if err != nil {
		q.fail(malformed("the parameter cursor is not one that this list gave as next"))
	}
	return control.TimelineItem{At: at, ID: q.uuid(key[1])}
}

func (q *query) uuid(text string) uuid.UUID {
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		q.fail(malformed("the parameter cursor is not one that this list gave as next"))
	}
	return id
}

// pageOf cuts a list that was asked for with one item more than a page has, and gives the
// cursor of the next page; empty on the last one.
func pageOf[T any](items []T, limit int, cursor func(*T) string) (page []T, next string) {
	if len(items) <= limit {
		return items, ""
	}
	return items[:limit], cursor(&items[limit-1])
}
