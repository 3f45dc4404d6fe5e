package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"bronzeward/gateway/identity"
)

// identify proves who asks, by the same code as the gRPC door. A refusal is in the book
// before it is answered.
func (c *call) identify() error {
	who, err := c.Identity.Identify(c.ctx, identity.Request{TLS: c.r.TLS, Authorization: c.r.Header.Values("Authorization")})
	if err == nil {
		c.by.Caller = who
		return nil
	}
	var refused *identity.Refusal
	if !errors.As(err, &refused) {
		refused = &identity.Refusal{Class: identity.ClassKeysUnavailable, Message: "the credential could not be checked"}
	}
	c.note(slog.String("refused", string(refused.Class)))
	if cause := errors.Unwrap(err); cause != nil {
		c.note(slog.Any("cause", cause))
	}
	return c.stranger(credentialProblem(refused), string(refused.Class))
}

// credentialProblem is how a refused credential is answered: bad is 401, our own fault 503,
// known and not wanted 403; never mixed up.
func credentialProblem(refused *identity.Refusal) *problem {
	switch {
	case refused.Class.Unavailable():
		return &problem{status: http.StatusServiceUnavailable, code: "BW-CREDENTIAL-002", detail: refused.Message, hint: "try again", header: retryAfter(1)}
	case refused.Class.Denied():
		return &problem{status: http.StatusForbidden, code: "BW-CREDENTIAL-003", detail: refused.Message}
	}
	p := &problem{
		status: http.StatusUnauthorized, code: "BW-CREDENTIAL-001", detail: string(refused.Class) + ": " + refused.Message, hint: refused.Class.LogIn(),
		header: http.Header{"Www-Authenticate": {`Bearer realm="bronzeward"`}},
	}
	if refused.Class != identity.ClassNoCredential {
		// RFC 6750, section 3.1: without a token no error is named.
		p.header.Set("WWW-Authenticate", `Bearer realm="bronzeward", error="invalid_token", error_description="`+string(refused.Class)+`"`)
	}
	return p
}

// stranger writes the refusal of somebody who may come in any number down, counted.
func (c *call) stranger(p *problem, class string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), recordWithin)
	defer cancel()
	receipt, err := c.Book.Stranger(ctx, c.by.Address, p.code, class, p.detail)
	if err != nil {
		c.note(slog.Any("book", err), slog.String("unwritten", p.code))
		return noBook()
	}
	p.entry = receipt
	return p
}

// accepts refuses a client that would not read JSON.
func (c *call) accepts() error {
	values := c.r.Header.Values("Accept")
	if len(values) == 0 {
		return nil
	}
	for _, one := range strings.Split(strings.Join(values, ","), ",") {
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(one))
		if err != nil {
			continue
		}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q == 0 {
			continue
		}
		if kind == "*/*" || kind == "application/*" || kind == jsonType || kind == c.route.gives() {
			return nil
		}
	}
	return &problem{
		status: http.StatusNotAcceptable, code: "BW-HTTP-406", detail: "answers are application/json, which the Accept header does not take",
		hint: "Accept: application/json",
	}
}
