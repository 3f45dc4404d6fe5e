package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
)

const (
	// watchAgainWithin is the longest pause before a watch that ended is begun again: a machine
	// that comes back is looked at soon, and one that is away costs a dial now and then.
	watchAgainWithin = 30 * time.Second
	// sightAgainWithin is the longest pause before a machine is looked at again whose last sight
	// judged nothing, because an apply is under way or the database is away.
	sightAgainWithin = 2 * time.Second
	// sightsAtOnce bounds how many machines are looked at at the same time: after a restart all
	// are, and each sight holds two configurations.
	sightsAtOnce = 8
	// countDriftsEvery is how often the open drifts are counted for the metric.
	countDriftsEvery = 10 * time.Second
)

// Drift are the settings of the watch over machines; every zero field takes its default.
type Drift struct {
	// PollEvery is how often each machine is looked at although no event came; 3 m.
	PollEvery time.Duration
	// KeepApplied is how long sealed copies of applied configurations are kept; 90 days. That of
	// what was applied last stays.
	KeepApplied time.Duration
}

func (d Drift) withDefaults() Drift {
	d.PollEvery, d.KeepApplied = orDefault(d.PollEvery, 3*time.Minute), orDefault(d.KeepApplied, 90*24*time.Hour)
	return d
}

// What became of the watch over a machine.
const (
	watchStands = "watching"
	watchAway   = "away"   // it could not be begun, or has ended, and is tried again
	watchUnread = "unread" // it stands, and the last sight of the machine could not be judged
)

// Watch follows the configurations of all pinned machines, from the start until ctx ends, and
// judges what it sees. It only ever observes; nothing is sent and nothing is frozen. Every
// replica may run it at once.
func (g *Gateway) Watch(ctx context.Context) {
	w := watching{g: g, room: semaphore.NewWeighted(sightsAtOnce), machines: map[uuid.UUID]*watched{}}
	defer w.end()
	poll, count := time.NewTicker(g.drift.PollEvery), time.NewTicker(countDriftsEvery)
	defer poll.Stop()
	defer count.Stop()
	g.countDrifts(ctx)
	for {
		snap := g.store.Snapshot()
		w.follow(ctx, snap)
		select {
		case <-ctx.Done():
			return
		case <-snap.Superseded():
		case <-poll.C:
			for _, one := range w.machines {
				one.nudge(ctx)
			}
		case <-count.C:
			g.countDrifts(ctx)
		}
	}
}

// countDrifts sets the metric; while the database is away it keeps its last value.
func (g *Gateway) countDrifts(ctx context.Context) {
	if n, err := g.store.CountDrifts(ctx); err == nil {
		g.metrics.drifts.Set(float64(n))
	}
}

// watching is the set of watched machines. One goroutine owns it.
type watching struct {
	g        *Gateway
	room     *semaphore.Weighted
	machines map[uuid.UUID]*watched
}

// follow begins and ends watches as the machines of the snapshot have it.
func (w *watching) follow(ctx context.Context, snap *control.Snapshot) {
	for id, one := range w.machines {
		if m := snap.Machines[id]; m == nil || !watchable(m) || one.place != placeOf(m) {
			one.end()
			delete(w.machines, id)
		}
	}
	for id, m := range snap.Machines {
		if w.machines[id] == nil && watchable(m) {
			w.machines[id] = w.begin(ctx, m)
		}
	}
}

func (w *watching) end() {
	for _, one := range w.machines {
		one.stop()
	}
	for _, one := range w.machines {
		one.end()
	}
}

// watchable is true for a machine in service whose identity is known.
func watchable(m *control.Machine) bool { return m.Pinned() && m.Retired == nil }

// placeOf is what a watch depends on: when it changes, the watch begins again.
func placeOf(m *control.Machine) string {
	place := m.NodeID + " " + m.ClusterID + " " + m.SMBIOS
	for _, a := range m.AddrPorts() {
		place += " " + a.String()
	}
	return place
}

