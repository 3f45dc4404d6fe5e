package facts

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machines is an Index for tests: two clusters, two machines of one name.
type machines []testMachine

type testMachine struct {
	id, name, cluster string
	addresses         []string
}

func testMachines() machines {
	return machines{
		{"m1", "worker-1", "lab", []string{"10.5.0.3", "fd00::3"}},
		{"m2", "worker-2", "lab", []string{"10.5.0.4"}},
		{"m3", "worker-1", "prod", []string{"192.0.2.3"}},
		{"m4", "twin", "prod", []string{"10.5.0.4"}}, // an address of another cluster
	}
}

func (ms machines) find(cluster string, fits func(testMachine) bool) []string {
	var out []string
	for _, m := range ms {
		if (cluster == "" || m.cluster == cluster) && fits(m) {
			out = append(out, m.id)
		}
	}
	return out
}

func (ms machines) HasCluster(c string) bool {
	return len(ms.find(c, func(testMachine) bool { return true })) > 0
}

func (ms machines) ByName(c, name string) []string {
	return ms.find(c, func(m testMachine) bool { return m.name == name })
}

func (ms machines) ByAddress(c string, a netip.Addr) []string {
	return ms.find(c, func(m testMachine) bool { return slices.Contains(m.addresses, a.String()) })
}

func (ms machines) Names(c string) []string {
	var out []string
	for _, m := range ms {
		if c == "" || m.cluster == c {
			out = append(out, m.name)
		}
	}
	return out
}

