package vault

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/openbao/openbao/api/v2"
)

const (
	// endless is how long a token without an end is used before the way it came is tried again:
	// a file may hold another one by then.
	endless = time.Minute
	// shortest keeps a token with hardly any life from being asked for without pause.
	shortest = time.Second
	// mostLoginWait is the longest pause between logins that fail.
	mostLoginWait = 30 * time.Second
)

// keep makes the token's life longer, and logs in again where that ends or cannot be done, until
// Close. The library's LifetimeWatcher does the first of these without a deadline and cannot be
// ended while it asks, which a paused server would make last.
func (c *Client) keep() {
	ctx := c.background
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = loginPause, mostLoginWait
	for c.live(ctx) {
		_, login := c.current()
		err := c.logIn(ctx, login)
		if err == nil {
			wait.Reset()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		c.log.WarnContext(ctx, "OpenBao does not let the gateway in again; it is tried on", slog.Any("cause", err))
		if !sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// live returns true when it is time for another token: the present one cannot be renewed, or
// renewing gives it less than half the life that it began with, which is how its greatest age
// shows. It is false when ctx has ended.
func (c *Client) live(ctx context.Context) bool {
	c.mu.Lock()
	token, login := c.token, c.login
	c.mu.Unlock()
	whole := life(token)
	if whole == 0 {
		return sleep(ctx, endless)
	}
	for ends := time.Now().Add(whole); ; {
		if !sleep(ctx, max(time.Until(ends)*2/3, shortest)) {
			return false
		}
		client, now := c.current()
		switch {
		case now != login: // a question's own login; its token is renewed from here on
			return c.live(ctx)
		case !token.Renewable, time.Until(ends) <= 0:
			return true
		}
		renewed, err := c.renew(ctx, client)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil && kindOf(err) == KindForbidden:
			return true
		case err != nil:
			c.log.WarnContext(ctx, "OpenBao does not make the life of the gateway's token longer; it is tried on", slog.Any("cause", err))
		case life(renewed) < whole/2:
			return true
		default:
			ends = time.Now().Add(life(renewed))
		}
	}
}

// renew asks for one more life of the token. It does not log in when OpenBao does not know the
// token any more.
func (c *Client) renew(ctx context.Context, client *api.Client) (*api.SecretAuth, error) {
	const doing = "renewing the token"
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	secret, err := client.Auth().Token().RenewSelfWithContext(within, 0)
	switch {
	case err != nil:
		return nil, classify(within, doing, c.timeout, err)
	case secret == nil || secret.Auth == nil:
		return nil, refused(doing, KindMalformed, nil, "OpenBao did not say how long it lives")
	}
	return secret.Auth, nil
}

// life is how long a token lives, 0 when it does not end.
func life(token *api.SecretAuth) time.Duration {
	return time.Duration(token.LeaseDuration) * time.Second
}
