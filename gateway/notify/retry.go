package notify

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// growth is how much longer each wait is than the one before.
	growth = 3
	// jitter varies each wait by a fifth, so that notices that failed together come apart.
	jitter = 0.2
)

// wait is how long after the try-th try (from 1) the next is due: longer each time, and not
// before the receiver asked for, up to MostRetry.
func (c Config) wait(try int, after time.Duration) time.Duration {
	policy := &backoff.ExponentialBackOff{
		InitialInterval: c.FirstRetry, MaxInterval: c.MostRetry, Multiplier: growth, RandomizationFactor: jitter,
	}
	policy.Reset()
	next := policy.NextBackOff()
	for range try - 1 {
		next = policy.NextBackOff()
	}
	return max(next, min(after, c.MostRetry))
}
