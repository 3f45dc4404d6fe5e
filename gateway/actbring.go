package gateway

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// trying lets one law be tried at a time in this process: a trial takes a core for seconds, which calls
// need too.
var trying = semaphore.NewWeighted(1)

// trialWithin bounds a trial in a process that judges calls besides: the shipped law takes about three
// seconds, and a law whose tests never end would keep everybody else's waiting.
const trialWithin = 2 * time.Minute

// errTrial means that a trial took longer.
var errTrial = fmt.Errorf("its trial took longer than %s here: let its tests look at less", trialWithin)

// afterTrial is a law with its trial, after those that came before it.
func afterTrial(ctx context.Context, b *policy.Bundle) (Draft, error) {
	if err := trying.Acquire(ctx, 1); err != nil {
		return Draft{}, err
	}
	defer trying.Release(1)
	within, cancel := context.WithTimeoutCause(ctx, trialWithin, errTrial)
	defer cancel()
	t, err := policy.Trial(within, b)
	if ctx.Err() == nil && within.Err() != nil {
		err = context.Cause(within)
	}
	if err != nil {
		return Draft{}, control.Advised(control.ErrInvalid, "bronzeward policy check DIR and bronzeward policy test DIR find the same", "the law does not pass its trial, and the live one stays: %s", err.Error())
	}
	return Draft{Bundle: b, Tried: t}, nil
}

// BringLaw takes a law as OPA packs one, a gzipped tar, tries it and keeps it. It makes nothing live.
// What does not read or pass is control.ErrInvalid, with every objection. It gives the revision.
func (a *Acts) BringLaw(ctx context.Context, by Actor, archive []byte, once *control.Once) (string, audit.Receipt, error) {
	b, err := policy.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return "", audit.Receipt{}, control.Advised(control.ErrInvalid, "bronzeward policy check DIR, and bronzeward policy save DIR packs it", "%s", err.Error())
	}
	d, err := afterTrial(ctx, b)
	if err != nil {
		return "", audit.Receipt{}, err
	}
	receipt, err := a.SavePolicy(ctx, by, d, once)
	return b.Revision(), receipt, err
}

// ActivateLaw makes a saved law live, after another trial. The name is as SavedLaw takes it; replay is
// what the caller says that a replay of the past came to, if they say so. It gives the revision.
func (a *Acts) ActivateLaw(ctx context.Context, by Actor, name, replay string, once *control.Once) (string, audit.Receipt, error) {
	return a.savedLive(ctx, by, name, replay, once, a.Activate)
}

// RollBackLaw goes back to a law that was live before, in the same way.
func (a *Acts) RollBackLaw(ctx context.Context, by Actor, name, replay string, once *control.Once) (string, audit.Receipt, error) {
	return a.savedLive(ctx, by, name, replay, once, a.Rollback)
}

func (a *Acts) savedLive(ctx context.Context, by Actor, name, replay string, once *control.Once,
	act func(context.Context, Actor, Draft, *control.Once) (audit.Receipt, error),
) (string, audit.Receipt, error) {
	b, err := a.SavedLaw(ctx, name)
	if err != nil {
		return "", audit.Receipt{}, err
	}
	d, err := afterTrial(ctx, b)
	if err != nil {
		return "", audit.Receipt{}, err
	}
	keep(once, b.Revision())
	d.Replay = replay
	receipt, err := act(ctx, by, d, once)
	return b.Revision(), receipt, err
}

// keep has a repetition answered with the revision of now: "previous" is another law later.
func keep(once *control.Once, revision string) {
	if once != nil {
		once.Result = revision
	}
}

// ApproveLaw agrees to a saved law, which is named as SavedLaw takes it. It gives the revision.
func (a *Acts) ApproveLaw(ctx context.Context, by Actor, name string, once *control.Once) (string, audit.Receipt, error) {
	revision, err := a.Store.BundleNamed(ctx, name)
	if err != nil {
		return "", audit.Receipt{}, err
	}
	keep(once, revision)
	receipt, err := a.ApprovePolicy(ctx, by, revision, once)
	return revision, receipt, err
}

// LawDifference is how a saved law differs from another; live is a name too.
func (a *Acts) LawDifference(ctx context.Context, from, to string) (policy.Difference, error) {
	var laws [2]*policy.Bundle
	for i, name := range []string{from, to} {
		b, err := a.SavedLaw(ctx, name)
		if err != nil {
			return policy.Difference{}, fmt.Errorf("the law %s: %w", name, err)
		}
		laws[i] = b
	}
	return policy.Diff(laws[0], laws[1])
}
