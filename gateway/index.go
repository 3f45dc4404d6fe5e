package gateway

import (
	"net/netip"

	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
)

// index lets gateway/facts find machines in one snapshot.
type index struct{ snap *control.Snapshot }

func (i index) HasCluster(cluster string) bool {
	for _, m := range i.snap.Machines {
		if m.Cluster == cluster {
			return true
		}
	}
	return false
}

func (i index) ByName(cluster, name string) []string {
	return i.find(cluster, func(m *control.Machine) bool { return m.Name == name })
}

func (i index) ByAddress(cluster string, address netip.Addr) []string {
	return i.find(cluster, func(m *control.Machine) bool {
		for _, a := range m.Addresses {
			if a == address {
				return true
			}
		}
		return false
	})
}

func (i index) Names(cluster string) []string {
	var out []string
	for _, m := range i.snap.Machines {
		if m.Retired == nil && (cluster == "" || m.Cluster == cluster) {
			out = append(out, m.Name)
		}
	}
	return out
}

func (i index) find(cluster string, fits func(*control.Machine) bool) []string {
	var out []string
	for _, m := range i.snap.Machines {
		if (cluster == "" || m.Cluster == cluster) && fits(m) {
			out = append(out, m.ID.String())
		}
	}
	return out
}

// upstreamTarget says where a machine is. Its pinned node id lets the dialer skip an
// address that another machine has taken over.
func upstreamTarget(m *control.Machine) upstream.Target {
	return upstream.Target{Machine: m.ID.String(), Cluster: m.Cluster, Addresses: m.AddrPorts(), NodeID: m.NodeID}
}
