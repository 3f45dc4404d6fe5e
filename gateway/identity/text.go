package identity

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxText bounds issuers, subjects, groups and token ids: what PostgreSQL indexes without complaint and a
	// person can still read.
	maxText = 1000
	// maxName bounds the display name.
	maxName = 256
	// maxGroups bounds the groups of one Caller; the largest usual directory limit is 200.
	maxGroups = 1000
)

// checkText holds the rule for every text that decides: 1 to 1000 bytes of valid UTF-8, all of it printable, no space
// at either end. The replacement character is refused because two different broken texts both decode to it.
func checkText(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxText:
		return errors.New("is longer than 1000 bytes")
	case !utf8.ValidString(s):
		return errors.New("is not valid UTF-8")
	case strings.TrimSpace(s) != s:
		return errors.New("begins or ends with a space")
	}
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return errors.New("has a character that cannot be printed")
		}
	}
	return nil
}

// displayName makes a text safe to show: unprintable runes dropped, at most 256 bytes.
func displayName(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > maxName {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
