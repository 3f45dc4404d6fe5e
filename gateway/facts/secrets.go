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
	"unicode"

	"go.yaml.in/yaml/v4"
)

// Limits on looking for secrets in a text.
const (
	maxSecrets    = 5_000   // values; more and nothing is shown
	maxSecretText = 8 << 20 // bytes of all values together
	shortSecret   = 4       // bytes below which a value is looked for in quotes only
	longSecret    = 8       // bytes from which a value is looked for across line breaks too
)

// secretMark stands where a secret was.
const secretMark = "«hidden»"

// secrets are the values to keep out of a text. After finish it is immutable.
type secrets struct {
	values   map[string]bool
	size     int
	replacer *strings.Replacer
	compact  []string
}

// add takes a value; words of the fixed vocabulary give nothing away and are left.
func (s *secrets) add(value string) {
	for _, v := range []string{value, strings.TrimSpace(value)} {
		if v == "" || vocabulary[v] || s.values[v] {
			continue
		}
		if s.values == nil {
			s.values = make(map[string]bool)
		}
		s.values[v] = true
		s.size += len(v)
	}
	if s.size > maxSecretText || len(s.values) > maxSecrets {
		return
	}
	// Texts of several lines are quoted line by line, key=value texts by their value,
	// and base64 by what is in it.
	if strings.ContainsAny(value, "\n\r") {
		for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if line = strings.TrimSpace(line); len(line) >= longSecret && line != value {
				s.add(line)
			}
		}
		return
	}
	if _, after, ok := strings.Cut(value, "="); ok && len(strings.Trim(after, "= ")) >= shortSecret {
		s.add(strings.Trim(after, " \"'"))
	}
	if inner, err := base64.StdEncoding.DecodeString(value); err == nil && len(inner) >= longSecret && printable(string(inner)) {
		s.add(string(inner))
		if _, password, ok := strings.Cut(string(inner), ":"); ok && len(password) >= shortSecret {
			s.add(password)
		}
	}
}

func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\r' && r != '\t' }) < 0
}

// addContent takes every text of free-form content, keys included where they are no names.
func (s *secrets) addContent(content any) {
	switch content := content.(type) {
	case string:
		s.add(content)
	case []byte:
		s.add(string(content))
	case map[string]any:
		for key, value := range content {
			if looksSecret("", key) {
				s.add(key)
			}
			s.addContent(value)
		}
	case []any:
		for _, value := range content {
			s.addContent(value)
		}
	}
}

// addNode takes the texts of a written argument.
func (s *secrets) addNode(written any) {
	node, ok := written.(*yaml.Node)
	if !ok || node == nil {
		return
	}
	if node.Kind == yaml.ScalarNode {
		s.add(node.Value)
	}
	for _, child := range node.Content {
		s.addNode(child)
	}
}

// addURL takes a URL whose origin alone is shown, and its secret parts.
func (s *secrets) addURL(u *url.URL) {
	if u == nil {
		return
	}
	s.add(u.String())
	if u.User != nil {
		s.add(u.User.Username())
		if password, ok := u.User.Password(); ok {
			s.add(password)
		}
	}
	for _, values := range u.Query() {
		for _, value := range values {
			s.add(value)
		}
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if looksSecret("", segment) {
			s.add(segment)
		}
	}
	s.add(u.Fragment)
}

// finish builds the search. It errs when there is too much to look for.
func (s *secrets) finish() error {
	if len(s.values) > maxSecrets || s.size > maxSecretText {
		return errors.New("redacting configuration: it holds more hidden values than can be looked for")
	}
	needles := make(map[string]bool)
	compact := make(map[string]bool)
	for value := range s.values {
		forms := encodings(value)
		for _, form := range forms {
			needles[form] = true
			if packed := pack(form, false); len(packed) >= longSecret {
				compact[packed] = true
			}
		}
	}
	sorted := slices.SortedFunc(maps.Keys(needles), func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(sorted))
	for _, needle := range sorted {
		pairs = append(pairs, needle, secretMark)
	}
	s.replacer = strings.NewReplacer(pairs...)
	s.compact = slices.Collect(maps.Keys(compact))
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
func (s *secrets) scrub(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// left is true when a secret is still in the text, broken over lines for instance.
func (s *secrets) left(text string) bool {
	packed, bare := pack(text, false), pack(text, true)
	return slices.ContainsFunc(s.compact, func(needle string) bool {
		return strings.Contains(packed, needle) || strings.Contains(bare, needle)
	})
}

// pack removes what a text is broken over lines with: white space and backslashes, and
// with marks the signs a diff begins its lines with, which may also be the text's own.
func pack(text string, marks bool) string {
	var out strings.Builder
	out.Grow(len(text))
	start := false
	for i := range len(text) {
		switch b := text[i]; {
		case b == '\n' || b == '\r':
			start = marks
		case b == ' ' || b == '\t' || b == '\\':
		case start && (b == '+' || b == '-'):
			start = false
		default:
			start = false
			out.WriteByte(b)
		}
	}
	return out.String()
}
