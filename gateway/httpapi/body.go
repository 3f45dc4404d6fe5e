package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// smallBody is the largest body in bytes of most requests: a reason, or the hundred
	// digests of a set. mediumBody is that of a list of machines, and largeBody that of a
	// proposal, which carries a whole configuration.
	smallBody = 64 << 10
	// bundleBody is that of a law, which is packed.
	mediumBody = 1 << 20
	bundleBody = 9 << 20
	largeBody  = 32 << 20
	// smallWithin bounds how long a body up to mediumBody may take to arrive, and largeWithin
	// a larger one: the largest at half a megabyte a second, with room.
	smallWithin = 10 * time.Second
	largeWithin = 90 * time.Second
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
			// Every other wrong kind was found before.
			return malformed("%s is %s; it must be %s", where(kind.Field), number, kindOf(kind.Type))
		}
		var moment *time.ParseError
		if errors.As(err, &moment) {
			return malformed("a time in the body is not written as RFC 3339 does: 2026-03-02T10:00:00Z")
		}
		return malformed("the body does not read as what this request takes")
	}
	return nil
}

// read reads the whole body, within its limit, which is JSON.
func (c *call) read() error {
	if err := c.checkType(jsonType); err != nil {
		return err
	}
	return c.readBody()
}

// readRaw reads a body that is taken byte for byte. Its type is said all the same: what a
// browser sends of itself, with a person's certificate, is not of it.
func (c *call) readRaw() error {
	if err := c.checkType("application/yaml"); err != nil {
		return err
	}
	return c.readBody()
}

func (c *call) readBody() error {
	most := c.route.most
	if c.r.ContentLength > most {
		return tooLarge(most)
	}
	room := c.r.ContentLength
	if room < 0 {
		room = most
	}
	if room > mediumBody {
		if err := c.holdRoom(room); err != nil {
			return err
		}
	}
	c.unread = false
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(c.route.within()))
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(most)
	case err != nil:
		p := malformed("the body did not arrive whole, for which it has %s", c.route.within())
		p.cause = err
		return p
	}
	c.text = text
	return nil
}

// holdRoom waits for room for a large body, which is given back when the request ends.
func (c *call) holdRoom(size int64) error {
	if err := c.hold(holdsLarge); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, largeWithin)
	defer cancel()
	if err := c.bodies.Acquire(ctx, size); err != nil {
		return err
	}
	c.atEnd(func() { c.bodies.Release(size) })
	return nil
}

// checkType refuses everything but this type as it is.
func (c *call) checkType(wanted string) error {
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != wanted || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return otherType("the body of this request is "+wanted+" in UTF-8", wanted)
	}
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return otherType("the body of this request is not taken with a Content-Encoding", wanted)
	}
	return nil
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
