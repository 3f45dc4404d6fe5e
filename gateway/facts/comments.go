package facts

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// maxComments is how many comments of both configurations are looked for in a node's words;
// with more nothing of them is shown. talosctl's own generator writes some hundreds.
const maxComments = 50_000

// addComments takes the comments of a configuration, and the values that stand in those that
// are settings somebody put out of use. They are no values of the configuration, but a node
// that quotes its text quotes them too. What only looks like a comment, a sign # inside of a
// text, is taken as well.
func (s *secrets) addComments(text []byte) error {
	for line := range bytes.Lines(text) {
		_, comment, ok := bytes.Cut(line, []byte("#"))
		if !ok {
			continue
		}
		said := strings.TrimSpace(string(comment))
		for _, part := range []string{said, after(said, ":"), after(said, "=")} {
			if len(part) < longSecret || len(part) > maxNeedle || vocabulary[part] {
				continue
			}
			if s.comments == nil {
				s.comments = make(map[string]bool)
			}
			s.comments[part] = true
		}
		if len(s.comments) > maxComments {
			return errors.New("redacting configuration: it holds more comments than can be looked for")
		}
	}
	return nil
}

// after is what stands behind a sign, without quotes around it.
func after(text, sign string) string {
	_, value, _ := strings.Cut(text, sign)
	return strings.Trim(value, " \t\"'")
}

// commentForms are the forms a comment may take in a node's words: as it is, or quoted.
func commentForms(comment string) []string {
	return []string{comment, strings.Trim(strconv.Quote(comment), `"`), strings.Trim(strconv.QuoteToASCII(comment), `"`)}
}
