package facts

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits on looking for secrets in a text.
const (
	maxSecrets    = 5_000   // values; more and nothing is shown
	maxSecretText = 8 << 20 // bytes of all values together
	shortSecret   = 4       // bytes below which a value is looked for in quotes only
	shortest      = 3       // bytes of the shortest form: one in quotes
	longSecret    = 8       // bytes from which a value is looked for across line breaks too
)

// secretMark stands where a secret was.
const secretMark = "«hidden»"

// secrets are the values to keep out of a text. After finish it is immutable.
type secrets struct {
	values   map[string]bool
	size     int
	comments map[string]bool // of the configurations' texts
	needles  *needles        // every form of every value and comment
	compact  *needles        // those of some length, packed
}

// add takes a value, and what is written in it.
func (s *secrets) add(value string) {
	spread(value, func(v string) bool {
		if s.values[v] {
			return false
		}
		if s.values == nil {
			s.values = make(map[string]bool)
		}
		s.values[v] = true
		s.size += len(v)
		return s.size <= maxSecretText && len(s.values) <= maxSecrets
	})
}

// finish builds the search. It errs when there is too much to look for.
func (s *secrets) finish() error {
	if len(s.values) > maxSecrets || s.size > maxSecretText {
		return errors.New("redacting configuration: it holds more hidden values than can be looked for")
	}
	written := make(map[string]bool)
	compact := make(map[string]bool)
	for value := range s.values {
		forms := encodings(value)
		for _, form := range forms {
			written[form] = true
			if packed := pack(form, false); len(packed) >= longSecret {
				compact[packed] = true
			}
		}
	}
	for comment := range s.comments {
		for _, form := range commentForms(comment) {
			written[form] = true
			if packed := pack(form, false); len(packed) >= longSecret {
				compact[packed] = true
			}
		}
	}
	s.needles = newNeedles(shortest, slices.Collect(maps.Keys(written)))
	s.compact = newNeedles(longSecret, slices.Collect(maps.Keys(compact)))
	return nil
}

// encodings are the forms a value may take in a node's words.
func encodings(value string) []string {
	quoted := []string{strconv.Quote(value), "'" + value + "'", "`" + value + "`"}
	if len(value) < shortSecret {
		return quoted
	}
	raw := []byte(value)
	out := []string{
		value,
		strings.Trim(strconv.Quote(value), `"`),
		strings.Trim(strconv.QuoteToASCII(value), `"`),
		url.QueryEscape(value),
		url.PathEscape(value),
		hex.EncodeToString(raw),
		strings.ToUpper(hex.EncodeToString(raw)),
		strings.ReplaceAll(value, "'", "''"),
	}
	if written, err := json.Marshal(value); err == nil {
		out = append(out, strings.Trim(string(written), `"`))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, encoding.EncodeToString(raw))
		// Inside a longer text a value's base64 starts at one of three places, and its
		// first and last characters depend on the neighbours.
		for skip := 1; skip <= 2; skip++ {
			shifted := encoding.EncodeToString(append(make([]byte, skip), raw...))
			if inner := shifted[skip+1 : len(shifted)-1]; len(inner) >= longSecret {
				out = append(out, inner)
			}
		}
		if whole := encoding.EncodeToString(raw); len(whole) > longSecret {
			out = append(out, whole[:len(whole)-1])
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return len(s) < shortSecret })
}

// scrub replaces every known secret in a text.
func (s *secrets) scrub(text string) string { return s.needles.replace(text, secretMark) }

// left is true when a secret is still in the text, broken over lines for instance.
func (s *secrets) left(text string) bool {
	return s.compact.in(pack(text, false)) || s.compact.in(pack(text, true))
}

// pack removes what a text is broken over lines with: white space, backslashes and
// characters nobody sees; with marks also the signs a diff begins its lines with, which
// may be the text's own.
func pack(text string, marks bool) string {
	var out strings.Builder
	out.Grow(len(text))
	start := false
	for i, size := 0, 1; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n' || r == '\r':
			start = marks
		case r == ' ' || r == '\t' || r == '\\' || !visibleRune(r):
		case start && (r == '+' || r == '-'):
			start = false
		default:
			start = false
			out.WriteString(text[i : i+size])
		}
	}
	return out.String()
}
