package people

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
)

// mostToken is the longest token the gateway takes, in bytes.
const mostToken = 16 << 10

// claims are what a token says of itself. Its signature is not looked at here: the gateway
// does that, and decides by it.
type claims struct {
	issuer, subject, nonce, party string
	audience                      []string
	// issued and ends are zero when the token does not say.
	issued, ends time.Time
}

// claimsOf reads a token in its compact form. Errors quote nothing of it.
func claimsOf(token string) (claims, error) {
	if len(token) > mostToken {
		return claims{}, fmt.Errorf("it has more than %d bytes", mostToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return claims{}, errors.New("it is not a signed JSON Web Token, which has three parts")
	}
	for i := range parts {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(parts[i]); err != nil {
			return claims{}, fmt.Errorf("part %d of it is not base64url", i+1)
		}
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1]) // just done
	var said struct {
		Issuer   string    `json:"iss"`
		Subject  string    `json:"sub"`
		Nonce    string    `json:"nonce"`
		Party    string    `json:"azp"`
		Audience oneOrMany `json:"aud"`
		Issued   *float64  `json:"iat"`
		Ends     *float64  `json:"exp"`
	}
	if json.Unmarshal(payload, &said) != nil {
		return claims{}, errors.New("its claims are not JSON of the types that a token's are")
	}
	c := claims{issuer: said.Issuer, subject: said.Subject, nonce: said.Nonce, party: said.Party, audience: said.Audience}
	var err error
	c.issued, err = numericDate(said.Issued)
	if err == nil {
		c.ends, err = numericDate(said.Ends)
	}
	return c, err
}

// oneOrMany is the claim aud: a text or a list of them.
type oneOrMany []string

// UnmarshalJSON takes both.
func (o *oneOrMany) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		return json.Unmarshal(raw, (*[]string)(o))
	}
	var one string
	if err := json.Unmarshal(raw, &one); err != nil {
		return err
	}
	*o = []string{one}
	return nil
}

// numericDate is seconds since 1970, of which JSON may have fractions.
func numericDate(seconds *float64) (time.Time, error) {
	if seconds == nil {
		return time.Time{}, nil
	}
	if math.IsNaN(*seconds) || *seconds < 0 || *seconds > 253402300799 { // the year 9999
		return time.Time{}, errors.New("one of its times is none")
	}
	return time.Unix(int64(*seconds), 0), nil
}

// meantFor is true when the token is for one of these.
func (c *claims) meantFor(audience []string) bool {
	return slices.ContainsFunc(c.audience, func(one string) bool { return slices.Contains(audience, one) })
}

// checkID holds an ID token against the login that asked for it: who gave it, for which
// client, and the nonce, which is empty in a flow that has none.
func (c *claims) checkID(is *issuer, nonce string) error {
	switch {
	case c.issuer != is.Issuer:
		return fmt.Errorf("it says that it is of another issuer (%s)", cli.ASCII(cli.Clip(c.issuer, mostQuoted)))
	case c.subject == "":
		return errors.New("it names no subject")
	case !c.meantFor([]string{is.ClientID}) && c.party != is.ClientID:
		return fmt.Errorf("it is for another client (%s) than %s", cli.ASCII(cli.Clip(strings.Join(c.audience, ", "), mostQuoted)), cli.ASCII(is.ClientID))
	case nonce != "" && c.nonce != nonce:
		return errors.New("its nonce is not the one of this login: it was made for another")
	}
	return nil
}

// mostQuoted is how much of a stranger's text an error quotes, in characters.
const mostQuoted = 200

// tokenOf takes the token for the gateway out of an issuer's answer: the ID token, or the
// access token when only that is meant for the gateway.
func (is *issuer) tokenOf(got *oauth2.Token, nonce string) (string, claims, error) {
	id, _ := got.Extra("id_token").(string)
	if id == "" {
		return "", claims{}, cli.Denied(fmt.Errorf("the issuer %s gave no ID token: ask who runs it to allow the client %q the scope openid", is.Issuer, is.ClientID))
	}
	said, err := claimsOf(id)
	if err == nil {
		err = said.checkID(is, nonce)
	}
	if err != nil {
		return "", claims{}, cli.Denied(fmt.Errorf("the ID token of the issuer %s is not taken: %w; nothing was sent to the gateway", is.Issuer, err))
	}
	if len(is.Audience) == 0 || said.meantFor(is.Audience) {
		return id, said, nil
	}
	access, err := claimsOf(got.AccessToken)
	if err == nil && access.issuer == said.issuer && access.subject == said.subject && access.meantFor(is.Audience) {
		return got.AccessToken, access, nil
	}
	return "", claims{}, cli.Denied(fmt.Errorf("the tokens of the issuer %s are for %s, and the gateway takes those for %s: ask who runs the issuer to add that audience",
		is.Issuer, cli.ASCII(cli.Clip(strings.Join(said.audience, ", "), mostQuoted)), cli.ASCII(cli.Clip(strings.Join(is.Audience, ", "), mostQuoted))))
}

// clockHint adds to a refused token that the clocks of issuer and gateway disagree, if they do.
func (c *claims) clockHint(err error, now time.Time) error {
	var p *ask.ProblemError
	switch {
	case !errors.As(err, &p) || p.Status != http.StatusUnauthorized || now.IsZero():
		return err
	case !c.issued.IsZero() && c.issued.After(now.Add(mostSkew)):
		return fmt.Errorf("%w\nthe issuer's clock is %s ahead of the gateway's: ask who runs them", err, cli.Span(c.issued.Sub(now)))
	case !c.ends.IsZero() && !now.Before(c.ends):
		return fmt.Errorf("%w\nby the gateway's clock the token ended %s ago: log in again; when that does not help, its clock is ahead of the issuer's", err, cli.Span(now.Sub(c.ends)))
	}
	return err
}

// readToken reads the person's own token. file is theirs when it stays where it is.
func (r *loginRun) readToken(source string) (token string, said claims, file string, err error) {
	var raw []byte
	switch source {
	case tokenVariable:
		raw = []byte(os.Getenv(tokenVariable))
	case "-":
		raw, err = io.ReadAll(io.LimitReader(r.In, 2*mostToken))
		source = "standard input"
	default:
		var f *os.File
		if f, err = os.Open(source); err == nil {
			defer f.Close()
			raw, err = io.ReadAll(io.LimitReader(f, 2*mostToken))
		}
		if info, bad := os.Stat(source); bad == nil && info.Mode().IsRegular() {
			file, bad = filepath.Abs(source)
			err = errors.Join(err, bad)
		}
	}
	if err != nil {
		return "", claims{}, "", cli.Usage(fmt.Errorf("reading your token (--jwt): %w", err))
	}
	token = strings.TrimSpace(string(raw))
	if said, err = claimsOf(token); err != nil {
		return "", claims{}, "", cli.Usage(fmt.Errorf("reading your token: what %s holds is no token: %w", source, err))
	}
	return token, said, file, nil
}
