package main

import (
	"context"
	"errors"
	"fmt"

	"bronzeward/fixtures/faults"
)

// killedBeforeTheSend kills a replica between the decision's COMMIT and the send, and gives the steps
// that account for the attempt too early, and once its time has come.
func (i *interruption) killedBeforeTheSend(ctx context.Context) (early, later func(context.Context) error, err error) {
	const worker = "worker-3"
	_, file, err := i.approved(ctx, worker)
	if err != nil {
		return nil, nil, err
	}
	if err := i.killedAt(ctx, faults.Deciding, func(v *victim) (string, error) { return i.applyAt(ctx, v.Gateway, "olga", worker, file) }); err != nil {
		return nil, nil, err
	}
	if err := i.becomes(ctx, worker, "open"); err != nil {
		return nil, nil, err
	}
	out, err := i.apply(ctx, "otto", worker, file)
	if err := i.refused("an apply while nobody knows", out, err, "BW-HOLDS-001"); err != nil {
		return nil, nil, err
	}
	i.did("killed after the decision's COMMIT, before the send: the attempt stays open, and the other replica holds the machine")
	return func(ctx context.Context) error { return i.tooEarly(ctx, worker) }, func(ctx context.Context) error { return i.accounting(ctx, worker) }, nil
}

// killedAt runs a command at a replica of its own and kills that after the COMMIT of a transaction,
// before it was told.
func (i *interruption) killedAt(ctx context.Context, part string, command func(v *victim) (string, error)) error {
	v, err := i.victim(ctx)
	if err != nil {
		return err
	}
	f := v.proxy.Order(faults.HoldReply, part)
	done := beside(func() (string, error) { return command(v) })
	if err := metBy(ctx, f, done); err != nil {
		return errors.Join(err, v.ends())
	}
	if err := v.ends(); err != nil {
		return err
	}
	if s := <-done; s.err == nil {
		return fmt.Errorf("the caller of a dead gateway was told of a success:\n%s", s.out)
	}
	return nil
}

// tooEarly has somebody else account for an attempt, and a recovery-admin before the settle floor.
func (i *interruption) tooEarly(ctx context.Context, worker string) error {
	if err := i.becomes(ctx, worker, "unresolved"); err != nil {
		return err
	}
	id, err := i.attempt(ctx, worker)
	if err != nil {
		return err
	}
	// However slow the machine is, the floor lies ahead.
	if err := i.db.Exec(ctx, "update control.attempts set transport_deadline = greatest(transport_deadline, clock_timestamp()) where id::text = $1", id); err != nil {
		return err
	}
	out, err := i.account(ctx, "olga", id)
	if err := i.refused("accounting by an operator", out, err, "BW-"); err != nil {
		return err
	}
	early, err := i.account(ctx, "rhea", id)
	if err := i.refused("accounting before the settle floor", early, err, "it may land yet"); err != nil {
		return err
	}
	i.did("control: accounting by an operator is refused, and before the settle floor by a recovery-admin too: %s", firstLine(early))
	return nil
}

// account says of an attempt that it has not landed.
func (i *interruption) account(ctx context.Context, person, id string) (string, error) {
	return i.w.Bronzeward(ctx, person, "attempts", "account", id, "--not-landed", "--reason", "the machine was looked at")
}

// accounting is what a recovery-admin does after the settle floor about an attempt that has not landed.
func (i *interruption) accounting(ctx context.Context, worker string) error {
	id, err := i.attempt(ctx, worker)
	if err != nil {
		return err
	}
	if err := comesAbout(ctx, "the settle floor", func() (bool, error) {
		n, err := i.db.Count(ctx, "select count(*) from control.attempts a where id::text = $1 and control.settle_after(a) < clock_timestamp()", id)
		return n == 1, err
	}); err != nil {
		return err
	}
	if out, err := i.account(ctx, "rhea", id); err != nil {
		return fmt.Errorf("accounting after the floor: %w\n%s", err, out)
	}
	if n := i.applies(worker); n != 0 {
		return fmt.Errorf("%s was sent %d applies", worker, n)
	}
	if err := i.becomes(ctx, worker, "accounted"); err != nil {
		return err
	}
	_, next, err := i.approved(ctx, worker)
	if err != nil {
		return err
	}
	if out, err := i.apply(ctx, "olga", worker, next); err != nil {
		return fmt.Errorf("the machine is not free: %w\n%s", err, out)
	}
	i.did("after it a recovery-admin accounts for it on a fresh observation: `accounted`, and the machine is free; nothing had been sent")
	return nil
}

// killedAtTheCapture kills a replica after a change was captured, before it said so.
func (i *interruption) killedAtTheCapture(ctx context.Context) error {
	const worker = "worker-1"
	file, err := i.config(worker)
	if err != nil {
		return err
	}
	if err := i.killedAt(ctx, faults.Capturing, func(v *victim) (string, error) { return i.applyAt(ctx, v.Gateway, "olga", worker, file) }); err != nil {
		return err
	}
	out, err := i.apply(ctx, "olga", worker, file)
	if err := i.refused("the same apply at the other replica", out, err, "BW-APPROVAL-001"); err != nil {
		return err
	}
	n, err := i.db.Count(ctx, "select count(*) from control.change_rows where machine = $1", worker)
	if err != nil || n != 1 {
		return fmt.Errorf("%d changes are there: %w", n, err)
	}
	i.did("killed after a capture's COMMIT: the other replica finds that one change, and no second comes of it")
	return nil
}

// killedAtTheApproval kills a replica after an approval was recorded, before it said so.
func (i *interruption) killedAtTheApproval(ctx context.Context) error {
	const worker = "worker-1"
	id, file, err := i.capture(ctx, "olga", worker)
	if err != nil {
		return err
	}
	c, err := change(ctx, i.w, id)
	if err != nil {
		return err
	}
	if err := i.killedAt(ctx, faults.Approving, func(v *victim) (string, error) {
		return i.w.At(v.Gateway).Bronzeward(ctx, "ada", "changes", "approve", id, "--digest", c.Digest)
	}); err != nil {
		return err
	}
	if err := i.state(ctx, id, "approved"); err != nil {
		return err
	}
	if out, err := i.apply(ctx, "olga", worker, file); err != nil {
		return fmt.Errorf("an approval that was recorded does not count: %w\n%s", err, out)
	}
	i.did("killed after an approval's COMMIT: it counts, and the other replica applies the change")
	return nil
}

// killedAtTheOutcome kills a replica after the outcome was recorded, before the caller was told.
func (i *interruption) killedAtTheOutcome(ctx context.Context) error {
	const worker = "worker-4"
	id, file, err := i.approved(ctx, worker)
	if err != nil {
		return err
	}
	if err := i.killedAt(ctx, faults.Closing, func(v *victim) (string, error) { return i.applyAt(ctx, v.Gateway, "olga", worker, file) }); err != nil {
		return err
	}
	if err := i.becomes(ctx, worker, "completed"); err != nil {
		return err
	}
	out, err := i.apply(ctx, "olga", worker, file)
	if err := i.refused("the same apply again", out, err, "BW-APPROVAL-001"); err != nil {
		return err
	}
	if n := i.applies(worker); n != 1 {
		return fmt.Errorf("%s was sent %d applies", worker, n)
	}
	i.did("killed after the outcome's COMMIT: the caller was told nothing, the attempt is `completed`, and change %s is not sent again", id)
	return nil
}
