package facts

import (
	"net/netip"
	"slices"
	"strings"
)

// Index finds machines. The gateway's snapshot implements it; every method is a read
// of one immutable state and safe for concurrent use. A cluster of "" means any.
type Index interface {
	// HasCluster says whether any machine belongs to the cluster.
	HasCluster(cluster string) bool
	// ByName finds the ids of machines whose name is exactly name in lower case.
	ByName(cluster, name string) []string
	// ByAddress finds the ids of machines with the address, which is never IPv4-mapped.
	ByAddress(cluster string, address netip.Addr) []string
	// Names lists machine names for hints.
	Names(cluster string) []string
}

// Target is one machine a Call names.
type Target struct {
	// Spelled is how the caller spelled it first: answers carry it as their hostname.
	Spelled string
	// Machine is the id the Index gave.
	Machine string
}

// Resolve finds the distinct machines a Call of method m names, in the order they were
// named. Two spellings of one machine are one target. Errors are *Refusal:
//
//   - no machine named; the node talosctl talks to is the gateway, so there is no default
//   - a cluster, name or address nobody has added, or one that fits two machines
//   - `nodes` for a method apid answers for one node only, unless it names one machine
//   - more than one machine for a method that changes something
func Resolve(m Method, t Targets, idx Index) ([]Target, error) {
	if t.Cluster != "" && !idx.HasCluster(t.Cluster) {
		return nil, refuse(ReasonClusterUnknown, "cluster %s is not known here", escape(t.Cluster)).
			hint("set \"cluster\" in the talosconfig to the name the machines were added with, or leave it out")
	}
	if len(t.Names) == 0 {
		return nil, refuse(ReasonTargetNone, "the call names no machine").hint("%s", nameOne(idx.Names(t.Cluster)))
	}

	out := make([]Target, 0, len(t.Names))
	for _, spelled := range t.Names {
		id, err := resolveOne(spelled, t.Cluster, idx)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(known Target) bool { return known.Machine == id }) {
			out = append(out, Target{Spelled: spelled, Machine: id})
		}
	}

	switch {
	case len(out) > 1 && m.Mutates():
		return nil, refuse(ReasonTargetMany, "the call changes something and names %d machines (%s); it must name one",
			len(out), spellings(out)).hint("talosctl -n %s …", out[0].Spelled)
	case len(out) > 1 && !m.Nodes:
		return nil, refuse(ReasonTargetForm, "%s answers for one machine, and the call names %d (%s)",
			m.Name, len(out), spellings(out)).hint("talosctl -n %s …", out[0].Spelled)
	case len(out) > maxTargets:
		return nil, refuse(ReasonTargetMany, "the call names %d machines, more than the %d allowed", len(out), maxTargets)
	}
	return out, nil
}

func resolveOne(spelled, cluster string, idx Index) (string, error) {
	found, err := lookup(spelled, cluster, idx)
	if err != nil {
		return "", err
	}
	slices.Sort(found)
	found = slices.Compact(found)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		in := ""
		if cluster != "" {
			in = " in cluster " + escape(cluster)
		}
		return "", refuse(ReasonTargetUnknown, "machine %s is not known%s", escape(spelled), in).
			hint("%s", nameOne(idx.Names(cluster)))
	default:
		return "", refuse(ReasonTargetAmbig, "%s fits %d machines", escape(spelled), len(found)).
			hint("name the machine, or set \"cluster\" in the talosconfig")
	}
}

// lookup finds the machines a spelling fits: an address in any notation, or a name in
// any case with or without the final dot.
func lookup(spelled, cluster string, idx Index) ([]string, error) {
	text := spelled
	if inner, ok := strings.CutPrefix(text, "["); ok {
		closed, rest, ok := strings.Cut(inner, "]")
		if !ok {
			return nil, refuse(ReasonTargetUnknown, "%s is neither a name nor an address", escape(spelled))
		}
		if rest != "" {
			return nil, withPort(spelled)
		}
		text = closed
	}
	if address, err := netip.ParseAddr(text); err == nil {
		if address.Zone() != "" {
			return nil, refuse(ReasonTargetUnknown, "%s has a zone, which means something only on the machine that wrote it", escape(spelled)).
				hint("name the machine, or an address of it that is routed")
		}
		return idx.ByAddress(cluster, address.Unmap()), nil
	}
	if _, err := netip.ParseAddrPort(text); err == nil {
		return nil, withPort(spelled)
	}
	if strings.ContainsAny(text, ":[]/@%") {
		if name, port, ok := strings.Cut(text, ":"); ok && name != "" && strings.Trim(port, "0123456789") == "" {
			return nil, withPort(spelled)
		}
		return nil, refuse(ReasonTargetUnknown, "%s is neither a name nor an address", escape(spelled))
	}
	return idx.ByName(cluster, strings.ToLower(strings.TrimSuffix(text, "."))), nil
}

func withPort(spelled string) error {
	return refuse(ReasonTargetUnknown, "%s has a port; machines are named without one", escape(spelled)).
		hint("talosctl -n MACHINE … (a port belongs to the endpoint, -e)")
}

// shownNames is how many names a hint lists.
const shownNames = 8

func nameOne(names []string) string {
	if len(names) == 0 {
		return "bronzeward machines add …"
	}
	sorted := slices.Sorted(slices.Values(names))
	more := ""
	if len(sorted) > shownNames {
		sorted, more = sorted[:shownNames], ", …"
	}
	return "talosctl -n MACHINE …, where MACHINE is one of " + strings.Join(sorted, ", ") + more
}

func spellings(targets []Target) string {
	var out []string
	for i, t := range targets {
		if i == shownNames {
			out = append(out, "…")
			break
		}
		out = append(out, t.Spelled)
	}
	return strings.Join(out, ", ")
}
