package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
)

const (
	// settleEvery is how often held attempts are looked at: often enough that a machine is
	// freed soon after it can be, seldom enough that a machine that is away costs little.
	settleEvery = 2 * time.Second
	// lateEvery is how often machines are looked at whose attempt was accounted for: nobody waits
	// for it, and it goes on for a day.
	lateEvery = 30 * time.Second
	// observeWithin bounds the observation of one machine.
	observeWithin = 5 * time.Second
)

// Settle looks after attempts nobody is working on, from the start until ctx ends: those
// whose owner is gone become unresolved, and unresolved ones are completed as soon as the
// machine is seen to hold their configuration, and what a person accounted for is recognised
// when it shows up after all. It only ever observes; nothing is sent. Every replica may run it
// at once.
func (g *Gateway) Settle(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	failing := false
	var looked time.Time
	for {
		err := g.settleOnce(ctx)
		if err == nil && time.Since(looked) >= lateEvery {
			looked = time.Now()
			err = g.settleLate(ctx)
		}
		if err != nil && !failing && ctx.Err() == nil {
			g.log.WarnContext(ctx, "attempts cannot be looked after", slog.Any("cause", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) settleOnce(ctx context.Context) error {
	dead, err := g.store.DeadAttempts(ctx)
	if err != nil {
		return err
	}
	left := eachAttempt(dead, func(a *control.Attempt) error {
		err := g.store.MarkUnresolved(ctx, a.ID, "the lease of "+a.Owner.Instance+" ended, and whether it sent the bytes is not known")
		switch {
		case errors.Is(err, control.ErrNotOwner):
			return nil // its owner lives, or another replica was first
		case err != nil:
			return err
		}
		g.metrics.attempts.WithLabelValues(string(control.StateUnresolved)).Inc()
		g.log.WarnContext(ctx, "attempt is unresolved", slog.String("attempt", a.ID.String()), slog.String("machine", a.MachineName))
		return nil
	})
	held, err := g.store.ListAttempts(ctx, control.AttemptFilter{Held: true, Limit: 1000})
	if err != nil {
		return err
	}
	held = slices.DeleteFunc(held, func(a control.Attempt) bool { return a.State != control.StateUnresolved })
	return errors.Join(left, eachAttempt(held, func(a *control.Attempt) error {
		g.resolve(ctx, a)
		return nil
	}))
}

// eachAttempt does something about every attempt, a few at a time, and gives the first error. A
// machine that does not answer, or whose row somebody has locked, holds up nobody else's attempt.
func eachAttempt(list []control.Attempt, do func(*control.Attempt) error) error {
	var group errgroup.Group
	group.SetLimit(sightsAtOnce)
	for i := range list {
		group.Go(func() error { return do(&list[i]) })
	}
	return group.Wait()
}

// resolve completes an unresolved attempt when both resources of its machine hold what
// was sent. What it sees otherwise changes nothing: the attempt may still land.
func (g *Gateway) resolve(ctx context.Context, a *control.Attempt) {
	machine, seen, shows := g.shows(ctx, a)
	if !shows {
		return // the next round tries again
	}
	late := readBackOutcome(&seen, a.Digest, a.Digest)
	late.Kind = audit.OutcomeLate
	late.Duration = g.store.Snapshot().Now().Sub(a.OpenedAt)
	late.Message = "the machine holds what attempt " + a.ID.String() + " sent, seen " + late.Duration.Round(time.Second).String() + " after its decision"
	err := g.store.ResolveAttempt(ctx, a.ID, a.Digest, a.Digest, late)
	switch {
	case err == nil:
		g.metrics.attempts.WithLabelValues(string(control.StateCompleted)).Inc()
		g.log.InfoContext(ctx, "attempt is completed by what the machine holds", slog.String("attempt", a.ID.String()), slog.String("machine", machine.Name))
		if (a.ChangeID != control.ChangeID{}) {
			if ch, err := g.store.GetChange(ctx, a.ChangeID); err == nil {
				g.settled(ctx, &ch)
			}
		}
	case errors.Is(err, control.ErrNotOwner), errors.Is(err, control.ErrTooEarly):
		// Another replica was first, or the evidence says nothing yet.
	default:
		g.log.WarnContext(ctx, "an attempt could not be completed", slog.String("attempt", a.ID.String()), slog.Any("cause", err))
	}
}

// shows reads the machine of an attempt, and says whether it is the pinned one and holds what was
// sent. The machine's row is from before the reading.
func (g *Gateway) shows(ctx context.Context, a *control.Attempt) (machine control.Machine, seen upstream.Evidence, yes bool) {
	machine, err := g.store.GetMachine(ctx, a.MachineName)
	if err != nil || machine.Retired != nil {
		return machine, seen, false
	}
	bounded, cancel := context.WithTimeout(ctx, observeWithin)
	defer cancel()
	seen, err = g.upstream.Observe(bounded, upstreamTarget(&machine))
	if err != nil {
		g.log.DebugContext(ctx, "the machine of an attempt cannot be read", slog.String("machine", machine.Name), slog.Any("cause", err))
		return machine, seen, false
	}
	return machine, seen, identityMatches(seen, &machine) && g.holds(seen, a.Digest)
}

// settleLate looks whether what was accounted for has landed after all. The attempt keeps its
// state, and what the house knows of the machine follows.
func (g *Gateway) settleLate(ctx context.Context) error {
	judged, err := g.store.JudgedAttempts(ctx)
	if err != nil {
		return err
	}
	return eachAttempt(judged, func(a *control.Attempt) error {
		machine, seen, shows := g.shows(ctx, a)
		if !shows || g.holds(seen, machine.ActiveDigest) && g.holds(seen, machine.PersistentDigest) {
			return nil // what is known as applied may be under another key than the attempt's
		}
		err := g.store.LandedLate(ctx, a.ID, a.Digest, a.Digest, machine.Serial, readBackOutcome(&seen, a.Digest, a.Digest))
		switch {
		case err == nil:
			g.metrics.attempts.WithLabelValues("late-landing").Inc()
			g.log.WarnContext(ctx, "attempt has landed after it was accounted for", slog.String("attempt", a.ID.String()), slog.String("machine", machine.Name))
		case errors.Is(err, control.ErrNotLate), errors.Is(err, control.ErrMoved), errors.Is(err, control.ErrBusy):
			// It is known already, or the next round sees more.
		default:
			return err
		}
		return nil
	})
}

// holds is true when both resources hold the text of this digest.
func (g *Gateway) holds(e upstream.Evidence, digest string) bool {
	for _, text := range [][]byte{e.Active.Text, e.Persistent.Text} {
		if same, err := g.digester.Same(text, digest); err != nil || !same {
			return false
		}
	}
	return true
}
