package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"

	"bronzeward/gateway/control"
)

type machinesCmd struct {
	Add     machinesAddCmd     `cmd:"" help:"Add one machine."`
	Import  machinesImportCmd  `cmd:"" help:"Add all machines of a YAML file, or none."`
	Update  machinesUpdateCmd  `cmd:"" help:"Replace a machine's addresses and labels."`
	List    machinesListCmd    `cmd:"" help:"List machines." aliases:"ls"`
	Show    machinesShowCmd    `cmd:"" help:"Show one machine."`
	Observe machinesObserveCmd `cmd:"" help:"Read identity, type and configuration digests from a machine; nothing on it changes."`
	Pin     machinesPinCmd     `cmd:"" help:"Fix a machine to the identity it shows now. Only pinned machines are applied to."`
}

type machinesAddCmd struct {
	credentialFlags
	Name    string            `arg:"" help:"Name, as operators will spell it with talosctl -n."`
	Cluster string            `required:"" help:"Cluster the machine belongs to."`
	Address []string          `required:"" help:"Address, without port; repeat for more, in order of preference."`
	Port    uint16            `default:"50000" help:"Port of the Talos API."`
	Role    string            `enum:"worker,controlplane" default:"worker" help:"Expected role: worker or controlplane."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Label for policies; repeat for more."`
}

func (m *machinesAddCmd) Run(ctx context.Context, g *globals) error {
	one, err := machineSpec{Name: m.Name, Cluster: m.Cluster, Addresses: m.Address, Port: m.Port, Role: m.Role, Labels: m.Label}.machine()
	if err != nil {
		return usageError{err}
	}
	d, err := g.openDesk(ctx, m.credentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	receipt, err := d.acts.AddMachines(ctx, d.actor, []control.NewMachine{one})
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "machine %s added (decision %s)\nnext: bronzeward machines pin %s\n", m.Name, receipt.ID, m.Name)
	return nil
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

func (s machineSpec) machine() (control.NewMachine, error) {
	out := control.NewMachine{Name: s.Name, Cluster: s.Cluster, Role: s.Role, Port: s.Port, Labels: s.Labels}
	var problems []error
	for _, a := range s.Addresses {
		parsed, err := netip.ParseAddr(a)
		if err != nil {
			problems = append(problems, fmt.Errorf("machine %s: %q is not an address (names are not taken: they may resolve to another machine later)", s.Name, a))
		}
		out.Addresses = append(out.Addresses, parsed)
	}
	return out, errors.Join(problems...)
}

type machinesImportCmd struct {
	credentialFlags
	File string `arg:"" help:"YAML file with a list: name, cluster, role, addresses, port, labels." type:"existingfile"`
}

func (m *machinesImportCmd) Run(ctx context.Context, g *globals) error {
	raw, err := os.ReadFile(m.File)
	if err != nil {
		return usageError{err}
	}
	var specs []machineSpec
	if err := yaml.Load(raw, &specs, yaml.WithKnownFields(true), yaml.WithUniqueKeys(true)); err != nil {
		return usageError{fmt.Errorf("%s: %w", m.File, err)}
	}
	var list []control.NewMachine
	var problems []error
	for _, s := range specs {
		one, err := s.machine()
		problems = append(problems, err)
		list = append(list, one)
	}
	if err := errors.Join(problems...); err != nil {
		return usageError{err}
	}
	d, err := g.openDesk(ctx, m.credentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	receipt, err := d.acts.AddMachines(ctx, d.actor, list)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "%d machines added (decision %s)\n", len(list), receipt.ID)
	return nil
}

type machinesListCmd struct {
	Cluster string `help:"Only machines of this cluster."`
}

func (m *machinesListCmd) Run(ctx context.Context, g *globals) error {
	store, done, err := g.openStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := store.ListMachines(ctx)
	if err != nil {
		return err
	}
	views := []machineView{}
	for i := range all {
		if m.Cluster == "" || all[i].Cluster == m.Cluster {
			views = append(views, viewMachine(&all[i]))
		}
	}
	return g.print(views, []string{"NAME", "CLUSTER", "ROLE", "ADDRESSES", "PINNED", "VERSION", "STAGE", "OBSERVED"}, func(row func(...string)) {
		for _, v := range views {
			row(v.Name, v.Cluster, v.Role, strings.Join(v.Addresses, ","), yesNo(v.Pinned), v.Version, v.Stage, ago(v.ObservedAt))
		}
	})
}

type machinesShowCmd struct {
	Name string `arg:"" help:"Machine name."`
}

func (m *machinesShowCmd) Run(ctx context.Context, g *globals) error {
	store, done, err := g.openStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	machine, err := store.GetMachine(ctx, m.Name)
	if err != nil {
		return err
	}
	v := viewMachine(&machine)
	return g.print(v, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		for _, f := range v.fields() {
			row(f[0], f[1])
		}
	})
}

type machinesObserveCmd struct {
	credentialFlags
	Name []string `arg:"" help:"Machine names."`
}

func (m *machinesObserveCmd) Run(ctx context.Context, g *globals) error {
	d, err := g.openDesk(ctx, m.credentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	for _, name := range m.Name {
		seen, err := d.acts.Observe(ctx, d.actor, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.out, "%s: Talos %s, %s, stage %s, node id %s\n  active      %s\n  persistent  %s\n",
			name, seen.Version, seen.Type, seen.Stage, seen.NodeID, seen.Active, seen.Persistent)
	}
	return nil
}

type machinesPinCmd struct {
	credentialFlags
	Name    []string `arg:"" help:"Machine names."`
	Replace bool     `help:"Pin to another identity than the one pinned now: the node was replaced."`
}

func (m *machinesPinCmd) Run(ctx context.Context, g *globals) error {
	d, err := g.openDesk(ctx, m.credentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	for _, name := range m.Name {
		id, err := d.acts.Pin(ctx, d.actor, name, m.Replace)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.out, "machine %s pinned to node id %s of cluster %s\n", name, id.NodeID, id.ClusterID)
	}
	return nil
}

type machinesUpdateCmd struct {
	credentialFlags
	Name    string            `arg:"" help:"Machine name."`
	Address []string          `required:"" help:"Addresses the machine has from now on, in order of preference."`
	Port    uint16            `default:"50000" help:"Port of the Talos API."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Labels the machine has from now on."`
}

func (m *machinesUpdateCmd) Run(ctx context.Context, g *globals) error {
	one, err := machineSpec{Name: m.Name, Addresses: m.Address}.machine()
	if err != nil {
		return usageError{err}
	}
	d, err := g.openDesk(ctx, m.credentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	receipt, err := d.acts.UpdateMachine(ctx, d.actor, m.Name, control.MachineUpdate{Addresses: one.Addresses, Port: m.Port, Labels: m.Label})
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "machine %s updated (decision %s)\n", m.Name, receipt.ID)
	return nil
}
