// Package changes is the commands about changes, their approvals and attempts, the notices of them,
// and configuration digests.
package changes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Commands are the commands about changes.
type Commands struct {
	List    changesListCmd    `cmd:"" help:"List changes, newest first." aliases:"ls"`
	Show    changesShowCmd    `cmd:"" help:"Show one change, or all live ones of a set: who, what, what would change, who approved it, and what to do next."`
	Diff    changesDiffCmd    `cmd:"" help:"Show what a change would change, by path."`
	Submit  changesSubmitCmd  `cmd:"" help:"Propose a configuration for one machine, or for several as a set."`
	Approve changesApproveCmd `cmd:"" help:"Approve exactly the change that was shown, or the set that was shown in one act."`
	Reject  changesRejectCmd  `cmd:"" help:"Reject a change for good."`
	Cancel  changesCancelCmd  `cmd:"" help:"Take a change back for good."`
	Apply   changesApplyCmd   `cmd:"" help:"Apply an approved change, or one requester's of a set: the gateway sends the sealed bytes."`
}

type changesListCmd struct {
	clientFlags
	State   []string `enum:"live,waiting,approved,spent,superseded,cancelled,rejected,expired,revoked" help:"Only changes in this state; repeat for several. live is waiting and approved."`
	Live    bool     `help:"Only live changes: waiting and approved ones."`
	Machine string   `short:"m" help:"Only changes of this machine."`
	Set     string   `placeholder:"NAME" help:"Only changes of this set; where all its live ones are listed, their digest is printed, too."`
	Mine    bool     `help:"Only changes you asked for."`
	Watch   bool     `short:"w" help:"Go on printing what is new or changed, until Ctrl-C."`
	Limit   int      `default:"50" help:"At most this many; with --watch up to 500."`
	After   string   `help:"Continue after this cursor, as printed by the page before."`
}

func (l *changesListCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := cli.CheckLimit(l.Limit); err != nil {
		return err
	}
	if l.Watch && (l.After != "" || l.Limit > ask.MostPage) {
		return cli.Usage(fmt.Errorf("--watch looks at one page: it goes without --after, and with a --limit of at most %d", ask.MostPage))
	}
	a, err := l.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	params, err := l.params(ctx, a)
	if err != nil {
		return err
	}
	if l.Watch {
		return a.watch(ctx, params, l.Limit)
	}
	now := time.Now()
	all, next, err := ask.Collect(l.Limit, l.After, func(limit int, cursor *string) ([]api.Change, string, error) {
		params.Limit, params.Cursor = &limit, cursor
		page, said, err := ask.Received[api.ChangeList](a.ListChanges(ctx, &params))
		now = said.Now
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	err = g.Print(all, changeColumns(), func(row func(...string)) {
		for i := range all {
			row(changeRow(&all[i], now)...)
		}
	})
	g.More(len(all), "no change matches", next)
	if l.Set != "" {
		l.digests(g, all, next)
	}
	return err
}

// digests prints the digest of what each requester has live in the set, where all of that
// stands in the list: nothing is approved by it that was not shown.
func (l *changesListCmd) digests(g *cli.Globals, all []api.Change, next string) {
	states := slices.Concat(l.State, []string{})
	if l.Live || len(states) == 0 {
		states = append(states, "live")
	}
	both := slices.Contains(states, "live") || slices.Contains(states, "waiting") && slices.Contains(states, "approved")
	if l.Machine != "" || l.After != "" || next != "" || !both {
		fmt.Fprintf(g.ErrOut, "this may not be all of the set; to look at all of it: bronzeward changes show --set %s\n", cli.ShellWord(l.Set))
		return
	}
	for _, p := range partsOf(l.Set, slices.DeleteFunc(slices.Clone(all), func(c api.Change) bool { return !live(&c) })) {
		fmt.Fprintln(g.ErrOut, p.line())
	}
}

// params is what to ask for; to know whose changes are one's own, the gateway is asked.
func (l *changesListCmd) params(ctx context.Context, a *apiClient) (api.ListChangesParams, error) {
	p := api.ListChangesParams{Machine: cli.Given(l.Machine), Set: cli.Given(l.Set)}
	states := []api.ChangeStateFilter{}
	for _, s := range l.State {
		states = append(states, api.ChangeStateFilter(s))
	}
	if l.Live {
		states = append(states, api.ChangeStateFilterLive)
	}
	if len(states) > 0 {
		p.State = &states
	}
	if l.Mine {
		me, _, err := ask.Received[api.Caller](a.Whoami(ctx))
		if err != nil {
			return p, err
		}
		p.Requester, p.RequesterIssuer = &me.Subject, &me.Issuer
	}
	return p, nil
}

func changeColumns() []string {
	return []string{"ID", "STATE", "MACHINE", "REQUESTER", "KIND", "MODE", "CHANGES", "APPROVALS", "GOOD FOR", "SET", "AGE"}
}

// changeRow is a change as a table shows it, at the gateway's time.
func changeRow(c *api.Change, now time.Time) []string {
	return []string{
		c.ID, string(c.State), c.Machine, ask.Subject(c.Requester), string(c.Kind), modeOf(c), valuesChanged(c, "?"),
		fmt.Sprintf("%d/%d", c.ApprovalsCounting, c.ApprovalsNeeded.Required), goodFor(c, now), cli.Clip(cli.ASCII(c.Set), ask.MostSubject),
		cli.Span(max(0, now.Sub(c.CreatedAt))),
	}
}

// modeOf is how a change is applied; an adoption is not.
func modeOf(c *api.Change) string {
	if c.Kind == api.Adopt {
		return ""
	}
	return c.Mode
}

// until is when a live change stops being good, null for others.
func until(c *api.Change) *time.Time {
	switch c.State {
	case api.ChangeStateWaiting:
		return &c.ApproveBy
	case api.ChangeStateApproved:
		return c.UseBy
	}
	return nil
}

// goodFor is how long a change can still be approved or applied; empty when neither.
func goodFor(c *api.Change, now time.Time) string {
	end := until(c)
	switch {
	case end == nil:
		return ""
	case !end.After(now):
		return "over"
	}
	return cli.Span(end.Sub(now))
}

// live is true while a change can still be approved or applied.
func live(c *api.Change) bool {
	return c.State == api.ChangeStateWaiting || c.State == api.ChangeStateApproved
}

// ended is what became of a change, in a sentence.
func ended(c *api.Change) string {
	text := fmt.Sprintf("change %s of %s is %s", c.ID, c.Machine, c.State)
	switch c.State {
	case api.ChangeStateRevoked:
		text += ", because its requester was"
	case api.ChangeStateSpent:
		if c.AttemptID == "" {
			text += ": it adopted drift " + c.DriftID
			break
		}
		text += " by attempt " + c.AttemptID
	case api.ChangeStateExpired:
		text += ": its time was over"
	}
	if c.Reason != "" {
		text += ": " + cli.OneLine(c.Reason)
	}
	if c.OvertakenBy != "" {
		text += "; it has " + c.OvertakenBy
	}
	return text
}
