package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bronzeward/gateway/httpapi/api"
)

// mostInOneAct is how many changes the API approves in one act.
const mostInOneAct = 100

type changesApproveCmd struct {
	clientFlags
	ID      string `arg:"" optional:"" help:"Change id, chg_…"`
	Digest  string `help:"The digest you were shown. On a terminal it can be left out: the change is shown, and you are asked."`
	Set     string `placeholder:"NAME" help:"Show all live changes of this set, and approve exactly those, all or none."`
	Yes     bool   `short:"y" help:"With --set, do not ask."`
	Comment string `help:"What to say about it."`
}

func (p *changesApproveCmd) Run(ctx context.Context, g *globals) error {
	if err := p.check(g); err != nil {
		return err
	}
	a, err := p.open(g)
	if err != nil {
		return err
	}
	defer a.close()
	shown := []api.Change{{ID: p.ID, Digest: p.Digest}}
	switch {
	case p.Set != "":
		shown, err = a.showSet(ctx, p.Set)
	case p.Digest == "":
		shown, err = a.showOne(ctx, p.ID)
	}
	if err != nil {
		return err
	}
	if p.Digest == "" && !p.Yes {
		question := "You approve exactly these bytes for exactly this machine."
		if len(shown) > 1 {
			question = fmt.Sprintf("You approve exactly these bytes for each of these %d machines.", len(shown))
		}
		if err := g.confirm(ctx, question); err != nil {
			return err
		}
	}
	return a.approve(ctx, shown, p.Comment)
}

// check refuses what would approve something that nobody looked at.
func (p *changesApproveCmd) check(g *globals) error {
	switch {
	case (p.ID == "") == (p.Set == ""):
		return usageError{errors.New("name one change by its id, or a set with --set")}
	case p.Set != "" && p.Digest != "":
		return usageError{errors.New("--digest is one change's; a set is shown, and approved by the digests shown")}
	case p.ID != "" && p.Yes:
		return usageError{errors.New("--yes goes with --set; one change is approved with --digest, which says what you looked at")}
	case p.ID != "" && p.Digest == "" && !g.interactive:
		return usageError{fmt.Errorf("name the digest you looked at with --digest, so that nothing else is approved\ntry: bronzeward changes show %s", shellWord(p.ID))}
	case p.Set != "" && !p.Yes && !g.interactive:
		return usageError{errors.New("nobody is there to be asked: look at the set with `bronzeward changes list --set NAME`, and give --yes")}
	}
	return nil
}

func (a *apiClient) showOne(ctx context.Context, id string) ([]api.Change, error) {
	whole, now, err := a.wholeChange(ctx, id)
	if err != nil {
		return nil, err
	}
	if !live(&whole.Change) {
		return nil, errors.New(ended(&whole.Change))
	}
	showChange(a.errOut, &whole, now)
	fmt.Fprintln(a.errOut)
	return []api.Change{whole.Change}, nil
}

// showSet shows the live changes of a set that this person has not approved yet.
func (a *apiClient) showSet(ctx context.Context, set string) ([]api.Change, error) {
	all, err := a.liveOfSet(ctx, set)
	if err != nil {
		return nil, err
	}
	me, said, err := received[api.Caller](a.Whoami(ctx))
	if err != nil {
		return nil, err
	}
	self := api.Person{Issuer: me.Issuer, Subject: me.Subject}
	shown := slices.DeleteFunc(slices.Clone(all), func(c api.Change) bool {
		return slices.ContainsFunc(c.Approvals, func(v api.Approval) bool { return v.Approver == self && !v.Revoked })
	})
	switch {
	case len(shown) == 0:
		return nil, fmt.Errorf("you have approved all %d live changes of set %s already", len(all), ascii(set))
	case len(shown) > mostInOneAct:
		return nil, fmt.Errorf("set %s has %d live changes, and one act approves at most %d: approve them by id", ascii(set), len(shown), mostInOneAct)
	}
	if n := len(all) - len(shown); n > 0 {
		fmt.Fprintf(a.errOut, "you have approved %d of the %d live changes of this set already; here are the others\n", n, len(all))
	}
	defer a.busy("reading set %s", ascii(set))()
	for i := range shown {
		diff, _, err := received[api.ChangeDiff](a.GetChangeDiff(ctx, shown[i].ID))
		if err != nil {
			return nil, err
		}
		if diff.Digest != shown[i].Digest {
			return nil, fmt.Errorf("change %s and its difference name two digests, %s and %s", shown[i].ID, shown[i].Digest, diff.Digest)
		}
		a.showOfSet(&shown[i], &diff, said.now)
	}
	return shown, nil
}

func (a *apiClient) showOfSet(c *api.Change, diff *api.ChangeDiff, now time.Time) {
	fmt.Fprintf(a.errOut, "%s: change %s, asked by %s, mode %s, good for %s\n  digest %s\n", c.Machine, c.ID, person(c.Requester), c.Mode, goodFor(c, now), c.Digest)
	showDiff(a.errOut, diff)
	fmt.Fprintln(a.errOut)
}

// approve approves these changes by the digests they were shown with, all or none, and says
// where that leaves them.
func (a *apiClient) approve(ctx context.Context, shown []api.Change, comment string) error {
	act := api.NewApproval{Digest: shown[0].Digest, Comment: given(comment)}
	if len(shown) > 1 {
		also := []api.AlsoApproved{}
		for _, c := range shown[1:] {
			also = append(also, api.AlsoApproved{ID: c.ID, Digest: c.Digest})
		}
		act.Also = &also
	}
	done, said, err := received[api.ApprovalList](a.ApproveChange(ctx, shown[0].ID, nil, act))
	if err != nil {
		return err
	}
	if a.Output != "table" {
		return a.print(done.Items, nil, nil)
	}
	after := a.afterwards(ctx, shown)
	for i := range done.Items {
		v := &done.Items[i]
		fmt.Fprintf(a.out, "change %s is approved by you: %s (decision %s)\n", v.ChangeID, v.ID, v.DecisionID)
		for _, self := range v.Self {
			fmt.Fprintf(a.errOut, "warning: it is your own change, as its %s; that is on record\n", oneLine(self))
		}
		if c, ok := after[v.ChangeID]; ok {
			fmt.Fprintf(a.out, "  %s: %s\n", c.Machine, needs(&c, said.now))
		}
	}
	return nil
}

// afterwards reads what an act left these changes as. The act stands whether or not this can
// be read.
func (a *apiClient) afterwards(ctx context.Context, changes []api.Change) map[string]api.Change {
	out := map[string]api.Change{}
	if len(changes) == 1 {
		if c, _, err := received[api.Change](a.GetChange(ctx, changes[0].ID, nil)); err == nil {
			out[c.ID] = c
		}
		return out
	}
	page, _, err := received[api.ChangeList](a.ListChanges(ctx, &api.ListChangesParams{Set: &changes[0].Set, Limit: new(mostPage)}))
	for _, c := range page.Items {
		out[c.ID] = c
	}
	if err != nil {
		clear(out)
	}
	return out
}
