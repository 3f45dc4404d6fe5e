package upstream

import (
	"context"
	"errors"
	"time"
)

// ReadBack is what was seen after an apply.
type ReadBack struct {
	// Matched is true when both configurations satisfied the caller's question.
	Matched bool
	// ActiveMatches and PersistentMatches say it of each, in the last reading.
	ActiveMatches, PersistentMatches bool
	// Last is the last whole reading, which with an Err is not the last try; nil if there
	// was none. Moved and the rest are about it.
	Last *Evidence
	// Rebooted is true when the active configuration's time of creation is another than
	// in the Evidence before: versions cannot be compared then.
	Rebooted bool
	// OtherMachine is true when the node id is another than in the Evidence before; such
	// a reading never matches.
	OtherMachine bool
	// Moved is true when a resource has another (created, version) than before.
	Moved bool
	// AddressChanged is true when the machine was read at another address than before.
	AddressChanged bool
	// Reads counts whole readings.
	Reads int
	// Err is why the last reading failed; nil when it did not.
	Err error
}

// Pause waits between two readings; it returns early with ctx's error. Tests give their
// own, the zero value of ReadBackConfig waits for real.
type Pause func(ctx context.Context, d time.Duration) error

// ReadBackConfig says what to look for.
type ReadBackConfig struct {
	// Before is the Evidence the apply was judged on. Required.
	Before Evidence
	// Want answers whether a text is the one applied. Required.
	Want func(text []byte) bool
	// Once reads a single time: after an answer there is nothing to wait for.
	Once bool
	// Pause is used between readings; nil means a timer.
	Pause Pause
}

const (
	// Talos writes the persistent and then the active configuration before it answers,
	// so a read-back after an answer matches at once; the pauses are for lost answers.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// ReadBack reads the machine until both configurations satisfy cfg.Want or ctx ends, and
// reports what it saw last. It uses this connection while that lives and the pool's
// afterwards, and never sends anything that changes the machine. ctx must have a
// deadline; without one it reads once.
func (c *SendingConn) ReadBack(ctx context.Context, cfg ReadBackConfig) ReadBack {
	read := func(ctx context.Context) (Evidence, error) {
		if c.alive() {
			e, err := c.Evidence(ctx)
			if err == nil || c.alive() {
				return e, err
			}
		}

		return c.pool.Observe(ctx, c.target)
	}

	return readBack(ctx, cfg, read)
}

// ReadBack is SendingConn.ReadBack without one: over the pooled connection, for an
// attempt whose connection or process is gone.
func (p *Pool) ReadBack(ctx context.Context, t Target, cfg ReadBackConfig) ReadBack {
	return readBack(ctx, cfg, func(ctx context.Context) (Evidence, error) { return p.Observe(ctx, t) })
}

func readBack(ctx context.Context, cfg ReadBackConfig, read func(context.Context) (Evidence, error)) ReadBack {
	pause := cfg.Pause
	if pause == nil {
		pause = sleep
	}

	if _, ok := ctx.Deadline(); !ok {
		cfg.Once = true
	}

	var out ReadBack

	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		e, err := read(ctx)
		if out.Err = err; err == nil {
			out.see(cfg, e)
		}

		if out.Matched || cfg.Once || ctx.Err() != nil {
			return out
		}

		if err := pause(ctx, wait); err != nil {
			if out.Last == nil {
				out.Err = errors.Join(out.Err, err)
			}

			return out
		}
	}
}

// see takes one whole reading in.
func (r *ReadBack) see(cfg ReadBackConfig, e Evidence) {
	b := cfg.Before

	r.Reads++
	r.Last = &e
	r.OtherMachine = e.NodeID != b.NodeID || e.ClusterID != b.ClusterID
	r.Rebooted = !e.Active.Created.Equal(b.Active.Created)
	r.Moved = !e.Active.Same(b.Active) || !e.Persistent.Same(b.Persistent)
	r.AddressChanged = e.Address != b.Address
	r.ActiveMatches = cfg.Want(e.Active.Text)
	r.PersistentMatches = cfg.Want(e.Persistent.Text)
	r.Matched = r.ActiveMatches && r.PersistentMatches && !r.OtherMachine
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()

	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
