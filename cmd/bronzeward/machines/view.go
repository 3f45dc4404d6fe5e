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
	Holds          []api.Hold        `json:"holds"`
	Staged         *api.Staged       `json:"staged"`
}

func viewMachine(m *api.Machine) machineView {
	v := machineView{
		Name: m.Name, ID: m.ID, Cluster: m.Cluster, Role: string(m.Role), Addresses: m.Addresses, Port: m.Port, Labels: m.Labels,
		Pinned: m.Pinned, PinnedAt: m.PinnedAt, NodeID: m.Identity.NodeID, TalosClusterID: m.Identity.ClusterID, SMBIOS: m.Identity.Smbios,
		Serial: m.Serial, Holds: m.Holds, Staged: m.Staged,
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
		if h.Holder.Subject == "" { // a drift is nobody's
			holds = append(holds, fmt.Sprintf("%s %s since %s", h.Kind, h.ID, cli.Stamp(&h.Since)))
			continue
		}
		holds = append(holds, fmt.Sprintf("%s %s of %s since %s", h.Kind, h.ID, ask.Person(h.Holder), cli.Stamp(&h.Since)))
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
		{"observed", cli.Stamp(v.ObservedAt)},
		{"observed version", v.Version},
		{"observed stage", v.Stage},
		{"observed type", v.Type},
		{"observed active", v.Active},
		{"observed persistent", v.Persistent},
		{"held by", strings.Join(holds, ", ")},
		{"the next reboot", v.reboot()},
	}
}

// reboot is what the next reboot brings when the disk holds another configuration; empty else.
func (v machineView) reboot() string {
	if v.Staged == nil {
		return ""
	}
	paths := make([]string, 0, len(v.Staged.Changes))
	for _, c := range v.Staged.Changes {
		paths = append(paths, strings.TrimSpace(cli.ASCII(c.Document)+" "+cli.ASCII(c.Path)))
	}
	if len(paths) == 0 {
		paths = append(paths, "no value, only spelling, order or comments")
	}
	return fmt.Sprintf("brings %s, seen %s, which changes %s", v.Staged.Persistent, cli.Stamp(&v.Staged.At), strings.Join(paths, ", "))
}
