package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type changesApplyCmd struct {
	clientFlags
	waitFlags
	ID  string `arg:"" optional:"" help:"Change id, chg_…"`
	Set string `placeholder:"NAME" help:"Apply the approved changes of this set, those of one requester, one machine at a time; stop at the first that does not complete."`

	requesterFlags
}

func (p *changesApplyCmd) Run(ctx context.Context, g *cli.Globals) error {
	if (p.ID == "") == (p.Set == "") {
		return cli.Usage(errors.New("name one change by its id, or a set with --set"))
	}
	if err := errors.Join(p.check(), p.checkRequester(p.Set)); err != nil {
		return err
	}
	a, err := p.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	changes, err := a.toApply(ctx, p)
	if err != nil {
		return err
	}
	if p.Set == "" && changes[0].Kind == api.Adopt {
		return a.adopt(ctx, changes[0], p.waitFlags)
	}
	return a.applyAll(ctx, changes, p.waitFlags, p.Set != "")
}

// toApply is the change with this id, or the live ones of one requester in a set, oldest first.
func (a *apiClient) toApply(ctx context.Context, p *changesApplyCmd) ([]api.Change, error) {
	if p.Set == "" {
		one, _, err := ask.Received[api.Change](a.GetChange(ctx, p.ID, nil))
		return []api.Change{one}, err
	}
	live, _, err := a.liveOfSet(ctx, p.Set)
	if err != nil {
		return nil, err
	}
	if err := p.onePart(p.Set, live, "nothing was applied"); err != nil {
		return nil, err
	}
	asked, others := p.narrow(live)
	sayLeft(a.Globals, "left alone", p.Set, others)
	return asked, nil
}

// applyAll applies changes one machine at a time, in their order, and stops at the first that
// does not complete. With a wait it begins once all are approved; without one it leaves those
// of several that are not, and errs for them. It prints each as it ends; in JSON and YAML one
// document at the end, a list when asList is set.
func (a *apiClient) applyAll(ctx context.Context, changes []api.Change, wait waitFlags, asList bool) error {
	var waiting []api.Change
	if wait.Wait {
		var err error
		if changes, err = a.untilApproved(ctx, changes, wait.Timeout); err != nil {
			return err
		}
	} else if asList { // one change by its id is the gateway's to refuse
		if changes, waiting = apart(changes); len(changes) == 0 {
			return cli.NotYet(errors.New("nothing was applied: " + notApproved(waiting)))
		}
	}
	done := []api.Application{}
	var stopped error
	for i := range changes {
		one, err := a.applyOne(ctx, &changes[i], wait.Wait)
		if one != nil {
			done = append(done, *one)
		}
		if err != nil {
			stopped = err
			if left := changes[i+1:]; len(left) > 0 {
				stopped = fmt.Errorf("%w\nnot begun: %s", err, machinesOf(left))
			}
			break
		}
	}
	switch {
	case len(waiting) > 0 && stopped == nil:
		stopped = cli.NotYet(errors.New("left alone, " + notApproved(waiting)))
	case len(waiting) > 0:
		stopped = fmt.Errorf("%w\nleft alone, %s", stopped, notApproved(waiting))
	}
	if a.Output != "table" {
		var value any = done
		if !asList && len(done) == 1 {
			value = done[0]
		}
		if asList || len(done) == 1 {
			if err := a.Print(value, nil, nil); err != nil {
				return err
			}
		}
	}
	return stopped
}

func machinesOf(changes []api.Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%s (%s)", c.Machine, c.ID))
	}
	return strings.Join(out, ", ")
}

// apart tells changes that are not approved yet from the others.
func apart(changes []api.Change) (ready, waiting []api.Change) {
	for _, c := range changes {
		if c.State == api.ChangeStateWaiting {
			waiting = append(waiting, c)
		} else {
			ready = append(ready, c)
		}
	}
	return ready, waiting
}

