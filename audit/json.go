package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// object writes one JSON object, member by member, in the order of the calls. Members with a zero value are left out,
// so that the bytes are a function of the meaning.
type object struct {
	b     []byte
	first bool
}

func newObject(b []byte) object { return object{b: append(b, '{'), first: true} }

func (o *object) key(name string) {
	if !o.first {
		o.b = append(o.b, ',')
	}
	o.first = false
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) text(name, value string) {
	if value != "" {
		o.key(name)
		o.b = appendText(o.b, value)
	}
}

func (o *object) number(name string, value int64) {
	if value != 0 {
		o.always(name, value)
	}
}

func (o *object) always(name string, value int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, value, 10)
}

func (o *object) flag(name string, value bool) {
	if value {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) list(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.key(name)
	o.b = append(o.b, '[')
	for i, v := range values {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendText(o.b, v)
	}
	o.b = append(o.b, ']')
}

func (o *object) end() []byte { return append(o.b, '}') }

// appendText writes a JSON string: only the quotation mark, the backslash and control characters below U+0020 are
// escaped, with the short form where JSON has one and \u00xx in lower-case hex where it has not. s is valid UTF-8.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\t':
			b = append(b, '\\', 't')
		case '\n':
			b = append(b, '\\', 'n')
		case '\f':
			b = append(b, '\\', 'f')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			if c < 0x20 {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}

// cleanJSON returns text as compact JSON that PostgreSQL's jsonb takes: bytes that are not UTF-8 and the escape \u0000
// become the visible \xNN of escape, an unpaired surrogate becomes U+FFFD. A text that is no JSON becomes a JSON string
// of itself, escaped and cut: it is still recorded. An empty text gives nil.
func cleanJSON(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	var compact bytes.Buffer
	compact.Grow(len(text))
	if err := json.Compact(&compact, text); err != nil {
		return appendText(nil, escape(string(text)))
	}
	out := compact.Bytes()
	if utf8.Valid(out) && !bytes.Contains(out, []byte(`\u`)) {
		return out
	}
	return cleanStrings(out)
}

// cleanStrings rewrites what jsonb refuses. in is syntactically valid JSON, so bytes outside ASCII and backslashes
// occur inside strings only, and \u is followed by four hex digits.
func cleanStrings(in []byte) []byte {
	out := make([]byte, 0, len(in)+16)
	for len(in) > 0 {
		if in[0] == '\\' && in[1] != 'u' {
			out, in = append(out, in[:2]...), in[2:]
			continue
		}
		if in[0] == '\\' {
			r := hexRune(in[2:6])
			size := 6
			if utf16.IsSurrogate(r) {
				r2 := utf8.RuneError
				if len(in) >= 12 && in[6] == '\\' && in[7] == 'u' {
					r2 = utf16.DecodeRune(r, hexRune(in[8:12]))
				}
				if r2 == utf8.RuneError {
					out, in = append(out, `\ufffd`...), in[6:]
					continue
				}
				size = 12
			}
			if r == 0 {
				out = append(out, `\\x00`...)
			} else {
				out = append(out, in[:size]...)
			}
			in = in[size:]
			continue
		}
		r, size := utf8.DecodeRune(in)
		if r == utf8.RuneError && size == 1 {
			out = append(out, `\\x`...)
			out = append(out, "0123456789abcdef"[in[0]>>4], "0123456789abcdef"[in[0]&15])
		} else {
			out = append(out, in[:size]...)
		}
		in = in[size:]
	}
	return out
}

func hexRune(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
