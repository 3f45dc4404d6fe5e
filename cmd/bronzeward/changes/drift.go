package changes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Drift are the commands about machines whose configuration is not the last one applied.
type Drift struct {
	List   driftListCmd   `cmd:"" help:"List drifts, newest first." aliases:"ls"`
	Show   driftShowCmd   `cmd:"" help:"Show one drift: what was applied, what is there instead, and what to do next."`
	Adopt  driftAdoptCmd  `cmd:"" help:"Propose to take what was found as applied. Nothing is sent to the machine."`
	Revert driftRevertCmd `cmd:"" help:"Propose to bring back what was applied."`
}

type driftListCmd struct {
	clientFlags
	State   []string `enum:"open,adopted,reverted,returned" help:"Only drifts in this state; repeat for several."`
	Open    bool     `help:"Only open drifts: they hold their machines."`
	Machine string   `short:"m" help:"Only drifts of this machine."`
	Limit   int      `default:"50" help:"At most this many."`
	After   string   `help:"Continue after this cursor, as printed by the page before."`
}

func (l *driftListCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := cli.CheckLimit(l.Limit); err != nil {
		return err
	}
	a, err := l.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	params := api.ListDriftsParams{Machine: cli.Given(l.Machine)}
	states := []api.DriftState{}
	for _, s := range l.State {
		states = append(states, api.DriftState(s))
	}
	if l.Open {
		states = append(states, api.DriftStateOpen)
	}
	if len(states) > 0 {
		params.State = &states
	}
	now := time.Now()
	all, next, err := ask.Collect(l.Limit, l.After, func(limit int, cursor *string) ([]api.Drift, string, error) {
		params.Limit, params.Cursor = &limit, cursor
		page, said, err := ask.Received[api.DriftList](a.ListDrifts(ctx, &params))
		now = said.Now
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	err = g.Print(all, []string{"ID", "STATE", "MACHINE", "CHANGES", "FIRST", "SETTLED BY", "AGE"}, func(row func(...string)) {
		for i := range all {
			d := &all[i]
			row(d.ID, string(d.State), d.Machine, changed(d), firstChanged(d), d.ChangeID, cli.Span(max(0, now.Sub(d.Since))))
		}
	})
	g.More(len(all), "no drift matches", next)
	return err
}

// changed is how many values a drift changes, as far as that is known.
func changed(d *api.Drift) string {
	if !d.Compared {
		return "?"
	}
	return fmt.Sprint(len(d.Changes))
}

// firstChanged is the first path that a drift changes; empty when none is known.
func firstChanged(d *api.Drift) string {
	if len(d.Changes) == 0 {
		return ""
	}
	return strings.TrimSpace(cli.ASCII(d.Changes[0].Document) + " " + cli.ASCII(d.Changes[0].Path))
}

type driftAdoptCmd struct {
	clientFlags
	ID     string `arg:"" help:"Drift id, drf_…"`
	Reason string `required:"" help:"Why; who approves reads it, and it stays in the record."`
}

func (c *driftAdoptCmd) Run(ctx context.Context, g *cli.Globals) error {
	return c.settle(g, func(a *apiClient) (*http.Response, error) {
		return a.AdoptDrift(ctx, c.ID, nil, api.Reason{Reason: c.Reason})
	})
}

type driftRevertCmd struct {
	clientFlags
	ID     string `arg:"" help:"Drift id, drf_…"`
	Reason string `required:"" help:"Why; who approves reads it, and it stays in the record."`
}

func (c *driftRevertCmd) Run(ctx context.Context, g *cli.Globals) error {
	return c.settle(g, func(a *apiClient) (*http.Response, error) {
		return a.RevertDrift(ctx, c.ID, nil, api.Reason{Reason: c.Reason})
	})
}

// settle proposes what settles a drift, and says what comes then.
func (f clientFlags) settle(g *cli.Globals, act func(*apiClient) (*http.Response, error)) error {
	a, err := f.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	c, said, err := ask.Received[api.Change](act(a))
	if err != nil {
		return err
	}
	if g.Output != "table" {
		return g.Print(c, nil, nil)
	}
	what := "captured"
	if said.Status == http.StatusOK {
		what = "there already"
	}
	fmt.Fprintf(g.Out, "change %s, to %s drift %s on %s, is %s (decision %s)\n", c.ID, c.Kind, c.DriftID, c.Machine, what, said.Decision)
	fmt.Fprintf(g.Out, "  values changed: %s; %s\n", valuesChanged(&c, "not known"), needs(&c, said.Now))
	step := "show"
	if c.State == api.ChangeStateApproved {
		step = "apply"
	}
	fmt.Fprintf(g.Out, "  next: bronzeward changes %s %s\n", step, c.ID)
	return nil
}

// adopt carries out an adoption, once it is approved when it waits for that.
func (a *apiClient) adopt(ctx context.Context, c api.Change, wait waitFlags) error {
	if wait.Wait {
		ready, err := a.untilApproved(ctx, []api.Change{c}, wait.Timeout)
		if err != nil {
			return err
		}
		c = ready[0]
	}
	done, said, err := ask.Received[api.Change](a.AdoptChange(ctx, c.ID, nil, api.Nothing{}))
	if err != nil {
		return err
	}
	return a.Done(done, "%s: drift %s is adopted: what it runs is taken as applied, and nothing was sent (decision %s)\n", c.Machine, c.DriftID, said.Decision)
}
