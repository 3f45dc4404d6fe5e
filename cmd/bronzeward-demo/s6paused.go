package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/talosd"
)

// answerLost lets a worker take an apply and never answer, and cuts another off in the middle.
func (i *interruption) answerLost(ctx context.Context) error {
	const worker = "worker-4"
	_, file, err := i.approved(ctx, worker)
	if err != nil {
		return err
	}
	if err := i.w.Nodes[worker].Fault(talosd.Fault{Kind: talosd.DropAnswer}); err != nil {
		return err
	}
	out, err := i.apply(ctx, "olga", worker, file)
	if err != nil || !strings.Contains(out, "the node's answer was lost; the read-back of attempt") {
		return fmt.Errorf("an apply whose answer was lost: %w\n%s", err, out)
	}
	i.did("the answer is lost: a success on the read-back alone, and it says so")
	_, file, err = i.approved(ctx, worker)
	if err != nil {
		return err
	}
	if err := i.w.Nodes[worker].Fault(talosd.Fault{Kind: talosd.ResetBefore}); err != nil {
		return err
	}
	out, err = i.apply(ctx, "olga", worker, file)
	if err := i.refused("an apply whose worker was cut off", out, err, "DeadlineExceeded", "BW-ATTEMPT-004"); err != nil {
		return err
	}
	i.did("the worker is cut off during the send: never a success, the attempt is unresolved, the machine held")
	return nil
}

// pausedPastSendBy stops a replica between the decision's COMMIT and the send, longer than it may wait.
func (i *interruption) pausedPastSendBy(ctx context.Context) error {
	const worker = "worker-5"
	id, file, err := i.approved(ctx, worker)
	if err != nil {
		return err
	}
	v, err := i.victim(ctx)
	if err != nil {
		return err
	}
	f := v.proxy.Order(faults.HoldReply, faults.Deciding)
	done := beside(func() (string, error) { return i.applyAt(ctx, v.Gateway, "olga", worker, file) })
	if err := metBy(ctx, f, done); err != nil {
		return errors.Join(err, v.ends())
	}
	if err := v.Pause(); err != nil {
		return err
	}
	f.Release()
	if err := comesAbout(ctx, "send_by to pass", func() (bool, error) {
		n, err := i.db.Count(ctx, `select count(*) from control.attempts a join control.machines m on m.id = a.machine_id
			where m.name = $1 and a.send_by < clock_timestamp()`, worker)
		return n == 1, err
	}); err != nil {
		return err
	}
	if err := v.Resume(); err != nil {
		return err
	}
	s := <-done
	if err := i.refused("an apply of an owner that was paused", s.out, s.err, "BW-ATTEMPT-003"); err != nil {
		return err
	}
	if err := errors.Join(i.becomes(ctx, worker, "not_sent"), i.state(ctx, id, "approved"), v.ends()); err != nil {
		return err
	}
	if n := i.applies(worker); n != 0 {
		return fmt.Errorf("%s was sent %d applies", worker, n)
	}
	i.did("control: an owner paused past send_by sends nothing: `not_sent`, and the change is approved still")
	return nil
}

// unreachable applies to a worker that cannot be reached before the decision.
func (i *interruption) unreachable(ctx context.Context) error {
	const worker = "worker-6"
	id, file, err := i.approved(ctx, worker)
	if err != nil {
		return err
	}
	node := i.w.Nodes[worker]
	node.RefuseDials(true)
	out, err := i.apply(ctx, "olga", worker, file)
	node.RefuseDials(false)
	if err := i.refused("an apply to a worker that is away", out, err, "Unavailable", "BW-UPSTREAM-001"); err != nil {
		return err
	}
	if got, err := i.attempts(ctx, worker); err != nil || got != "" {
		return fmt.Errorf("there are attempts (%s): %w", got, err)
	}
	if err := i.state(ctx, id, "approved"); err != nil {
		return err
	}
	i.did("control: a worker that is unreachable before the decision leaves no attempt, and the change approved")
	return nil
}

// staleReplica stops a replica while the worker has its apply, until its lease is over and the
// other one has settled the attempt; then it goes on, and can record nothing.
func (i *interruption) staleReplica(ctx context.Context) error {
	const worker = "worker-6"
	_, file, err := i.approved(ctx, worker)
	if err != nil {
		return err
	}
	v, err := i.victim(ctx)
	if err != nil {
		return err
	}
	done, err := i.holding(ctx, worker, func() (string, error) { return i.applyAt(ctx, v.Gateway, "olga", worker, file) })
	if err != nil {
		return err
	}
	if err := v.Pause(); err != nil {
		return err
	}
	if err := i.becomes(ctx, worker, "unresolved"); err != nil {
		return err
	}
	i.w.Nodes[worker].Resume()
	if err := i.becomes(ctx, worker, "completed"); err != nil {
		return err
	}
	if err := v.Resume(); err != nil {
		return err
	}
	s := <-done
	if err := i.refused("the apply of a stale replica", s.out, s.err, "BW-ATTEMPT-002", "another gateway has taken it over"); err != nil {
		return err
	}
	n, err := i.db.Count(ctx, "select count(*) from audit.outcomes where instance = $1 and attempt_id is not null", v.Instance)
	if sent := i.applies(worker); err != nil || n != 0 || sent != 1 {
		return fmt.Errorf("the stale replica wrote %d outcomes, and the worker was sent %d applies: %w", n, sent, err)
	}
	i.did("control: a replica that was stopped past its lease can record nothing; the other one has settled its attempt")
	return v.ends()
}
