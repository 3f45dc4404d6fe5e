package vault

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"github.com/openbao/openbao/api/v2"
)

// forOperators adds to an error of a question what only operators are told: where OpenBao was
// looked for and what happened there, and which path a token may not. It gives a copy; an error
// that has it already, and one that needs none, are given as they are.
func (c *Client) forOperators(e *Error) *Error {
	if e.Where != "" {
		return e
	}
	client, _ := c.current()
	out := *e
	var (
		unsent   *url.Error
		answered *api.ResponseError
	)
	switch address := client.Address() + " (openbao.address)"; {
	case e.Kind == KindUnreachable && errors.Is(e.Cause, syscall.ECONNREFUSED):
		out.Where = "nothing listens at " + address
	case e.Kind == KindUnreachable && errors.As(e.Cause, &unsent):
		out.Where = fmt.Sprintf("%s: %s", address, oneLine(unsent.Err.Error()))
	case e.Kind == KindSlow:
		out.Where = address
	case e.Kind == KindForbidden && errors.As(e.Cause, &answered):
		_, path, found := strings.Cut(answered.URL, "/v1/")
		if found {
			out.Where = "at " + path
		}
		if _, own := c.auth.(operators); own {
			out.Reason = "your OpenBao token may not do this (403)"
			out.Where += "; put-credential needs the policy bronzeward-operator, all else a token that may make mounts, keys, policies and roles"
		}
	}
	return &out
}

// oneLine keeps a foreign error's text to one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
