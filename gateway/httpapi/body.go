package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// smallBody is the largest body in bytes of most requests.
	smallBody = 1 << 20
	// largeBody is that of a proposal, which carries a whole configuration.
	largeBody = 32 << 20
	// readWithin bounds how long a body may take to arrive: the largest at half a megabyte a
	// second, with room.
	readWithin = 90 * time.Second
)

// decode reads the request's body strictly into a value of one of package api's request
// types: the right type and size, valid UTF-8, one JSON object with the members that type
// has, each once, and nothing behind it. It says what is wrong and where, and repeats no
// value of the body.
func decode[T any](c *call, into *T) error {
	if err := c.read(); err != nil {
		return err
	}
	return decodeText(c.text, into)
}

func decodeText[T any](text []byte, into *T) error {
	if !utf8.Valid(text) {
		return malformed("the body is not UTF-8 at byte %d", firstInvalid(text))
	}
	if err := checkMembers[T](text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			got, _, _ := strings.Cut(kind.Value, " ") // a number is followed by itself
			return malformed("%s is a %s; it must be a %s", where(kind.Field), got, kindOf(kind.Type))
		}
		return malformed("the body does not read as what this request takes")
	}
	return nil
}

// read reads the whole body, within its limit.
func (c *call) read() error {
	if err := c.checkType(); err != nil {
		return err
	}
	most := c.route.most
	if c.r.ContentLength > most {
		return tooLarge(most)
	}
	room := c.r.ContentLength
	if room < 0 {
		room = most
	}
	if room > smallBody {
		if err := c.bodies.Acquire(c.ctx, room); err != nil {
			return err
		}
		c.release = func() { c.bodies.Release(room) }
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(readWithin))
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(most)
	case err != nil:
		p := malformed("the body did not arrive whole")
		p.cause = err
		return p
	}
	c.text = text
	return nil
}

// checkType refuses everything but JSON as it is.
func (c *call) checkType() error {
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != jsonType || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return otherType("the body of this request is application/json in UTF-8")
	}
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return otherType("the body of this request is not taken with a Content-Encoding")
	}
	return nil
}

// kindOf is what JSON calls the kind of a Go type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	default:
		return "whole number in range"
	}
}

func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}
