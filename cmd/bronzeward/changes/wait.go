package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// waitFlags bound a wait for approvals.
type waitFlags struct {
	Wait    bool          `help:"Wait until it is approved, and then apply it."`
	Timeout time.Duration `placeholder:"30m" help:"With --wait, how long to wait for approvals; default without end."`
}

func (w waitFlags) check() error {
	if w.Timeout < 0 || w.Timeout > 0 && !w.Wait {
		return cli.Usage(errors.New("--timeout bounds what --wait waits for: give both, and a length of time"))
	}
	return nil
}

// errTimeout ends a wait that --timeout bounds.
var errTimeout = errors.New("the time was over")

// untilApproved waits until every one of these changes, all of one set if there are several,
// is approved or was applied by somebody else. A change that came to another end ends the
// wait. It gives the changes as they then are, in the same order.
func (a *apiClient) untilApproved(ctx context.Context, changes []api.Change, timeout time.Duration) ([]api.Change, error) {
	if allApproved(changes) {
		return changes, nil
	}
	look := a.lookAtOne(changes[0].ID)
	if len(changes) > 1 {
		look = a.lookAtPage(*pageOf(changes))
	}
	bounded := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	now := slices.Clone(changes)
	defer a.Busy("%s", waitingFor(now))()
	err := a.follow(bounded, look, func(seen []api.Change, _ ask.Answer) (bool, error) {
		for i := range now {
			for _, c := range seen {
				if c.ID == now[i].ID {
					now[i] = c
				}
			}
			if !live(&now[i]) && now[i].State != api.ChangeStateSpent {
				return false, errors.New(ended(&now[i]))
			}
		}
		a.Asker.Progress.Note(waitingFor(now))
		return allApproved(now), nil
	})
	switch {
	case err == nil:
		return now, nil
	case bounded.Err() != nil && ctx.Err() == nil:
		return nil, cli.NotYet(fmt.Errorf("not approved within %s\n%s", timeout, goesOn(now)))
	case ctx.Err() != nil:
		return nil, cli.NotYet(fmt.Errorf("interrupted while waiting for approvals\n%s", goesOn(now)))
	}
	if left := goesOn(now); left != "" {
		err = fmt.Errorf("%w\n%s", err, left)
	}
	return nil, err
}

// pageOf asks for the newest changes of the set that these are of; only for those of their
// requester when that is one, so that nobody else's fill the page.
func pageOf(changes []api.Change) *api.ListChangesParams {
	out := api.ListChangesParams{Set: &changes[0].Set, Limit: new(ask.MostPage)}
	if len(partsOf(changes[0].Set, changes)) == 1 {
		out.Requester, out.RequesterIssuer = &changes[0].Requester.Subject, &changes[0].Requester.Issuer
	}
	return &out
}

func allApproved(changes []api.Change) bool {
	return !slices.ContainsFunc(changes, func(c api.Change) bool {
		return c.State != api.ChangeStateApproved && c.State != api.ChangeStateSpent
	})
}

// waitingFor says what a wait is for.
func waitingFor(changes []api.Change) string {
	waiting := slices.DeleteFunc(slices.Clone(changes), func(c api.Change) bool { return c.State != api.ChangeStateWaiting })
	switch len(waiting) {
	case 0:
		return "looking"
	case 1:
		return fmt.Sprintf("waiting for approval of %s (%s), %d of %d", waiting[0].ID, waiting[0].Machine,
			waiting[0].ApprovalsCounting, waiting[0].ApprovalsNeeded.Required)
	}
	return fmt.Sprintf("waiting for approval of %d of %d changes of set %s", len(waiting), len(changes), cli.ASCII(waiting[0].Set))
}

// goesOn says what is left of changes when a command ends before them.
func goesOn(changes []api.Change) string {
	var lines []string
	for i := range changes {
		c := &changes[i]
		switch {
		case !live(c):
			continue
		case c.State == api.ChangeStateWaiting:
			lines = append(lines, fmt.Sprintf("%s (%s) goes on waiting for approval until %s", c.ID, c.Machine, cli.Stamp(&c.ApproveBy)))
		default:
			lines = append(lines, fmt.Sprintf("%s (%s) is approved and can be applied until %s", c.ID, c.Machine, cli.Stamp(c.UseBy)))
		}
		if len(changes) == 1 {
			lines = append(lines, "try: bronzeward changes apply "+c.ID+" --wait")
		}
	}
	if len(changes) > 1 && len(lines) > 0 {
		for _, p := range partsOf(changes[0].Set, changes) {
			lines = append(lines, "try: bronzeward changes apply "+p.flags()+" --wait")
		}
	}
	return strings.Join(lines, "\n")
}
