package vault

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Retries of one question: short, because a call waits, and few, because what lasts longer is an
// outage that people should be told of. All of them are inside the question's timeout. A KV engine
// that is being turned from version 1 to 2 is asked until then: it says that it will be back.
const (
	retries      = 2
	minRetryWait = 50 * time.Millisecond
	maxRetryWait = 300 * time.Millisecond
)

// patiently tries again while what is wrong may pass within moments. The error is that of the
// last try, and not that time ran out while waiting for the next one: an OpenBao that refuses
// connections is away, however long it is waited for.
func patiently(ctx context.Context, try func() error) error {
	var last error
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = minRetryWait, maxRetryWait
	left := retries
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		switch last = try(); {
		case last == nil || ctx.Err() == nil && upgrading(last):
			return struct{}{}, last
		case left > 0 && passing(ctx, last):
			left--
			return struct{}{}, last
		}
		return struct{}{}, backoff.Permanent(last)
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		return nil
	case last != nil:
		return last
	}
	return ctx.Err() // it had ended before the first try
}

// passing is whether the next try may go better. A sealed OpenBao needs people, and what is
// classified already, a login's outcome for one, was tried patiently before.
func passing(ctx context.Context, err error) bool {
	var known *Error
	if ctx.Err() != nil || errors.As(err, &known) {
		return false
	}
	kind := classify(ctx, "", 0, err).Kind
	return kind == KindUnreachable || kind == KindFailing
}