// notApproved names changes that are left because they wait for approval.
func notApproved(waiting []api.Change) string {
	return fmt.Sprintf("not approved yet: %s\n--wait waits for approvals", machinesOf(waiting))
}

// applyOne applies one change and says what became of it. It errs unless the attempt
// completed. One that waited for its change takes somebody else's applying it for its own;
// without a wait a spent change is the gateway's to refuse.
func (a *apiClient) applyOne(ctx context.Context, c *api.Change, waited bool) (*api.Application, error) {
	one, err := a.apply(ctx, c, waited && c.State == api.ChangeStateSpent)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, cli.NotYet(fmt.Errorf("interrupted while %s was applied to %s: what was begun goes on at the gateway\ntry: bronzeward changes show %s", c.ID, c.Machine, c.ID))
	case err != nil:
		return nil, err
	}
	for _, w := range one.Warnings {
		fmt.Fprintf(a.ErrOut, "warning: %s: %s\n", c.Machine, cli.OneLine(w))
	}
	if a.Output == "table" {
		if one.Message != "" {
			fmt.Fprintf(a.Out, "%s: %s\n", c.Machine, strings.TrimRight(one.Message, "\n"))
		}
		fmt.Fprintf(a.Out, "%s: attempt %s is %s\n", c.Machine, one.Attempt.ID, one.Attempt.State)
	}
	return &one, notCompleted(c, &one.Attempt)
}

// apply sends a change, and waits for an attempt that is still open: its answer was lost on
// the way, and the repetition found it running. One that was sent already is only looked at.
func (a *apiClient) apply(ctx context.Context, c *api.Change, sent bool) (one api.Application, err error) {
	defer a.Busy("applying %s to %s", c.ID, c.Machine)()
	if sent {
		one.Attempt, _, err = ask.Received[api.Attempt](a.GetAttempt(ctx, c.AttemptID))
		one.Warnings = []string{}
	} else {
		one, _, err = ask.Received[api.Application](a.ApplyChange(ctx, c.ID, nil, api.Nothing{}))
	}
	if err != nil {
		return one, err
	}
	every := a.Pause
	if every == 0 {
		every = lookEveryAtLeast
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for one.Attempt.State == api.AttemptStateOpen {
		select {
		case <-ctx.Done():
			return one, context.Cause(ctx)
		case <-tick.C:
		}
		if one.Attempt, _, err = ask.Received[api.Attempt](a.GetAttempt(ctx, one.Attempt.ID)); err != nil {
			return one, err
		}
	}
	if sent && one.Attempt.State == api.AttemptStateCompleted {
		one.Message = "applied by " + ask.Person(one.Attempt.Caller)
	} else if sent {
		one.Message = "the attempt is of " + ask.Person(one.Attempt.Caller)
	}
	return one, nil
}

// notCompleted says what an attempt that did not complete means, and what can be done.
func notCompleted(c *api.Change, t *api.Attempt) error {
	why := ""
	if t.Reason != "" {
		why = ": " + cli.OneLine(t.Reason)
	}
	switch t.State {
	case api.AttemptStateCompleted:
		return nil
	case api.AttemptStateRejected:
		return fmt.Errorf("%s refused the configuration%s\nnothing changed on it, and %s can be applied again", c.Machine, why, c.ID)
	case api.AttemptStateNotSent:
		return fmt.Errorf("nothing was sent to %s%s\ntry: bronzeward changes apply %s", c.Machine, why, c.ID)
	case api.AttemptStateUnresolved:
		return fmt.Errorf("nobody knows whether %s took the configuration%s\n%s", c.Machine, why, strings.TrimRight(heldText(t), "\n"))
	case api.AttemptStateAccounted:
		if t.Landed != nil && *t.Landed {
			return nil
		}
	}
	return fmt.Errorf("attempt %s on %s is %s%s\ntry: bronzeward attempts show %s", t.ID, c.Machine, t.State, why, t.ID)
}
