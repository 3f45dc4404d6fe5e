package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// mostItems is how many items or members anything in a body has, at most: those of the
// longest list a request takes.
const mostItems = mostMachines

// checkMembers holds the JSON text against the members of T, which encoding/json would be
// lenient about: a name it does not know, one in another case, one that comes twice or is
// left out, null, text that is no Unicode, anything behind the value. It stops at the first
// value of the wrong kind, so that nothing is walked that is not taken; which numbers are
// taken is for Unmarshal to say.
func checkMembers[T any](text []byte) error {
	w := &walker{dec: json.NewDecoder(bytes.NewReader(text)), text: text}
	w.dec.UseNumber()
	if err := w.value(reflect.TypeFor[T](), ""); err != nil {
		return err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return malformed("something follows the body's value at byte %d", w.dec.InputOffset())
	}
	return nil
}

// walker goes through a JSON text token by token.
type walker struct {
	dec    *json.Decoder
	text   []byte
	before int64 // where the last token may begin
}

// value reads one value. t is the Go type it is meant for.
func (w *walker) value(t reflect.Type, at string) error {
	token, err := w.token()
	if err != nil {
		return err
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if at == "" && token != json.Delim('{') {
		return malformed("the body is not a JSON object")
	}
	if token == nil {
		return malformed("%s is null, which no member here takes; leave it out instead", where(at))
	}
	if got, want := kindOfToken(token), kindOf(t); got != want && (got != number || want != wholeNumber) {
		return malformed("%s is %s; it must be %s", where(at), got, want)
	}
	switch token := token.(type) {
	case string:
		return w.checkText(token, at)
	case json.Delim:
		if token == '[' {
			return w.list(t, at)
		}
		return w.object(t, at)
	}
	return nil
}

func (w *walker) list(t reflect.Type, at string) error {
	for i := 0; w.dec.More(); i++ {
		if i == mostItems {
			return malformed("%s has more than %d items", where(at), mostItems)
		}
		if err := w.value(t.Elem(), fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	_, err := w.token()
	return err
}

func (w *walker) object(t reflect.Type, at string) error {
	known, others := members(t)
	seen := map[string]bool{}
	for w.dec.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder gives nothing else there
		i := slices.IndexFunc(known, func(m member) bool { return m.name == name })
		of := others
		if i >= 0 {
			of = known[i].of
		}
		if of == nil {
			// Its name is not repeated: what stands in the wrong place may be a secret, and what is
			// said here is kept in the book.
			return malformed("%s has a member whose name ends at byte %d and that this request does not take; %s", where(at), w.dec.InputOffset(), taken(known))
		}
		path := below(at, name)
		if err := w.checkText(name, path); err != nil {
			return err
		}
		if seen[name] {
			return malformed("%s is given twice", path)
		}
		if seen[name] = true; len(seen) > mostItems {
			return malformed("%s has more than %d members", where(at), mostItems)
		}
		if err := w.value(of, path); err != nil {
			return err
		}
	}
	if _, err := w.token(); err != nil {
		return err
	}
	for _, m := range known {
		if m.required && !seen[m.name] {
			return malformed("%s lacks the member %s", where(at), m.name)
		}
	}
	return nil
}

// taken says which members there may be.
func taken(known []member) string {
	if len(known) == 0 {
		return "it takes none"
	}
	names := make([]string, len(known))
	for i, m := range known {
		names[i] = m.name
	}
	return "it takes " + strings.Join(names, ", ")
}

// member is one name an object may have.
type member struct {
	name     string
	of       reflect.Type
	required bool
}

// members are those of a request type: its JSON names, required unless they may be left
// out. others is the type of all other members, null where there are none; only a map has
// such.
func members(t reflect.Type) (known []member, others reflect.Type) {
	if t.Kind() == reflect.Map {
		return nil, t.Elem()
	}
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		known = append(known, member{name: name, of: field.Type, required: !strings.Contains(options, "omitempty")})
	}
	return known, nil
}

// below is the place of a member: its name as it is where that is a plain word.
func below(at, name string) string {
	if !plainWord.MatchString(name) {
		name = quoted(name)
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

// token is the next one; what is wrong with the syntax is said with its place.
func (w *walker) token() (json.Token, error) {
	w.before = w.dec.InputOffset()
	token, err := w.dec.Token()
	if err == nil {
		return token, nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return nil, malformed("the body is not JSON at byte %d", syntax.Offset)
	}
	return nil, malformed("the body's JSON ends early, at byte %d", len(w.text))
}

var (
	plainWord    = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
	anySurrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
	escapedPair  = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
)

// checkText refuses NUL, which PostgreSQL does not store, and half a surrogate pair, which
// the decoder would replace. The string has just been read.
func (w *walker) checkText(s, at string) error {
	if strings.ContainsRune(s, 0) {
		return malformed("%s holds a NUL", where(at))
	}
	if !strings.ContainsRune(s, '\uFFFD') {
		return nil
	}
	raw := bytes.ReplaceAll(w.text[w.before:w.dec.InputOffset()], []byte(`\\`), nil)
	if anySurrogate.Match(escapedPair.ReplaceAll(raw, nil)) {
		return malformed("%s holds half a surrogate pair", where(at))
	}
	return nil
}

func where(at string) string {
	if at == "" {
		return "the body"
	}
	return at
}
