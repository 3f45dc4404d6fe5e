// Package machines is the commands about machines.
package machines

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Commands are the commands about machines.
type Commands struct {
	Add      machinesAddCmd      `cmd:"" help:"Add one machine."`
	Import   machinesImportCmd   `cmd:"" help:"Add all machines of a YAML file, or none."`
	Update   machinesUpdateCmd   `cmd:"" help:"Replace a machine's addresses and labels."`
	List     machinesListCmd     `cmd:"" help:"List machines." aliases:"ls"`
	Show     machinesShowCmd     `cmd:"" help:"Show one machine, and what holds it."`
	Timeline machinesTimelineCmd `cmd:"" help:"List how a machine's changes, approvals, attempts and observations stand, newest first; what the book has about it is in decisions timeline."`
	Observe  machinesObserveCmd  `cmd:"" help:"Read identity, type and configuration digests from a machine; nothing on it changes."`
	Pin      machinesPinCmd      `cmd:"" help:"Fix a machine to the identity it shows now. Only pinned machines are applied to."`
	Freeze   machinesFreezeCmd   `cmd:"" help:"Close a machine to changes until an approver opens it again; reading goes on."`
	Unfreeze machinesUnfreezeCmd `cmd:"" help:"Open a frozen machine to changes again."`
	Freezes  machinesFreezesCmd  `cmd:"" help:"List who froze a machine when and why, and who lifted it."`
	Retire   machinesRetireCmd   `cmd:"" help:"Say for good that a machine never comes back."`
}

type machinesAddCmd struct {
	ask.Flags
	Name    string            `arg:"" help:"Name, as operators will spell it with talosctl -n."`
	Cluster string            `required:"" help:"Cluster the machine belongs to."`
	Address []string          `required:"" help:"Address, without port; repeat for more, in order of preference."`
	Port    uint16            `default:"50000" help:"Port of the Talos API."`
	Role    string            `enum:"worker,controlplane" default:"worker" help:"Expected role: worker or controlplane."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Label for policies; repeat for more."`
}

func (m *machinesAddCmd) Run(ctx context.Context, g *cli.Globals) error {
	one, err := machineSpec{Name: m.Name, Cluster: m.Cluster, Addresses: m.Address, Port: m.Port, Role: m.Role, Labels: m.Label}.machine()
	if err != nil {
		return cli.Usage(err)
	}
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	added, said, err := ask.Received[api.AddedMachines](a.AddMachines(ctx, nil, api.NewMachines{Machines: []api.NewMachine{one}}))
	if err != nil {
		return err
	}
	return g.Done(added, "machine %s added (decision %s)\nnext: bronzeward machines pin %s\n", m.Name, said.Decision, cli.ShellWord(m.Name))
}

// machineSpec is one machine of an import file.
type machineSpec struct {
	Name      string            `yaml:"name"`
	Cluster   string            `yaml:"cluster"`
	Role      string            `yaml:"role"`
	Addresses []string          `yaml:"addresses"`
	Port      uint16            `yaml:"port"`
	Labels    map[string]string `yaml:"labels"`
}

func (s machineSpec) machine() (api.NewMachine, error) {
	out := api.NewMachine{Name: s.Name, Cluster: s.Cluster, Addresses: s.Addresses}
	if s.Role != "" {
		out.Role = new(api.MachineRole(s.Role))
	}
	if s.Port != 0 {
		out.Port = new(int(s.Port))
	}
	if len(s.Labels) > 0 {
		out.Labels = new(api.Labels(s.Labels))
	}
	var problems []error
	for _, address := range s.Addresses {
		if _, err := netip.ParseAddr(address); err != nil {
			problems = append(problems, fmt.Errorf("machine %s: %q is not an address (names are not taken: they may resolve to another machine later)", s.Name, address))
		}
	}
	return out, errors.Join(problems...)
}

type machinesImportCmd struct {
	ask.Flags
	File string `arg:"" help:"YAML file with a list: name, cluster, role, addresses, port, labels." type:"existingfile"`
}

func (m *machinesImportCmd) Run(ctx context.Context, g *cli.Globals) error {
	raw, err := os.ReadFile(m.File)
	if err != nil {
		return cli.Usage(err)
	}
	var specs []machineSpec
	if err := yaml.Load(raw, &specs, yaml.WithKnownFields(true), yaml.WithUniqueKeys(true)); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", m.File, err))
	}
	list := []api.NewMachine{}
	var problems []error
	for _, s := range specs {
		one, err := s.machine()
		problems = append(problems, err)
		list = append(list, one)
	}
	if err := errors.Join(problems...); err != nil {
		return cli.Usage(err)
	}
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	added, said, err := ask.Received[api.AddedMachines](a.AddMachines(ctx, nil, api.NewMachines{Machines: list}))
	if err != nil {
		return err
	}
	return g.Done(added, "%s added (decision %s)\n", cli.Plural(len(list), "machine"), said.Decision)
}

type machinesListCmd struct {
	ask.Flags
	Cluster string `help:"Only machines of this cluster."`
	All     bool   `help:"Also machines that are retired."`
}

func (m *machinesListCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	params := api.ListMachinesParams{Cluster: cli.Given(m.Cluster)}
	if m.All {
		params.All = &m.All
	}
	all, _, err := ask.Collect(0, "", func(limit int, cursor *string) ([]api.Machine, string, error) {
		params.Limit, params.Cursor = &limit, cursor
		page, _, err := ask.Received[api.MachineList](a.ListMachines(ctx, &params))
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	views := make([]machineView, 0, len(all))
	for i := range all {
		views = append(views, viewMachine(&all[i]))
	}
	return g.Print(views, []string{"NAME", "CLUSTER", "ROLE", "ADDRESSES", "PINNED", "VERSION", "STAGE", "OBSERVED", "HELD BY"}, func(row func(...string)) {
		for _, v := range views {
			row(v.Name, v.Cluster, v.Role, strings.Join(v.Addresses, ","), cli.YesNo(v.Pinned), v.Version, v.Stage, cli.Ago(v.ObservedAt), v.heldBy())
		}
	})
}

type machinesShowCmd struct {
	ask.Flags
	Name string `arg:"" help:"Machine name."`
}

func (m *machinesShowCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	machine, _, err := ask.Received[api.Machine](a.GetMachine(ctx, m.Name))
	if err != nil {
		return err
	}
	v := viewMachine(&machine)
	return g.Print(v, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		for _, f := range v.fields() {
			row(f[0], f[1])
		}
	})
}
