package vault

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Retries of one question: short, because a call waits, and few, because what lasts longer is an
// outage that people should be told of. All of them are inside the question's timeout.
const (
	retries      = 4
	minRetryWait = 50 * time.Millisecond
	maxRetryWait = 300 * time.Millisecond
)

// patiently tries again while what is wrong may pass within moments. The error is that of the
// last try, and not that time ran out while waiting for the next one: an OpenBao that refuses
// connections is away, however long it is waited for.
func patiently(ctx context.Context, try func() error) error {
	var last error
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(minRetryWait), backoff.WithMaxInterval(maxRetryWait), backoff.WithMaxElapsedTime(0))
	err := backoff.Retry(func() error {
		if last = try(); last != nil && !passing(ctx, last) {
			return backoff.Permanent(last)
		}
		return last
	}, backoff.WithContext(backoff.WithMaxRetries(wait, retries), ctx))
	if err != nil && last != nil {
		return last
	}
	return err
}

// passing is whether the next try may go better. A sealed OpenBao needs people, and what is
// classified already, a login's outcome for one, was tried patiently before.
func passing(ctx context.Context, err error) bool {
	var known *Error
	if ctx.Err() != nil || errors.As(err, &known) {
		return false
	}
	if upgrading(err) {
		return true
	}
	kind := classify(ctx, "", 0, err).Kind
	return kind == KindUnreachable || kind == KindFailing
}
