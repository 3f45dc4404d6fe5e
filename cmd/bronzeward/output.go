package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v4"

	"bronzeward/gateway/control"
)

// print writes a value as JSON or YAML, or as the table that rows fills.
func (g *globals) print(value any, header []string, rows func(row func(cells ...string))) error {
	switch g.Output {
	case "json":
		enc := json.NewEncoder(g.out)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	case "yaml":
		return printYAML(g.out, value)
	}
	w := tabwriter.NewWriter(g.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	rows(func(cells ...string) {
		for i, c := range cells {
			if c == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	})
	return w.Flush()
}

// printYAML goes through JSON, so that both formats have the same names.
func printYAML(w io.Writer, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := yaml.Load(raw, &plain); err != nil {
		return err
	}
	out, err := yaml.Dump(plain)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// openStore opens the database for commands that only read intent.
func (g *globals) openStore(ctx context.Context) (*control.Store, func(), error) {
	cfg, err := loadConfig(g.ConfigFile)
	if err != nil {
		return nil, nil, err
	}
	store, err := cfg.openStore(ctx, slog.New(slog.NewTextHandler(g.errOut, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// machineView is a machine as commands print it.
type machineView struct {
	Name           string            `json:"name"`
	ID             string            `json:"id"`
	Cluster        string            `json:"cluster"`
	Role           string            `json:"role"`
	Addresses      []string          `json:"addresses"`
	Port           uint16            `json:"port"`
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
}

func viewMachine(m *control.Machine) machineView {
	v := machineView{
		Name: m.Name, ID: m.ID.String(), Cluster: m.Cluster, Role: m.Role, Port: m.Port, Labels: m.Labels,
		Pinned: m.Pinned(), PinnedAt: m.PinnedAt, NodeID: m.NodeID, TalosClusterID: m.ClusterID, SMBIOS: m.SMBIOS,
		Serial: m.Serial, AppliedActive: m.ActiveDigest, AppliedDisk: m.PersistentDigest,
	}
	v.Addresses = []string{} // a list in JSON, so that a script can walk it
	for _, a := range m.Addresses {
		v.Addresses = append(v.Addresses, a.String())
	}
	if o := m.Observed; o != nil {
		v.Version, v.Stage, v.Type, v.Active, v.Persistent = o.Version, o.Stage, o.Type, o.Active, o.Persistent
		v.ObservedAt = &o.RecordedAt
	}
	return v
}

func (v machineView) fields() [][2]string {
	var labels []string
	for k, val := range v.Labels {
		labels = append(labels, k+"="+val)
	}
	return [][2]string{
		{"name", v.Name},
		{"id", v.ID},
		{"cluster", v.Cluster},
		{"role", v.Role},
		{"addresses", strings.Join(v.Addresses, ",")},
		{"port", fmt.Sprint(v.Port)},
		{"labels", strings.Join(labels, ",")},
		{"pinned", stamp(v.PinnedAt)},
		{"node id", v.NodeID},
		{"talos cluster id", v.TalosClusterID},
		{"smbios", v.SMBIOS},
		{"last applied, active", v.AppliedActive},
		{"last applied, persistent", v.AppliedDisk},
		{"observed", stamp(v.ObservedAt)},
		{"observed version", v.Version},
		{"observed stage", v.Stage},
		{"observed type", v.Type},
		{"observed active", v.Active},
		{"observed persistent", v.Persistent},
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// stamp is a time in the reader's own zone.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// ago is how long ago something was, as kubectl shows ages.
func ago(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	d := time.Since(*t)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
