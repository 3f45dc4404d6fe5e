package machines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// machineView is a machine as commands print it.
type machineView struct {
	Name           string            `json:"name"`
	ID             string            `json:"id"`
	Cluster        string            `json:"cluster"`
	Role           string            `json:"role"`
	Addresses      []string          `json:"addresses"`
	Port           int               `json:"port"`
	Labels         map[string]string `json:"labels"`
	Pinned         bool              `json:"pinned"`
	PinnedAt       *time.Time        `json:"pinned_at"`
	NodeID         string            `json:"node_id"`
	TalosClusterID string            `json:"talos_cluster_id"`
	SMBIOS         string            `json:"smbios"`
	Serial         int64             `json:"serial"`
	AppliedActive  string            `json:"applied_active"`
	AppliedDisk    string            `json:"applied_persistent"`
	Version        string            `json:"version"`
	Stage          string            `json:"stage"`
	Type           string            `json:"type"`
	Active         string            `json:"observed_active"`
	Persistent     string            `json:"observed_persistent"`
	ObservedAt     *time.Time        `json:"observed_at"`
	Staged         *bool             `json:"staged"`
	Holds          []api.Hold        `json:"holds"`
	NextReboot     *api.Staged       `json:"next_reboot"`
	Retired        *api.Retirement   `json:"retired"`
}

func viewMachine(m *api.Machine) machineView {
	v := machineView{
		Name: m.Name, ID: m.ID, Cluster: m.Cluster, Role: string(m.Role), Addresses: m.Addresses, Port: m.Port, Labels: m.Labels,
		Pinned: m.Pinned, PinnedAt: m.PinnedAt, NodeID: m.Identity.NodeID, TalosClusterID: m.Identity.ClusterID, SMBIOS: m.Identity.Smbios,
		Serial: m.Serial, Holds: m.Holds, Staged: m.Staged, NextReboot: m.NextReboot, Retired: m.Retired,
	}
	if m.Applied != nil {
		v.AppliedActive, v.AppliedDisk = m.Applied.Active, m.Applied.Persistent
	}
	if o := m.Observed; o != nil {
		v.Version, v.Stage, v.Type, v.Active, v.Persistent, v.ObservedAt = o.Version, o.Stage, o.Type, o.Active, o.Persistent, &o.At
	}
	return v
}

func (v machineView) fields() [][2]string {
	var labels, holds []string
	for _, k := range slices.Sorted(maps.Keys(v.Labels)) {
		labels = append(labels, k+"="+v.Labels[k])
	}
	for _, h := range v.Holds {
		holds = append(holds, ask.Hold(h))
	}
	return [][2]string{
		{"name", v.Name},
		{"id", v.ID},
		{"cluster", v.Cluster},
		{"role", v.Role},
		{"addresses", strings.Join(v.Addresses, ",")},
		{"port", fmt.Sprint(v.Port)},
		{"labels", strings.Join(labels, ",")},
		{"pinned", cli.Stamp(v.PinnedAt)},
		{"node id", v.NodeID},
		{"talos cluster id", v.TalosClusterID},
		{"smbios", v.SMBIOS},
		{"last applied, active", v.AppliedActive},
		{"last applied, persistent", v.AppliedDisk},
		{"observed", observedText(v.ObservedAt)},
		{"observed version", v.Version},
		{"observed stage", v.Stage},
		{"observed type", v.Type},
		{"observed active", v.Active},
		{"observed persistent", v.Persistent},
		{"staged", stagedText(v)},
		{"the next reboot", v.reboot()},
		{"held by", strings.Join(holds, "; ")},
	}
}

// reboot is what the next reboot changes when the disk holds another configuration; empty else.
func (v machineView) reboot() string {
	if v.NextReboot == nil {
		return ""
	}
	paths := make([]string, 0, len(v.NextReboot.Changes))
	for _, c := range v.NextReboot.Changes {
		paths = append(paths, strings.TrimSpace(cli.ASCII(c.Document)+" "+cli.ASCII(c.Path)))
	}
	if len(paths) == 0 {
		paths = append(paths, "no value, only spelling, order or comments")
	}
	return fmt.Sprintf("changes %s (seen %s)", strings.Join(paths, ", "), cli.Stamp(&v.NextReboot.At))
}

// heldBy is what holds the machine, in a word each.
func (v machineView) heldBy() string {
	var kinds []string
	for _, h := range v.Holds {
		if !slices.Contains(kinds, string(h.Kind)) {
			kinds = append(kinds, string(h.Kind))
		}
	}
	return strings.Join(kinds, ",")
}

func observedText(at *time.Time) string {
	if at == nil {
		return ""
	}
	return cli.Stamp(at) + ", " + cli.Ago(at) + " ago"
}

// stagedText says what the next reboot brings.
func stagedText(v machineView) string {
	switch {
	case v.Staged == nil:
		return ""
	case *v.Staged:
		return "yes: persistent is not active, and the next reboot would bring " + v.Persistent
	}
	return "no"
}
