package facts

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"pgregory.net/rapid"

	"bronzeward/fixtures/oracle"
	"bronzeward/policy"
)

func TestChanges(t *testing.T) {
	d := testKeys(t)
	fp := func(s string) string { return d.Fingerprint([]byte(s)) }
	change := func(path, field string, before, after any, reboot bool) policy.ConfigChange {
		return policy.ConfigChange{Document: "v1alpha1", Path: path, Field: field, Before: before, After: after, Reboot: reboot}
	}
	same := func(path string, before, after any, reboot bool) policy.ConfigChange {
		return change(path, path, before, after, reboot)
	}
	base := string(oracle.Base())
	replace := func(from, to string) string {
		if !strings.Contains(base, from) {
			t.Fatalf("the base does not hold %q", from)
		}
		return strings.Replace(base, from, to, 1)
	}
	tests := []struct {
		name  string
		asked string
		want  []policy.ConfigChange
	}{
		{"nothing", "# a comment\n" + base, []policy.ConfigChange{}},
		{"a boolean", replace("wipe: false", "wipe: true"), []policy.ConfigChange{same("machine.install.wipe", false, true, false)}},
		{"a boolean that was absent", replace("debug: false\n", ""), []policy.ConfigChange{same("debug", false, nil, false)}},
		{"a number", replace("port: 7445", "port: 7446"), []policy.ConfigChange{same("machine.features.kubePrism.port", int64(7445), int64(7446), false)}},
		{"a choice on the allow-list", replace("type: worker", "type: controlplane"), []policy.ConfigChange{same("machine.type", "worker", "controlplane", true)}},
		{"an image", replace("installer:v1.13.6", "installer:v1.13.7"), []policy.ConfigChange{
			same("machine.install.image", "ghcr.io/siderolabs/installer:v1.13.6", "ghcr.io/siderolabs/installer:v1.13.7", false),
		}},
		{"an address", replace("- 10.5.0.1", "- 10.5.0.9"), []policy.ConfigChange{
			change("machine.network.nameservers[0]", "machine.network.nameservers", "10.5.0.1", "10.5.0.9", false),
		}},
		{"a token", replace("t3bwuq.wq2pgvthzcz26xoy", "abcdef.0123456789abcdef"), []policy.ConfigChange{
			same("machine.token", fp("t3bwuq.wq2pgvthzcz26xoy"), fp("abcdef.0123456789abcdef"), true),
		}},
		{"an endpoint with a password", replace("https://10.5.0.2:6443", "https://u:pw@10.5.0.2:6443"), []policy.ConfigChange{
			same("cluster.controlPlane.endpoint", "https://10.5.0.2:6443", "https://u:pw@10.5.0.2:6443", false),
		}},
		{"a map key that is no identifier, its value a number", string(with("    sysctls:\n        net.ipv4.ip_forward: \"1\"\n")), []policy.ConfigChange{
			change(`machine.sysctls["net.ipv4.ip_forward"]`, "machine.sysctls", nil, "1", false),
		}},
		{"a sysctl that is a key", string(with("    sysctls:\n        net.ipv4.tcp_fastopen_key: deadbeef-0\n")), []policy.ConfigChange{
			change(`machine.sysctls["net.ipv4.tcp_fastopen_key"]`, "machine.sysctls", nil, fp("deadbeef-0"), false),
		}},
		{"a map key that is an identifier", string(with("    env:\n        FOO: bar\n")), []policy.ConfigChange{
			change("machine.env.FOO", "machine.env", nil, fp("bar"), true),
		}},
		{"a map key that looks like a token", string(with("    nodeLabels:\n        q83vASNFZ4mrze8BI0VniavN7wEjRWeJ: x\n")), []policy.ConfigChange{
			change(fmt.Sprintf("machine.nodeLabels[%q]", fp("q83vASNFZ4mrze8BI0VniavN7wEjRWeJ")), "machine.nodeLabels", nil, "x", false),
		}},
		{"a label value that looks like a token", string(with("    nodeLabels:\n        a: q83vASNFZ4mrze8BI0VniavN7wEjRWeJ\n")), []policy.ConfigChange{
			change("machine.nodeLabels.a", "machine.nodeLabels", nil, fp("q83vASNFZ4mrze8BI0VniavN7wEjRWeJ"), false),
		}},
		{"a file", string(with("    files:\n        - content: s3cret\n          permissions: 0o600\n          path: /var/x\n          op: create\n")), []policy.ConfigChange{
			change("machine.files[0].content", "machine.files.content", nil, fp("s3cret"), true),
			change("machine.files[0].permissions", "machine.files.permissions", nil, "0600", true),
			change("machine.files[0].path", "machine.files.path", nil, "/var/x", true),
			change("machine.files[0].op", "machine.files.op", nil, "create", true),
		}},
		{"an empty list where none was, which a node tells apart", string(with("    files: []\n")), []policy.ConfigChange{
			same("machine.files", nil, []any{}, true),
		}},
		{"an empty block where none was", string(with("    controlPlane: {}\n")), []policy.ConfigChange{
			same("machine.controlPlane", nil, map[string]any{}, false),
		}},
		{"S4: features as a whole", replace("    features:\n        diskQuotaSupport: true\n        kubePrism:\n            enabled: true\n            port: 7445\n        hostDNS:\n            enabled: true\n            forwardKubeDNSToHost: true\n", ""), []policy.ConfigChange{
			same("machine.features.diskQuotaSupport", true, nil, true),
			same("machine.features.kubePrism.enabled", true, nil, false),
			same("machine.features.kubePrism.port", int64(7445), nil, false),
			same("machine.features.hostDNS.enabled", true, nil, false),
			same("machine.features.hostDNS.forwardKubeDNSToHost", true, nil, false),
			same("machine.features", map[string]any{}, nil, true),
		}},
		{"free-form content is one value", string(with("    pods:\n        - a: b\n          c: [d]\n")), []policy.ConfigChange{
			change("machine.pods[0]", "machine.pods", nil, fp("a: b\nc:\n    - d\n"), false),
		}},
		{"a document that goes", strings.TrimSuffix(base[:strings.Index(base, "---\n")], "---\n"), []policy.ConfigChange{
			{Document: "HostnameConfig", Path: "apiVersion", Field: "apiVersion", Before: "v1alpha1"},
			{Document: "HostnameConfig", Path: "kind", Field: "kind", Before: "HostnameConfig"},
			{Document: "HostnameConfig", Path: "auto", Field: "auto", Before: "stable"},
		}},
		{"a document that comes", base + "---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: out\nurl: tcp://u:tok3n@10.0.0.9:5000/\n", []policy.ConfigChange{
			{Document: "KmsgLogConfig/out", Path: "apiVersion", Field: "apiVersion", After: "v1alpha1"},
			{Document: "KmsgLogConfig/out", Path: "kind", Field: "kind", After: "KmsgLogConfig"},
			{Document: "KmsgLogConfig/out", Path: "name", Field: "name", After: "out"},
			{Document: "KmsgLogConfig/out", Path: "url", Field: "url", After: "tcp://10.0.0.9:5000/" + fp("tcp://u:tok3n@10.0.0.9:5000/")},
		}},
	}
	// An endpoint's user and password are hidden as a log destination's are.
	for i := range tests {
		if tests[i].name == "an endpoint with a password" {
			tests[i].want[0].After = "https://10.5.0.2:6443/" + fp("https://u:pw@10.5.0.2:6443")
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := read(t, []byte(test.asked))
			if diff := cmp.Diff(test.want, got.Changes); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestDocumentsAreNamed(t *testing.T) {
	got := read(t, []byte(string(oracle.Base())+"---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: out\nurl: tcp://10.0.0.9:5000/\n"))
	want := []policy.Document{
		{APIVersion: "v1alpha1", Kind: "v1alpha1"},
		{APIVersion: "v1alpha1", Kind: "HostnameConfig"},
		{APIVersion: "v1alpha1", Kind: "KmsgLogConfig", Name: "out"},
	}
	if diff := cmp.Diff(want, got.Documents); diff != "" {
		t.Fatal(diff)
	}
}

func TestCollectionsAboveTheLimitAreListed(t *testing.T) {
	var labels, pods strings.Builder
	labels.WriteString("    nodeAnnotations:\n")
	pods.WriteString("    pods:\n        - spec:\n            list:\n")
	for i := range MaxEntries + 1 {
		fmt.Fprintf(&labels, "        a%d: b\n", i)
		fmt.Fprintf(&pods, "                - x%d\n", i)
	}
	got := read(t, with(labels.String()+pods.String())).Collections
	want := []policy.Collection{
		{Document: "v1alpha1", Field: "machine.nodeAnnotations", Entries: MaxEntries + 1},
		{Document: "v1alpha1", Field: "machine.pods", Entries: MaxEntries + 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	fewer := strings.Replace(labels.String(), "        a0: b\n", "", 1)
	if got := read(t, with(fewer)).Collections; len(got) != 0 {
		t.Fatalf("%d entries are listed: %v", MaxEntries, got)
	}
}

func TestMoreChangesThanThePolicyIsGivenAreAProblem(t *testing.T) {
	var lines strings.Builder
	for block := range 5 {
		fmt.Fprintf(&lines, "    %s:\n", []string{"sysctls", "sysfs", "env", "nodeAnnotations", "nodeLabels"}[block])
		for i := range 2_100 {
			fmt.Fprintf(&lines, "        k%d: v\n", i)
		}
	}
	got := read(t, with(lines.String()))
	if len(got.Changes) != MaxChanges || len(got.Problems) != 1 || got.Problems[0].Kind != "too-large" {
		t.Fatalf("%d changes, problems %+v", len(got.Changes), got.Problems)
	}
}

// reference decides as the node does (TALOS.md S4): the allowed parts are made equal
// and the rest is compared. The list is read from its source elsewhere.
func reference(current, next *v1alpha1.Config) bool {
	next = next.DeepCopy()
	next.ConfigDebug, next.ClusterConfig = current.ConfigDebug, current.ClusterConfig
	if next.MachineConfig != nil && current.MachineConfig != nil {
		from, to := reflect.ValueOf(current.MachineConfig).Elem(), reflect.ValueOf(next.MachineConfig).Elem()
		for i := range from.NumField() {
			name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("yaml"), ",")
			if slices.Contains(immediate(), "machine."+name) {
				to.Field(i).Set(from.Field(i))
			}
		}
		if next.MachineConfig.MachineFeatures != nil && current.MachineConfig.MachineFeatures != nil {
			from, to := reflect.ValueOf(current.MachineConfig.MachineFeatures).Elem(), reflect.ValueOf(next.MachineConfig.MachineFeatures).Elem()
			for i := range from.NumField() {
				name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("yaml"), ",")
				if slices.Contains(immediate(), "machine.features."+name) {
					to.Field(i).Set(from.Field(i))
				}
			}
		}
	}
	return reflect.DeepEqual(current, next)
}

// Whatever differs, the changes need a reboot exactly when the node would say so.
func TestRebootAgreesWithTheNodesComparison(t *testing.T) {
	reader := &Reader{digester: testKeys(t)}
	load := func() *parsed {
		p, problems := reader.load(context.Background(), oracle.Base())
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return p
	}
	rapid.Check(t, func(t *rapid.T) {
		current, next := load(), load()
		for _, p := range []*parsed{current, next} {
			for range rapid.IntRange(0, 3).Draw(t, "edits") {
				edit(t, reflect.ValueOf(p.main).Elem(), 0)
			}
		}
		changes, err := changesOf(context.Background(), viewer{digester: reader.digester}, current, next)
		if err != nil {
			t.Fatal(err)
		}
		if (len(changes) == 0) != reflect.DeepEqual(current.main, next.main) {
			t.Fatalf("deep equality and %d changes disagree: %+v", len(changes), changes)
		}
		reboot := slices.ContainsFunc(changes, func(c policy.ConfigChange) bool { return c.Reboot })
		if reboot == reference(current.main, next.main) {
			t.Fatalf("reboot is %t: %+v", reboot, changes)
		}
	})
}

// edit changes one random part of a value: sets it, clears it, or goes into it.
func edit(t *rapid.T, v reflect.Value, depth int) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			return
		}
		if depth > 0 && rapid.Bool().Draw(t, "clear") {
			v.SetZero()
			return
		}
		if v.Type().Elem().Kind() == reflect.Struct && !writesItself(v.Type().Elem()) {
			edit(t, v.Elem(), depth+1)
		}
	case reflect.Struct:
		if shapeOf(v.Type()) != record || v.NumField() == 0 {
			return
		}
		edit(t, v.Field(rapid.IntRange(0, v.NumField()-1).Draw(t, "field")), depth+1)
	case reflect.Slice:
		if v.IsNil() || v.Len() > 0 {
			v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 1).Draw(t, "length"), 1))
		} else {
			v.SetZero()
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		} else {
			v.SetZero()
		}
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	}
}

var _ config.Document = (*v1alpha1.Config)(nil)
