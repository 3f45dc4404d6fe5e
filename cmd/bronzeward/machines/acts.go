package machines

import (
	"context"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type machinesObserveCmd struct {
	ask.Flags
	Name []string `arg:"" help:"Machine names."`
}

func (m *machinesObserveCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	for _, name := range m.Name {
		seen, err := observe(ctx, a, name)
		if err != nil {
			return err
		}
		if err := g.Done(seen, "%s: Talos %s, %s, stage %s, node id %s\n  active      %s\n  persistent  %s\n",
			name, seen.Version, seen.Type, seen.Stage, seen.Identity.NodeID, seen.Active, seen.Persistent); err != nil {
			return err
		}
	}
	return nil
}

func observe(ctx context.Context, a *ask.Client, name string) (api.Observation, error) {
	defer a.Busy("reading %s", name)()
	seen, _, err := ask.Received[api.Observation](a.ObserveMachine(ctx, name, nil, api.Nothing{}))
	return seen, err
}

type machinesPinCmd struct {
	ask.Flags
	Name    []string `arg:"" help:"Machine names."`
	Replace bool     `help:"Pin to another identity than the one pinned now: the node was replaced."`
}

func (m *machinesPinCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	for _, name := range m.Name {
		pin, err := pin(ctx, a, name, m.Replace)
		if err != nil {
			return err
		}
		if err := g.Done(pin, "machine %s pinned to node id %s of cluster %s\n", name, pin.Identity.NodeID, pin.Identity.ClusterID); err != nil {
			return err
		}
	}
	return nil
}

func pin(ctx context.Context, a *ask.Client, name string, replace bool) (api.Pin, error) {
	defer a.Busy("reading %s", name)()
	pin, _, err := ask.Received[api.Pin](a.PinMachine(ctx, name, nil, api.NewPin{Replace: replace}))
	return pin, err
}

type machinesUpdateCmd struct {
	ask.Flags
	Name    string            `arg:"" help:"Machine name."`
	Address []string          `required:"" help:"Addresses the machine has from now on, in order of preference."`
	Port    uint16            `default:"50000" help:"Port of the Talos API."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Labels the machine has from now on."`
}

func (m *machinesUpdateCmd) Run(ctx context.Context, g *cli.Globals) error {
	if _, err := (machineSpec{Name: m.Name, Addresses: m.Address}).machine(); err != nil {
		return cli.Usage(err)
	}
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	update := api.MachineUpdate{Addresses: m.Address, Port: int(m.Port), Labels: api.Labels{}}
	for key, value := range m.Label {
		update.Labels[key] = value
	}
	machine, said, err := ask.Received[api.Machine](a.UpdateMachine(ctx, m.Name, update))
	if err != nil {
		return err
	}
	return g.Done(viewMachine(&machine), "machine %s updated (decision %s)\n", m.Name, said.Decision)
}

type machinesTimelineCmd struct {
	ask.Flags
	Name  string `arg:"" help:"Machine name."`
	Limit int    `default:"50" help:"At most this many."`
	After string `help:"Continue after this cursor, as printed by the page before."`
}

func (m *machinesTimelineCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := cli.CheckLimit(m.Limit); err != nil {
		return err
	}
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	all, next, err := ask.Collect(m.Limit, m.After, func(limit int, cursor *string) ([]api.TimelineItem, string, error) {
		page, _, err := ask.Received[api.TimelineItemList](a.ListTimeline(ctx, m.Name, &api.ListTimelineParams{Limit: &limit, Cursor: cursor}))
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	err = g.Print(all, []string{"TIME", "KIND", "STATE", "WHO", "WHAT", "ID"}, func(row func(...string)) {
		for _, t := range all {
			row(cli.Stamp(&t.At), string(t.Kind), t.State, ask.Subject(t.Person), t.Text, t.ID)
		}
	})
	g.More(len(all), "nothing has happened to this machine", next)
	return err
}
