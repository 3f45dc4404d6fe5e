package machines

import (
	"context"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type machinesFreezeCmd struct {
	ask.Flags
	Name   string `arg:"" help:"Machine name."`
	Reason string `required:"" help:"Why; everybody who is refused because of it reads this."`
}

func (m *machinesFreezeCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	frozen, said, err := ask.Received[api.Freeze](a.FreezeMachine(ctx, m.Name, nil, api.NewFreeze{Reason: m.Reason}))
	if err != nil {
		return err
	}
	return g.Done(frozen, "machine %s is frozen (decision %s)\nan approver lifts it: bronzeward machines unfreeze %s --reason TEXT\n",
		frozen.Machine, said.Decision, cli.ShellWord(frozen.Machine))
}

type machinesUnfreezeCmd struct {
	ask.Flags
	Name   string `arg:"" help:"Machine name."`
	Reason string `required:"" help:"Why it takes changes again."`
}

func (m *machinesUnfreezeCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	lifted, said, err := ask.Received[api.Freeze](a.UnfreezeMachine(ctx, m.Name, nil, api.NewFreeze{Reason: m.Reason}))
	if err != nil {
		return err
	}
	return g.Done(lifted, "machine %s takes changes again; %s had frozen it %s ago (decision %s)\n",
		lifted.Machine, ask.Subject(lifted.By), cli.Ago(&lifted.Since), said.Decision)
}

type machinesFreezesCmd struct {
	ask.Flags
	Name string `arg:"" help:"Machine name."`
}

func (m *machinesFreezesCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	list, _, err := ask.Received[api.FreezeList](a.ListFreezes(ctx, m.Name))
	if err != nil {
		return err
	}
	err = g.Print(list.Items, []string{"SINCE", "BY", "WHY", "LIFTED", "LIFTED BY", "LIFTED BECAUSE"}, func(row func(...string)) {
		for _, f := range list.Items {
			if f.Lifted == nil {
				row(cli.Stamp(&f.Since), ask.Subject(f.By), f.Reason, "", "", "")
				continue
			}
			row(cli.Stamp(&f.Since), ask.Subject(f.By), f.Reason, cli.Stamp(&f.Lifted.At), ask.Subject(f.Lifted.By), f.Lifted.Reason)
		}
	})
	g.More(len(list.Items), "this machine was never frozen", "")
	return err
}
