package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// reads has the request judged as a reading act, whose entry is then in the book.
func (c *call) reads(act string) error {
	receipt, err := c.Book.Read(c.ctx, c.by, act, c.subject())
	if err != nil {
		return err
	}
	c.entry.set(receipt)
	c.judged = true
	return nil
}

// onlyReads is reads for a request that takes no parameters.
func (c *call) onlyReads(act string) error {
	if err := c.query().err; err != nil {
		return err
	}
	return c.reads(act)
}

// notShown is how a request is answered whose act was done and cannot be shown: it must not
// look as if nothing had happened. The act's entry stands for it.
func (c *call) notShown(done string, err error) error {
	p := problemOf(err)
	return &problem{
		status: http.StatusInternalServerError, code: "BW-HTTP-500", detail: done + ", and cannot be shown now", hint: "look at it again",
		cause: p, entry: c.entry.get(),
	}
}

// firstProblem is the first of several checks that found something.
func firstProblem(checks ...*problem) error {
	for _, p := range checks {
		if p != nil {
			return p
		}
	}
	return nil
}

// oneOf refuses what is none of a few words.
func oneOf(what, text string, words ...string) *problem {
	if slices.Contains(words, text) {
		return nil
	}
	return malformed("%s is %s, not %s", what, strings.Join(words, " or "), quoted(text))
}

// filled refuses an empty text.
func filled(what, text string) *problem {
	if text == "" {
		return malformed("%s is empty", what)
	}
	return nil
}