// watched is one machine that is watched: one goroutine for its stream, and one more while it
// is looked at.
type watched struct {
	g      *Gateway
	room   *semaphore.Weighted
	id     uuid.UUID
	name   string
	place  string
	target upstream.Target
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	dirty   bool   // guarded by mu; something may have changed since the last sight began
	looking bool   // guarded by mu; a goroutine is looking
	state   string // guarded by mu; as the metric has it
	stands  bool   // guarded by mu
	unread  bool   // guarded by mu
}

func (w *watching) begin(ctx context.Context, m *control.Machine) *watched {
	ctx, stop := context.WithCancel(ctx)
	one := &watched{g: w.g, room: w.room, id: m.ID, name: m.Name, place: placeOf(m), target: upstreamTarget(m), stop: stop}
	one.set(func() {})
	one.work.Go(func() { one.stream(ctx) })
	return one
}

// end stops the watch and waits until nothing of it runs.
func (w *watched) end() {
	w.stop()
	w.work.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.g.metrics.watches.WithLabelValues(w.state).Dec()
	w.state = ""
}

// set changes what is known of the watch, and keeps the metric.
func (w *watched) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	next := watchStands
	switch {
	case !w.stands:
		next = watchAway
	case w.unread:
		next = watchUnread
	}
	if next == w.state {
		return
	}
	if w.state != "" {
		w.g.metrics.watches.WithLabelValues(w.state).Dec()
	}
	w.g.metrics.watches.WithLabelValues(next).Inc()
	w.state = next
}

// stream keeps a watch over the machine until ctx ends. Each event says only that the machine
// is to be looked at; what is missed while the watch is down is seen when it stands again.
func (w *watched) stream(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = watchAgainWithin
	told := false
	for ctx.Err() == nil {
		err := w.g.upstream.Watch(ctx, w.target, func() {
			pause.Reset()
			if told {
				w.g.log.InfoContext(ctx, "machine is watched again", slog.String("machine", w.name))
				told = false
			}
			w.set(func() { w.stands = true })
			w.nudge(ctx)
		})
		w.set(func() { w.stands = false })
		if ctx.Err() != nil {
			return
		}
		if !told {
			w.g.log.WarnContext(ctx, "machine is not watched", slog.String("machine", w.name), slog.Any("cause", err))
			told = true
		}
		if !wait(ctx, pause.NextBackOff()) {
			return
		}
	}
}

// nudge has the machine looked at, once more when it is being looked at already. It waits for
// nothing, and any number of nudges in between are one.
func (w *watched) nudge(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = true
	if w.looking || ctx.Err() != nil {
		return
	}
	w.looking = true
	w.work.Go(func() { w.look(ctx) })
}

// look looks at the machine until nothing has changed since. A sight that judges nothing, as
// while an apply is under way, is taken again.
func (w *watched) look(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, sightAgainWithin
	for {
		w.mu.Lock()
		if !w.dirty || ctx.Err() != nil {
			w.looking = false
			w.mu.Unlock()
			return
		}
		w.dirty = false
		w.mu.Unlock()
		err := w.lookOnce(ctx)
		again := errors.Is(err, control.ErrMoved) || errors.Is(err, control.ErrUnavailable)
		if !again {
			pause.Reset()
			w.unreadable(ctx, err)
			continue
		}
		wait(ctx, pause.NextBackOff())
		w.mu.Lock()
		w.dirty = true
		w.mu.Unlock()
	}
}

func (w *watched) lookOnce(ctx context.Context) error {
	if err := w.room.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.room.Release(1)
	_, err := w.g.sight(ctx, w.id)
	return err
}

// unreadable notes whether the last sight could be judged, and says so once.
func (w *watched) unreadable(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.set(func() {
		if err != nil && !w.unread {
			w.g.log.WarnContext(ctx, "what a machine runs cannot be judged", slog.String("machine", w.name), slog.Any("cause", err))
		}
		w.unread = err != nil
	})
}

// wait is false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
