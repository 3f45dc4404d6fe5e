package control

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// DefaultPort is apid's port.
const DefaultPort = 50000

// Machine is one Talos node as the house knows it.
type Machine struct {
	ID      uuid.UUID
	Name    string
	Cluster string
	// Role is the role it is expected to have: "worker" or "controlplane".
	Role string
	// Addresses are unmapped, without zone, in order of preference; each is one machine's
	// in all clusters.
	Addresses []netip.Addr
	Port      uint16
	Labels    map[string]string
	// Identity is what the row is pinned to; zero until PinnedAt is set.
	Identity
	PinnedAt *time.Time
	// Serial moves when an attempt opens or closes, and when addresses or the pin change.
	Serial int64
	// ActiveDigest and PersistentDigest are those of the last apply known to have landed;
	// empty before the first.
	ActiveDigest     string
	PersistentDigest string
	// Observed is the last recorded observation, null before the first.
	Observed *Observed
	// Frozen is the freeze that stands, null without; Lifted in it is null.
	Frozen *Freeze
	// Retired says that the machine never comes back; null while it is in service.
	Retired *Retirement
}

// Holds are what closes the machine's scope besides attempts: a freeze, a retirement.
func (m *Machine) Holds() (out []policy.Hold) {
	if m.Retired != nil {
		out = append(out, m.Retired.Hold())
	}
	if m.Frozen != nil {
		out = append(out, m.Frozen.Hold())
	}
	return out
}

// Staged says whether another configuration than the active one was on the machine's disk when it
// was read: the next reboot would bring that. Null while it was never read, or the two digests
// cannot be compared.
func (o *Observed) Staged() *bool {
	if o == nil || o.Active == "" || o.Persistent == "" || scheme(o.Active) != scheme(o.Persistent) {
		return nil
	}
	return new(o.Active != o.Persistent)
}

// InService refuses what cannot be done to a machine that is retired.
func (m *Machine) InService(doing string) error {
	if m.Retired == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w: %s", doing, m.Name, ErrRetired, m.Retired.Text())
}

// Identity is what tells one Talos node from another.
type Identity struct {
	NodeID    string
	ClusterID string
	// SMBIOS is empty where the platform has none.
	SMBIOS string
}

// Pinned is true once an identity has been fixed to the row.
func (m *Machine) Pinned() bool { return m.PinnedAt != nil }

// AddrPorts are the addresses with the machine's port.
func (m *Machine) AddrPorts() []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(m.Addresses))
	for _, a := range m.Addresses {
		out = append(out, netip.AddrPortFrom(a, m.Port))
	}
	return out
}

// NewMachine is what a person says about a machine when adding it.
type NewMachine struct {
	Name      string
	Cluster   string
	Role      string // "worker" when empty
	Addresses []netip.Addr
	Port      uint16 // DefaultPort when zero
	Labels    map[string]string
}

var (
	machineName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	labelKey    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)
)

const (
	maxAddresses  = 16
	maxLabels     = 64
	maxLabelValue = 256
)

// normalize gives the canonical form of n, or every problem with it joined.
func (n NewMachine) normalize() (NewMachine, error) {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("machine %q: "+format, append([]any{clip(n.Name)}, args...)...))
	}
	if !machineName.MatchString(n.Name) {
		bad("a name is lower-case letters, digits, dots and dashes, at most 253")
	} else if _, err := netip.ParseAddr(n.Name); err == nil {
		bad("a name must not read as an address")
	}
	if !clusterName.MatchString(n.Cluster) {
		bad("cluster %q: lower-case letters, digits, dots, dashes and underscores, at most 63", clip(n.Cluster))
	}
	if n.Role == "" {
		n.Role = "worker"
	}
	if n.Role != "worker" && n.Role != "controlplane" {
		bad("role %q: must be worker or controlplane", clip(n.Role))
	}
	if n.Port == 0 {
		n.Port = DefaultPort
	}
	addresses, err := canonicalAddresses(n.Addresses)
	if err != nil {
		bad("%w", err)
	}
	n.Addresses = addresses
	if err := checkLabels(n.Labels); err != nil {
		bad("%w", err)
	}
	return n, errors.Join(problems...)
}

// canonicalAddresses unmaps, and refuses what cannot be one machine's address.
func canonicalAddresses(in []netip.Addr) ([]netip.Addr, error) {
	var problems []error
	if len(in) == 0 || len(in) > maxAddresses {
		problems = append(problems, fmt.Errorf("1 to %d addresses, not %d", maxAddresses, len(in)))
	}
	out := make([]netip.Addr, 0, len(in))
	for _, a := range in {
		a = a.Unmap()
		switch {
		case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			problems = append(problems, fmt.Errorf("address %s is not one machine's", a))
		case a.Zone() != "":
			problems = append(problems, fmt.Errorf("address %s has a zone, which means something on one host only", a))
		case slices.Contains(out, a):
			problems = append(problems, fmt.Errorf("address %s is given twice", a))
		default:
			out = append(out, a)
		}
	}
	return out, errors.Join(problems...)
}

func checkLabels(labels map[string]string) error {
	var problems []error
	if len(labels) > maxLabels {
		problems = append(problems, fmt.Errorf("%d labels: at most %d", len(labels), maxLabels))
	}
	for k, v := range labels {
		if !labelKey.MatchString(k) || len(v) > maxLabelValue || !printable(v) {
			problems = append(problems, fmt.Errorf("label %q: keys are letters, digits, ._/-, values at most %d printable bytes",
				clip(k), maxLabelValue))
		}
	}
	return errors.Join(problems...)
}

// printable is true for valid UTF-8 without control characters.
func printable(s string) bool {
	for _, r := range s {
		if r < 0x20 || r == 0x7f || r == '\uFFFD' {
			return false
		}
	}
	return true
}

// clip keeps a stranger's text short in an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
