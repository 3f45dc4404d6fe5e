package changes

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type driftShowCmd struct {
	clientFlags
	ID string `arg:"" help:"Drift id, drf_…"`
}

// wholeDrift is a drift with what a person has to know beside it.
type wholeDrift struct {
	api.Drift
	// machine is null when the drift is closed.
	machine *api.Machine
	// proposed are the live changes that would settle it; settled is the one that did, null without.
	proposed []api.Change
	settled  *api.Change
}

func (s *driftShowCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := s.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	var d wholeDrift
	if d.Drift, _, err = ask.Received[api.Drift](a.GetDrift(ctx, s.ID)); err != nil {
		return err
	}
	if g.Output != "table" {
		return g.Print(d.Drift, nil, nil)
	}
	if err := a.around(ctx, &d); err != nil {
		return err
	}
	showDrift(g.Out, &d)
	return nil
}

// around reads what stands around a drift.
func (a *apiClient) around(ctx context.Context, d *wholeDrift) error {
	if d.State != api.DriftStateOpen {
		if d.ChangeID == "" {
			return nil
		}
		c, _, err := ask.Received[api.Change](a.GetChange(ctx, d.ChangeID, nil))
		d.settled = &c
		return err
	}
	m, _, err := ask.Received[api.Machine](a.GetMachine(ctx, d.Machine))
	if err != nil {
		return err
	}
	d.machine = &m
	params := api.ListChangesParams{Machine: &d.Machine, State: &[]api.ChangeStateFilter{api.ChangeStateFilterLive}}
	all, _, err := ask.Collect(0, "", func(limit int, cursor *string) ([]api.Change, string, error) {
		params.Limit, params.Cursor = &limit, cursor
		page, _, err := ask.Received[api.ChangeList](a.ListChanges(ctx, &params))
		return page.Items, page.Next, err
	})
	for i := range all {
		if all[i].DriftID == d.ID {
			d.proposed = append(d.proposed, all[i])
		}
	}
	return err
}

// showDrift prints a drift for a person, and what can be done about it.
func showDrift(w io.Writer, d *wholeDrift) {
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
		text := d.Found.Persistent
		if d.State == api.DriftStateOpen {
			text += ", which the next reboot brings"
		}
		line("found on disk", text)
	}
	line("version before", d.Versions.Before.Active)
	line("version found", d.Versions.Found.Active)
	line("version on disk before", d.Versions.Before.Persistent)
	line("version on disk found", d.Versions.Found.Persistent)
	line("decision", d.DecisionID)
	lineClosed(line, d)
	_ = t.Flush() // w is a terminal or a test's buffer
	showDrifted(w, d)
	if d.State == api.DriftStateOpen {
		showNext(w, nextOfDrift(d))
	}
}

// lineClosed says how a drift ended, who settled it and why.
func lineClosed(line func(label, value string), d *wholeDrift) {
	line("closed", cli.Stamp(d.ClosedAt))
	if c := d.ClosedWith; c != nil {
		line("closed with", c.Active)
		if c.Persistent != c.Active {
			line("closed with, on disk", c.Persistent)
		}
	}
	switch c := d.settled; {
	case c != nil:
		line("settled by", fmt.Sprintf("change %s, %s", c.ID, kindText(c)))
		line("asked by", ask.Person(c.Requester))
		line("why", c.Why)
		line("asked for in decision", c.DecisionID)
		for i := range c.Approvals {
			line("approved by", approval(&c.Approvals[i]))
		}
		line("attempt", c.AttemptID)
	case d.State == api.DriftStateReturned:
		line("settled by", "no change: the machine was seen to run what was applied again; who did that is not known here")
	}
	line("closing decision", d.ClosedDecisionID)
}

// showDrifted prints what the drift changes in what runs, and what the disk holds besides.
func showDrifted(w io.Writer, d *wholeDrift) {
	onDisk := d.Found.Active == d.Applied.Active
	what := "changed, from what was applied"
	if onDisk {
		what = "changed on the disk, from what was applied"
	}
	fmt.Fprintf(w, "\n%s (values that may be secret are fingerprints)\n", what)
	showValues(w, d.Changes, d.Compared, "what was applied")
	if d.machine == nil || !d.Staged || onDisk {
		return
	}
	fmt.Fprintln(w, "\nstaged besides: what the next reboot would change in what runs")
	n := d.machine.NextReboot
	switch {
	case n == nil || n.Active != d.Found.Active || n.Persistent != d.Found.Persistent:
		fmt.Fprintln(w, "  not known: what was last read of the machine is something else by now; look again")
	case len(n.Changes) == 0:
		fmt.Fprintln(w, "  no value: only spelling, order or comments differ")
	default:
		showConfigChanges(w, n.Changes)
	}
}

// nextOfDrift is what can be done about an open drift, ready to be copied: go on with what was
// proposed, or propose.
func nextOfDrift(d *wholeDrift) []string {
	var steps []string
	proposed := map[api.ChangeKind]bool{}
	for i := range d.proposed {
		c := &d.proposed[i]
		proposed[c.Kind] = true
		step := "show"
		if c.State == api.ChangeStateApproved {
			step = "apply"
		}
		steps = append(steps, fmt.Sprintf("bronzeward changes %s %s   # proposed by %s, to %s it: %s", step, c.ID, ask.Subject(c.Requester), c.Kind, c.State))
	}
	// Nothing is ever applied to a control plane.
	if controlPlane := d.machine != nil && d.machine.Role == api.Controlplane; !proposed[api.Revert] && !controlPlane {
		steps = append(steps, "bronzeward drift revert "+d.ID+" --reason TEXT   # bring back what was applied")
	} else if controlPlane {
		steps = append(steps, "undo it on the node by hand   # nothing is applied to a control plane; the next sight closes the drift")
	}
	if !proposed[api.Adopt] {
		steps = append(steps, "bronzeward drift adopt "+d.ID+" --reason TEXT    # take what is there as applied")
	}
	return steps
}
