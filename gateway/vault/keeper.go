package vault

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// DefaultRefresh is how often a Keeper asks: a new credential, digest key or authority is known
// everywhere after that at the latest.
const DefaultRefresh = 30 * time.Second

// Refresher is one thing that is read from OpenBao anew.
type Refresher struct {
	Refresh func(context.Context) error
	// Missed, where it is set, is told why Refresh was not tried: OpenBao was away before it.
	Missed func(error)
}

// Keeper reads things anew, in the background, so that no call has to wait for it. Safe for
// concurrent use; Run is called once.
type Keeper struct {
	every      time.Duration
	refreshers []Refresher
	log        *slog.Logger

	mu        sync.Mutex // guards what follows
	confirmed time.Time  // when the last round without an error began
	problem   error      // of the latest round; nil when there was none
}

// NewKeeper keeps what is given, in that order, reading it anew every so often; 0 takes
// DefaultRefresh. log nil is silence.
func NewKeeper(every time.Duration, log *slog.Logger, refreshers ...Refresher) *Keeper {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{every: cmp.Or(every, DefaultRefresh), refreshers: refreshers, log: log}
}

// Refresh reads everything once; the errors are joined, and name what could not be read.
func (k *Keeper) Refresh(ctx context.Context) error {
	began := time.Now()
	var problems []error
	var away error // the others would say the same, each after its time
	for _, r := range k.refreshers {
		if away != nil {
			if r.Missed != nil {
				r.Missed(away)
			}
			continue
		}
		if err := r.Refresh(ctx); err != nil {
			problems = append(problems, err)
			if isAway(err) {
				away = err
			}
		}
	}
	err := errors.Join(problems...)
	k.mu.Lock()
	before := k.problem
	k.problem = err
	if err == nil {
		k.confirmed = began
	}
	k.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		k.log.WarnContext(ctx, "OpenBao could not be read anew; what is held stays for its time", slog.Any("cause", err))
	case err == nil && before != nil:
		k.log.InfoContext(ctx, "OpenBao can be read again")
	}
	return err
}

// isAway is whether all of OpenBao cannot be asked, and not one thing in it.
func isAway(err error) bool {
	switch kindOf(err) {
	case KindSealed, KindUnreachable, KindSlow, KindGone:
		return true
	}
	return false
}

// Run refreshes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for sleep(ctx, k.every) {
		_ = k.Refresh(ctx) // logged there
	}
}

// Health is how the latest round went: the sentence of what is the matter, empty when nothing
// is, and when everything was last confirmed.
func (k *Keeper) Health() (problem string, confirmed time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem != nil {
		problem = k.problem.Error()
		var known *Error
		if errors.As(k.problem, &known) {
			problem = known.ForCaller()
		}
	}
	return problem, k.confirmed
}