func TestResolve(t *testing.T) {
	const version, get, apply, reboot = "/machine.MachineService/Version", "/cosi.resource.State/Get", applyMethod, "/machine.MachineService/Reboot"
	many := make([]string, 65)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	tests := []struct {
		name   string
		method string
		md     map[string][]string
		want   []Target
		reason Reason
	}{
		{"U09: one of nodes", apply, md("nodes", "10.5.0.3"), []Target{{"10.5.0.3", "m1"}}, ""},
		{"U09: node", apply, md("node", "10.5.0.3"), []Target{{"10.5.0.3", "m1"}}, ""},
		{"U08: none", apply, md("context", "lab"), nil, ReasonTargetNone},
		{"U08: an empty node", apply, md("node", ""), nil, ReasonTargetNone},
		{"U08: empty nodes", apply, md("nodes", " , ,"), nil, ReasonTargetNone},
		{"none, for a read too", version, nil, nil, ReasonTargetNone},
		{"U08: node and nodes, of one machine", version, md("node", "10.5.0.3", "nodes", "10.5.0.3"), nil, ReasonTargetForm},
		{"U08: an empty node beside nodes", version, md("node", "", "nodes", "10.5.0.3"), nil, ReasonTargetForm},
		{"R2: two node values", version, md("node", "10.5.0.3", "node", "10.5.0.3"), nil, ReasonTargetForm},
		{"R2: two names in one node value", version, md("node", "10.5.0.3,fd00::3"), nil, ReasonTargetForm},
		{"fan-out of a read", version, md("context", "lab", "nodes", "worker-1", "nodes", "10.5.0.4"), []Target{{"worker-1", "m1"}, {"10.5.0.4", "m2"}}, ""},
		{"nodes with commas and spaces", version, md("context", "lab", "nodes", " worker-1 ,\tworker-2,"), []Target{{"worker-1", "m1"}, {"worker-2", "m2"}}, ""},
		{
			"U09: one machine in five spellings", apply, md("context", "lab", "nodes", "worker-1", "nodes", "10.5.0.3", "nodes", "::ffff:10.5.0.3", "nodes", "[FD00::0003]", "nodes", "WORKER-1."),
			[]Target{{"worker-1", "m1"}},
			"",
		},
		{"R3: nodes of one machine where apid wants node", get, md("nodes", "10.5.0.3"), []Target{{"10.5.0.3", "m1"}}, ""},
		{"R3: nodes of two where apid wants node", get, md("context", "lab", "nodes", "worker-1", "nodes", "worker-2"), nil, ReasonTargetForm},
		{"U07: an apply to two", apply, md("context", "lab", "nodes", "worker-1", "nodes", "worker-2"), nil, ReasonTargetMany},
		{"a reboot of two", reboot, md("context", "lab", "nodes", "worker-1,worker-2"), nil, ReasonTargetMany},
		{"an unknown machine among known ones", version, md("nodes", "10.5.0.3", "nodes", "10.9.9.9"), nil, ReasonTargetUnknown},
		{"U02: a known cluster narrows a name", version, md("context", "prod", "nodes", "worker-1"), []Target{{"worker-1", "m3"}}, ""},
		{"a name of two clusters without a context", version, md("nodes", "worker-1"), nil, ReasonTargetAmbig},
		{"an address of two clusters without a context", version, md("nodes", "10.5.0.4"), nil, ReasonTargetAmbig},
		{"R8: an unknown cluster", version, md("context", "other", "nodes", "10.5.0.3"), nil, ReasonClusterUnknown},
		{"a machine of another cluster", version, md("context", "prod", "nodes", "10.5.0.3"), nil, ReasonTargetUnknown},
		{"two contexts", version, md("context", "lab", "context", "prod", "nodes", "10.5.0.3"), nil, ReasonMetadata},
		{"one context twice", version, md("context", "lab", "context", "lab", "nodes", "10.5.0.3"), []Target{{"10.5.0.3", "m1"}}, ""},
		{"R1, R5: keys that have no effect", version, md("nodes", "10.5.0.3", "proxyfrom", "x", "talos-role", "os:admin", "authorization", "\x00"), []Target{{"10.5.0.3", "m1"}}, ""},
		{"a zone", version, md("nodes", "fe80::1%eth0"), nil, ReasonTargetUnknown},
		{"a port on IPv4", version, md("nodes", "10.5.0.3:50000"), nil, ReasonTargetUnknown},
		{"a port on IPv6", version, md("nodes", "[fd00::3]:50000"), nil, ReasonTargetUnknown},
		{"a port on a name", version, md("nodes", "worker-1:50000"), nil, ReasonTargetUnknown},
		{"a bracket that is not closed", version, md("nodes", "[fd00::3"), nil, ReasonTargetUnknown},
		{"IPv4 with leading zeros", version, md("nodes", "010.005.000.003"), nil, ReasonTargetUnknown},
		{"IPv4 as one number", version, md("nodes", "168099843"), nil, ReasonTargetUnknown},
		{"a URL", version, md("nodes", "https://worker-1/"), nil, ReasonTargetUnknown},
		{"a NUL", version, md("nodes", "worker\x00-1"), nil, ReasonMetadata},
		{"a line break, which would write log lines", version, md("nodes", "a\nlevel=INFO"), nil, ReasonMetadata},
		{"an escape sequence of a terminal", version, md("nodes", "\x1b[2Jx"), nil, ReasonMetadata},
		{"bad UTF-8", version, md("nodes", "\xff\xfe"), nil, ReasonMetadata},
		{"letters that look like others", version, md("nodes", "w\u043erker-1"), nil, ReasonMetadata},
		{"a context with a NUL", version, md("context", "la\x00b", "nodes", "10.5.0.3"), nil, ReasonMetadata},
		{"a name of 254 bytes", version, md("nodes", strings.Repeat("a", 254)), nil, ReasonMetadata},
		{"17 KiB of names", version, md("nodes", strings.Repeat("a,", 9<<10)), nil, ReasonMetadata},
		{"65 unknown machines", version, map[string][]string{"nodes": many}, nil, ReasonTargetUnknown},
		{"300 spellings", version, map[string][]string{"nodes": spell(300)}, nil, ReasonTargetMany},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := resolveMD(row(t, test.method), test.md, testMachines())
			var refusal *Refusal
			if errors.As(err, &refusal) {
				if refusal.Reason != test.reason {
					t.Fatalf("got %s (%s), want %q", refusal.Reason, refusal.Message, test.reason)
				}
				if strings.ContainsFunc(refusal.Message+refusal.Hint, func(r rune) bool { return control(r) || r == '\n' }) {
					t.Fatalf("the refusal holds control characters: %q", refusal.Message)
				}
				return
			}
			if err != nil || test.reason != "" {
				t.Fatalf("got %v, %v; want %q", got, err, test.reason)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func md(pairs ...string) map[string][]string {
	out := map[string][]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = append(out[pairs[i]], pairs[i+1])
	}
	return out
}

func spell(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()
	}
	return out
}

func resolveMD(m Method, md map[string][]string, idx Index) ([]Target, error) {
	targets, err := ParseTargets(md)
	if err != nil {
		return nil, err
	}
	return Resolve(m, targets, idx)
}

func TestAHundredTargetsAreTooMany(t *testing.T) {
	var ms machines
	for _, address := range spell(100) {
		ms = append(ms, testMachine{id: address, name: address, cluster: "lab", addresses: []string{address}})
	}
	_, err := resolveMD(row(t, "/machine.MachineService/Version"), map[string][]string{"nodes": spell(100)}, ms)
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != ReasonTargetMany {
		t.Fatalf("got %v", err)
	}
	got, err := resolveMD(row(t, "/machine.MachineService/Version"), map[string][]string{"nodes": spell(64)}, ms)
	if err != nil || len(got) != 64 {
		t.Fatalf("64 targets: %d, %v", len(got), err)
	}
}

func TestRefusalsNameTheMachineAndWhatWouldHelp(t *testing.T) {
	_, err := resolveMD(row(t, applyMethod), md("context", "lab", "nodes", "worker-9"), testMachines())
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	want := Refusal{
		Reason: ReasonTargetUnknown, Message: `machine "worker-9" is not known in cluster "lab"`,
		Hint: "talosctl -n MACHINE …, where MACHINE is one of worker-1, worker-2",
	}
	if diff := cmp.Diff(want, *refusal); diff != "" {
		t.Fatal(diff)
	}
}

func FuzzParseTargets(f *testing.F) {
	f.Add("worker-1", "10.5.0.3,[fd00::3]", "lab")
	f.Add("::ffff:10.5.0.3", "", "")
	f.Add("\x00", "\xff", "a,b")
	f.Fuzz(func(t *testing.T, node, nodes, context string) {
		in := map[string][]string{}
		for key, value := range map[string]string{"node": node, "nodes": nodes, "context": context} {
			if value != "" {
				in[key] = []string{value}
			}
		}
		got, err := resolveMD(row(t, applyMethod), in, testMachines())
		if err != nil {
			var refusal *Refusal
			if !errors.As(err, &refusal) || strings.ContainsFunc(refusal.Message+refusal.Hint, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Fatalf("not a refusal fit to print: %q", err)
			}
			return
		}
		if len(got) != 1 {
			t.Fatalf("an apply goes to %d machines: %v", len(got), got)
		}
	})
}
