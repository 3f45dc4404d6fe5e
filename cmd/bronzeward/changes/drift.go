package changes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
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
	err = g.Print(all, []string{"ID", "STATE", "MACHINE", "CHANGES", "FOUND", "SETTLED BY", "AGE"}, func(row func(...string)) {
		for i := range all {
			d := &all[i]
			row(d.ID, string(d.State), d.Machine, changed(d), d.Found.Active, d.ChangeID, cli.Span(max(0, now.Sub(d.Since))))
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

type driftShowCmd struct {
	clientFlags
	ID string `arg:"" help:"Drift id, drf_…"`
}

func (s *driftShowCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := s.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	d, _, err := ask.Received[api.Drift](a.GetDrift(ctx, s.ID))
	if err != nil {
		return err
	}
	if g.Output != "table" {
		return g.Print(d, nil, nil)
	}
	showDrift(g.Out, &d)
	return nil
}

// showDrift prints a drift for a person, and what can be done about it.
func showDrift(w io.Writer, d *api.Drift) {
	headline := fmt.Sprintf("drift %s on %s is %s", d.ID, d.Machine, d.State)
	if d.State == api.DriftStateOpen {
		headline += ": nothing else is applied to the machine"
	}
	fmt.Fprintf(w, "%s\n\n", headline)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", label, cli.OneLine(value))
		}
	}
	line("machine", d.Machine+" in "+d.Cluster)
	line("found", cli.Stamp(&d.Since))
	line("last applied", d.Applied.Active)
	line("found instead", d.Found.Active)
	if d.Applied.Persistent != d.Applied.Active {
		line("last applied, on disk", d.Applied.Persistent)
	}
	if d.Staged {
		line("found on disk", d.Found.Persistent+", which the next reboot brings")
	}
	line("version before", d.Versions.Before.Active)
	line("version found", d.Versions.Found.Active)
	line("version on disk before", d.Versions.Before.Persistent)
	line("version on disk found", d.Versions.Found.Persistent)
	line("closed", cli.Stamp(d.ClosedAt))
	line("settled by", d.ChangeID)
	line("decision", d.DecisionID)
	line("closing decision", d.ClosedDecisionID)
	_ = t.Flush() // w is a terminal or a test's buffer
	fmt.Fprintln(w, "\nchanged, from what was applied (values that may be secret are fingerprints)")
	showConfigChanges(w, d.Changes)
	switch {
	case !d.Compared:
		fmt.Fprintln(w, "  not known: no copy of what was applied could be compared with")
	case len(d.Changes) == 0:
		fmt.Fprintln(w, "  no value: only spelling, order or comments differ")
	}
	if d.State == api.DriftStateOpen {
		showNext(w, []string{
			"bronzeward drift revert " + d.ID + " --reason TEXT   # bring back what was applied",
			"bronzeward drift adopt " + d.ID + " --reason TEXT    # take what is there as applied",
		})
	}
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
