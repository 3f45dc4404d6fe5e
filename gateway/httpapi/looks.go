package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"bronzeward/policy"
)

const (
	// lookEvery is how often those that wait for the same thing read the store, together.
	lookEvery = time.Second
	// lookWithin bounds a reading that nobody's request owns.
	lookWithin = 10 * time.Second
)

// look is one read of the store, and leaves no entry. It depends on nothing but its key.
type look func(context.Context) (answer, error)

// seen is what a look gave. It is not changed any more.
type seen struct {
	began time.Time // what is seen is at least as new
	tag   string
	kept  *keptAnswer
}

// see looks now.
func see(ctx context.Context, look look) (seen, error) {
	s := seen{began: time.Now(), kept: &keptAnswer{header: http.Header{}}}
	a, err := look(ctx)
	if err != nil {
		return seen{}, err
	}
	if err := a(s.kept); err != nil {
		return seen{}, err
	}
	s.tag = tagOf(s.kept.body.Bytes())
	return s, nil
}

// looks is what requests that wait for the same thing see together: however many there are,
// they look once in lookEvery. Safe for concurrent use.
type looks struct {
	flights singleflight.Group
	mu      sync.Mutex // guards all
	all     map[string]*shared
}

// shared is what those see that wait for one thing.
type shared struct {
	waiters int
	last    seen
}

func newLooks() *looks { return &looks{all: map[string]*shared{}} }

// join tells what a request has seen that is going to wait, until it leaves.
func (l *looks) join(key string, s seen) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.all[key]
	if of == nil {
		of = &shared{last: s}
		l.all[key] = of
	}
	of.waiters++
	if s.began.After(of.last.began) {
		of.last = s
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if of.waiters--; of.waiters == 0 {
			delete(l.all, key)
		}
	}
}

// newer is what somebody has seen since; false when nobody has.
func (l *looks) newer(key string, than seen) (seen, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.all[key]
	if of == nil || !of.last.began.After(than.began) {
		return seen{}, false
	}
	return of.last, true
}

// next gives something newer than a waiting request has, which is lookEvery old: what another
// one has seen since, or what they see together now.
func (l *looks) next(ctx context.Context, key string, last seen, look look) (seen, error) {
	for {
		s, err := together(ctx, &l.flights, key, lookWithin, func(ctx context.Context) (seen, error) {
			if s, ok := l.newer(key, last); ok {
				return s, nil
			}
			s, err := see(ctx, look)
			if err == nil {
				l.tell(key, s)
			}
			return s, err
		})
		// A flight that was under way may be older than what this request has.
		if err != nil || s.began.After(last.began) {
			return s, err
		}
	}
}

func (l *looks) tell(key string, s seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.all[key]; of != nil && s.began.After(of.last.began) {
		of.last = s
	}
}

// together does something once for all who ask for it by the same key while it is done. It
// ends with none of them, because the others would lose it.
func together[T any](ctx context.Context, flights *singleflight.Group, key string, within time.Duration, do func(context.Context) (T, error)) (T, error) {
	var none T
	done := flights.DoChan(key, func() (out any, err error) {
		defer func() {
			// It is nobody's goroutine, so that a panic would end the process.
			if p := recover(); p != nil {
				err = fmt.Errorf("looking together panicked: %s\n%s", policy.PanicText(p), debug.Stack())
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		return do(ctx)
	})
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case r := <-done:
		out, _ := r.Val.(T)
		return out, r.Err
	}
}
