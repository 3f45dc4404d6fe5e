package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// mostInOneAct is how many changes the API approves in one act.
const mostInOneAct = 100

type changesApproveCmd struct {
	clientFlags
	ID      string `arg:"" optional:"" help:"Change id, chg_…"`
	Digest  string `help:"The digest you were shown, of the change or of the set. On a terminal it can be left out: all is shown, and you are asked."`
	Set     string `placeholder:"NAME" help:"Approve the live changes of this set that were shown, exactly those, all or none."`
	Yes     bool   `short:"y" hidden:""`
	Comment string `help:"What to say about it."`

	requesterFlags
}

func (p *changesApproveCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := p.check(g); err != nil {
		return err
	}
	a, err := p.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	shown := []api.Change{{ID: p.ID, Digest: p.Digest}}
	switch {
	case p.Set != "":
		shown, err = a.ofSet(ctx, p)
	case p.Digest == "":
		shown, err = a.showOne(ctx, p.ID)
	}
	if err != nil {
		return err
	}
	if p.Digest == "" {
		question := "You approve exactly these bytes for exactly this machine."
		if len(shown) > 1 {
			question = fmt.Sprintf("You approve exactly these bytes for each of these %d machines.", len(shown))
		}
		if err := g.Confirm(ctx, question); err != nil {
			return err
		}
	}
	return a.approve(ctx, shown, p.Comment)
}

// check refuses what would approve something that nobody looked at.
func (p *changesApproveCmd) check(g *cli.Globals) error {
	switch {
	case (p.ID == "") == (p.Set == ""):
		return cli.Usage(errors.New("name one change by its id, or a set with --set"))
	case p.Yes:
		return cli.Usage(errors.New("--yes would approve what nobody looked at: give --digest with the digest that was shown, of the change or of the set"))
	case p.Set != "" && p.Digest != "" && !setDigestForm.MatchString(p.Digest):
		return cli.Usage(fmt.Errorf("--digest is no set's: one is %s and 64 hexadecimal digits\ntry: bronzeward changes show --set %s", setScheme, cli.ShellWord(p.Set)))
	case p.ID != "" && strings.HasPrefix(p.Digest, setScheme):
		return cli.Usage(errors.New("--digest is a set's: it goes with --set, and a change is approved by its own"))
	case p.Digest == "" && !g.Interactive && p.ID != "":
		return cli.Usage(fmt.Errorf("name the digest you looked at with --digest, so that nothing else is approved\ntry: bronzeward changes show %s", cli.ShellWord(p.ID)))
	case p.Digest == "" && !g.Interactive:
		return cli.Usage(fmt.Errorf("name the digest of the set you looked at with --digest, so that nothing else is approved\ntry: bronzeward changes show --set %s", cli.ShellWord(p.Set)))
	}
	return p.checkRequester(p.Set)
}

func (a *apiClient) showOne(ctx context.Context, id string) ([]api.Change, error) {
	whole, now, err := a.wholeChange(ctx, id)
	if err != nil {
		return nil, err
	}
	if !live(&whole.Change) {
		return nil, errors.New(ended(&whole.Change))
	}
	showChange(a.ErrOut, &whole, now, a.holdsOn(ctx, &whole.Change))
	fmt.Fprintln(a.ErrOut)
	return []api.Change{whole.Change}, nil
}

// ofSet gives the live changes of one requester in a set that this person has not approved
// yet. With a digest they are those it was shown with; without one they are shown here.
func (a *apiClient) ofSet(ctx context.Context, p *changesApproveCmd) ([]api.Change, error) {
	live, _, err := a.liveOfSet(ctx, p.Set)
	if err != nil {
		return nil, err
	}
	if p.Digest != "" {
		err = a.asShown(ctx, p.Set, p.requesterFlags, live, p.Digest)
	} else {
		err = p.onePart(p.Set, live, "nothing was approved")
	}
	if err != nil {
		return nil, err
	}
	all, others := p.narrow(live)
	sayLeft(a.Globals, "left alone", p.Set, others)
	me, _, err := ask.Received[api.Caller](a.Whoami(ctx))
	if err != nil {
		return nil, err
	}
	self := api.Person{Issuer: me.Issuer, Subject: me.Subject}
	wanted := slices.DeleteFunc(slices.Clone(all), func(c api.Change) bool {
		return slices.ContainsFunc(c.Approvals, func(v api.Approval) bool { return v.Approver == self && !v.Revoked })
	})
	switch n := len(all) - len(wanted); {
	case len(wanted) == 0:
		return nil, fmt.Errorf("you have approved all %d live changes of set %s already", len(all), cli.ASCII(p.Set))
	case len(wanted) > mostInOneAct:
		return nil, fmt.Errorf("set %s has %d live changes, and one act approves at most %d: approve them by id", cli.ASCII(p.Set), len(wanted), mostInOneAct)
	case n > 0:
		fmt.Fprintf(a.ErrOut, "you have approved %d of these %d live changes already; this is about the others\n", n, len(all))
	}
	if p.Digest != "" {
		return wanted, nil
	}
	whole, now, err := a.wholeChanges(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for i := range whole {
		describeChange(a.ErrOut, &whole[i], now, a.holdsOn(ctx, &whole[i].Change))
		fmt.Fprintln(a.ErrOut)
		wanted[i] = whole[i].Change // what is approved is what was shown
	}
	return wanted, nil
}

// approve approves these changes by the digests they were shown with, all or none, and says
// where that leaves them.
func (a *apiClient) approve(ctx context.Context, shown []api.Change, comment string) error {
	act := api.NewApproval{Digest: shown[0].Digest, Comment: cli.Given(comment)}
	if len(shown) > 1 {
		also := []api.AlsoApproved{}
		for _, c := range shown[1:] {
			also = append(also, api.AlsoApproved{ID: c.ID, Digest: c.Digest})
		}
		act.Also = &also
	}
	done, said, err := ask.Received[api.ApprovalList](a.ApproveChange(ctx, shown[0].ID, nil, act))
	if err != nil {
		return err
	}
	if a.Output != "table" {
		return a.Print(done.Items, nil, nil)
	}
	after := a.afterwards(ctx, shown)
	for i := range done.Items {
		v := &done.Items[i]
		fmt.Fprintf(a.Out, "change %s is approved by you: %s (decision %s)\n", v.ChangeID, v.ID, v.DecisionID)
		for _, self := range v.Self {
			fmt.Fprintf(a.ErrOut, "warning: it is your own change, as its %s; that is on record\n", cli.OneLine(self))
		}
		if c, ok := after[v.ChangeID]; ok {
			fmt.Fprintf(a.Out, "  %s: %s\n", c.Machine, needs(&c, said.Now))
		}
	}
	return nil
}

// afterwards reads what an act left these changes as. The act stands whether or not this can
// be read.
func (a *apiClient) afterwards(ctx context.Context, changes []api.Change) map[string]api.Change {
	out := map[string]api.Change{}
	if len(changes) == 1 {
		if c, _, err := ask.Received[api.Change](a.GetChange(ctx, changes[0].ID, nil)); err == nil {
			out[c.ID] = c
		}
		return out
	}
	page, _, err := ask.Received[api.ChangeList](a.ListChanges(ctx, pageOf(changes)))
	for _, c := range page.Items {
		out[c.ID] = c
	}
	if err != nil {
		clear(out)
	}
	return out
}
