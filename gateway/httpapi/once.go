package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
)

// replayedHeader marks the answer of a request that was carried out before.
const replayedHeader = "Idempotency-Replayed"

// once is what makes the act happen once for the request's Idempotency-Key; null without
// one. render makes the answer of what the act did, which is kept with the key; without it
// the answer of a repetition is the present state. T is the type the act returns, any when
// the answer does not depend on it.
func once[T any](c *call, render func(T) answer) (*control.Once, error) {
	key, err := idempotencyKey(c.r.Header.Values("Idempotency-Key"))
	if key == "" || err != nil {
		return nil, err
	}
	o := &control.Once{
		Key: key, Route: c.r.Method + " " + c.r.URL.EscapedPath(), Body: c.Digester.Digest(c.text),
		SameBody: func(kept string) bool {
			same, err := c.Digester.Same(c.text, kept)
			if err != nil {
				// A digest of a key that is gone can only be told to be another one.
				c.note(slog.Any("idempotency", err))
			}
			return err == nil && same
		},
	}
	if render != nil {
		o.Answer = func() (int, []byte, error) {
			done, ok := o.Result.(T)
			if _, whatever := any(&done).(*any); !ok && !whatever {
				return 0, nil, fmt.Errorf("an act of %s gave a %T to keep", c.route.act, o.Result)
			}
			kept := &keptAnswer{header: http.Header{}}
			if err := render(done)(kept); err != nil {
				return 0, nil, err
			}
			return kept.status, kept.body.Bytes(), nil
		}
	}
	return o, nil
}

// repeated answers a repetition: with the kept answer, or with the present state of what
// ref, or the path, names. Any other error is given back. The repetition is an entry like
// a look at what was done.
func (c *call) repeated(err error, read string, present func(ref uuid.UUID) (answer, error)) (answer, error) {
	var before *control.ReplayedError
	if !errors.As(err, &before) {
		return nil, err
	}
	if before.Receipt.ID == uuid.Nil {
		if before.Receipt, err = c.Book.Read(c.ctx, c.by, read, c.subject()); err != nil {
			return nil, err
		}
	}
	c.entry.set(before.Receipt)
	a := keptBefore(before)
	if before.Status == 0 || before.Ref != uuid.Nil {
		if present == nil {
			return nil, fmt.Errorf("repeating %s: nothing was kept", c.route.act)
		}
		if a, err = present(before.Ref); err != nil {
			return nil, err
		}
	}
	c.header.Set(replayedHeader, "true")
	return a, nil
}

func keptBefore(before *control.ReplayedError) answer {
	return func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(before.Status)
		_, err := w.Write(before.Body)
		return err
	}
}

// idempotencyKey reads the header: a string of the structured fields, or the same without
// its quotes, as many clients send it. Empty means that there is none.
func idempotencyKey(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(values[0])
	if inner, quote := strings.CutPrefix(key, `"`); quote {
		key = strings.TrimSuffix(inner, `"`)
		if len(key) != len(inner)-1 {
			return "", malformed("the Idempotency-Key begins with a quote and does not end with one")
		}
	}
	switch {
	case len(values) > 1:
		return "", malformed("the Idempotency-Key is given twice")
	case key == "" || len(key) > 255:
		return "", malformed("the Idempotency-Key has 1 to 255 characters, not %d", len(key))
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }):
		return "", malformed(`the Idempotency-Key holds something else than printable ASCII without " and \`)
	}
	return key, nil
}
