package people

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
)

const (
	// usualPoll and longestPoll are how often an issuer is asked whether somebody said yes: the
	// first when it does not say (RFC 8628 §3.2), the second at the most.
	usualPoll   = 5 * time.Second
	longestPoll = time.Minute
	// mostLost is how many answers in a row may be lost while somebody is waited for.
	mostLost = 5
)

// byDevice logs in by device flow (RFC 8628): the person says yes in a browser anywhere,
// where they type a code.
func (l *Login) byDevice(ctx context.Context, g *cli.Globals, is *issuer) (*oauth2.Token, error) {
	if is.doc.Device == "" {
		return nil, fmt.Errorf("the issuer %s has no device flow: log in with a browser on this computer (without --device), or ask who runs it", is.Issuer)
	}
	if err := is.goodEndpoint("device_authorization_endpoint", is.doc.Device); err != nil {
		return nil, err
	}
	conf := is.conf("")
	asked, err := conf.DeviceAuth(is.with(ctx))
	switch {
	case ctx.Err() != nil:
		return nil, interrupted(ctx)
	case err != nil:
		return nil, is.explain(err)
	}
	if err := is.goodDevice(asked); err != nil {
		return nil, err
	}
	fmt.Fprintf(g.ErrOut, "Open this address in any browser, and enter the code:\n\n    %s\n    %s\n\n", cli.ASCII(asked.VerificationURI), cli.ASCII(asked.UserCode))
	if is.goodEndpoint("verification_uri_complete", asked.VerificationURIComplete) == nil {
		fmt.Fprintf(g.ErrOut, "Or this one, and compare the code:\n\n    %s\n\n", cli.ASCII(asked.VerificationURIComplete))
	}
	bounded, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	token, err := is.poll(bounded, g, conf, asked)
	switch {
	case err == nil:
		return token, nil
	case ctx.Err() != nil:
		return nil, interrupted(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, cli.NotYet(fmt.Errorf("nobody entered the code at %s in time: log in again, with --timeout for longer", cli.ASCII(asked.VerificationURI)))
	}
	return nil, is.explain(err)
}

// goodDevice refuses what cannot be shown to a person or waited for, and brings the pace of
// asking within bounds.
func (is *issuer) goodDevice(asked *oauth2.DeviceAuthResponse) error {
	if err := is.goodEndpoint("verification_uri", asked.VerificationURI); err != nil {
		return err
	}
	if asked.DeviceCode == "" || asked.UserCode == "" || len(asked.UserCode) > 64 {
		return fmt.Errorf("the issuer %s gave no code for you to enter", is.Issuer)
	}
	if asked.Interval < 1 {
		asked.Interval = int64(usualPoll / time.Second)
	}
	asked.Interval = min(asked.Interval, int64(longestPoll/time.Second))
	return nil
}

// poll asks until somebody said yes or no, or ctx ends. An answer that is lost is asked for
// again, half as often.
func (is *issuer) poll(ctx context.Context, g *cli.Globals, conf *oauth2.Config, asked *oauth2.DeviceAuthResponse) (*oauth2.Token, error) {
	p := g.NewProgress()
	defer p.Begin("waiting for you to enter " + asked.UserCode)()
	for lost := 1; ; lost++ {
		token, err := conf.DeviceAccessToken(is.with(ctx), asked)
		if err == nil || lost == mostLost || ctx.Err() != nil || !passingAt(err) {
			return token, err
		}
		p.Note("no answer from the issuer, asking again")
		asked.Interval = min(2*asked.Interval, int64(longestPoll/time.Second))
	}
}

// passingAt is true for a fault of an issuer or the way there that may be over at the next try.
func passingAt(err error) bool {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return refused.ErrorCode == "" && refused.Response != nil && refused.Response.StatusCode >= http.StatusInternalServerError
	}
	return !errors.Is(err, errTooMuch) && !errors.Is(err, context.DeadlineExceeded) && ask.Passing(err)
}
