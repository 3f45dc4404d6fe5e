package facts

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"bronzeward/policy"
)

const applyMethod = "/machine.MachineService/ApplyConfiguration"

func row(t testing.TB, name string) Method {
	t.Helper()
	m, ok := Lookup(name)
	if !ok {
		t.Fatalf("no row for %s", name)
	}
	return m
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	out, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func bytesField(n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), value)
}

func varintField(n protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), value)
}

func TestParseApply(t *testing.T) {
	data := []byte("version: v1alpha1\n")
	tests := []struct {
		name string
		in   []byte
		want ApplyRequest
	}{
		{
			"no-reboot", marshal(t, &machine.ApplyConfigurationRequest{Data: data, Mode: machine.ApplyConfigurationRequest_NO_REBOOT}),
			ApplyRequest{Data: data, Mode: "no-reboot", ModeGiven: true},
		},
		{
			"an absent mode is reboot and not given", marshal(t, &machine.ApplyConfigurationRequest{Data: data}),
			ApplyRequest{Data: data, Mode: "reboot"},
		},
		{
			"a mode of zero is given", append(bytesField(1, data), varintField(4, 0)...),
			ApplyRequest{Data: data, Mode: "reboot", ModeGiven: true},
		},
		{
			"auto, dry", marshal(t, &machine.ApplyConfigurationRequest{Data: data, Mode: machine.ApplyConfigurationRequest_AUTO, DryRun: true}),
			ApplyRequest{Data: data, Mode: "auto", ModeGiven: true, DryRun: true},
		},
		{
			"staged", marshal(t, &machine.ApplyConfigurationRequest{Data: data, Mode: machine.ApplyConfigurationRequest_STAGED}),
			ApplyRequest{Data: data, Mode: "staged", ModeGiven: true},
		},
		{"try, its time rounded up", marshal(t, &machine.ApplyConfigurationRequest{
			Data: data, Mode: machine.ApplyConfigurationRequest_TRY, TryModeTimeout: &durationpb.Duration{Seconds: 60, Nanos: 1},
		}), ApplyRequest{Data: data, Mode: "try", ModeGiven: true, TryTimeoutSeconds: 61}},
		{"the rollback time talosctl always sends means nothing outside try", marshal(t, &machine.ApplyConfigurationRequest{
			Data: data, Mode: machine.ApplyConfigurationRequest_NO_REBOOT, TryModeTimeout: &durationpb.Duration{Seconds: 60},
		}), ApplyRequest{Data: data, Mode: "no-reboot", ModeGiven: true}},
		{
			"a varint longer than needed", append(bytesField(1, data), append(protowire.AppendTag(nil, 4, protowire.VarintType), 0x82, 0x80, 0x00)...),
			ApplyRequest{Data: data, Mode: "no-reboot", ModeGiven: true},
		},
		{
			"fields in any order", append(varintField(5, 1), append(varintField(4, 2), bytesField(1, data)...)...),
			ApplyRequest{Data: data, Mode: "no-reboot", ModeGiven: true, DryRun: true},
		},
		{"an empty request", nil, ApplyRequest{Mode: "reboot"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseCall(row(t, applyMethod), test.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got.Apply); diff != "" {
				t.Fatal(diff)
			}
			want := policy.Call{
				Method: applyMethod, Class: policy.ClassApply, Size: len(test.in),
				Mode: test.want.Mode, ModeGiven: test.want.ModeGiven, DryRun: test.want.DryRun, TryTimeoutSeconds: test.want.TryTimeoutSeconds,
			}
			if diff := cmp.Diff(want, got.Call); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestParsedDataIsTheMessageItself(t *testing.T) {
	message := bytesField(1, []byte("abc"))
	got, err := ParseCall(row(t, applyMethod), message)
	if err != nil {
		t.Fatal(err)
	}
	message[len(message)-1] = 'X'
	if string(got.Apply.Data) != "abX" {
		t.Fatalf("the data is a copy: %q", got.Apply.Data)
	}
}

func TestParseCallRefuses(t *testing.T) {
	data := bytesField(1, []byte("x"))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	noReboot := varintField(4, 2)
	const reboot, list = "/machine.MachineService/Reboot", "/cosi.resource.State/List"
	tests := []struct {
		name   string
		method string
		in     []byte
		want   Reason
	}{
		{"S19: data twice, the last would win", applyMethod, join(data, bytesField(1, []byte("y")), noReboot), ReasonRepeatedField},
		{"S19: the very same data twice", applyMethod, join(data, data, noReboot), ReasonRepeatedField},
		{"mode twice", applyMethod, join(data, varintField(4, 2), varintField(4, 0)), ReasonRepeatedField},
		{"dry-run twice", applyMethod, join(data, noReboot, varintField(5, 1), varintField(5, 0)), ReasonRepeatedField},
		{"try timeout twice, which would be merged", applyMethod, join(data, noReboot, bytesField(6, varintField(1, 1)), bytesField(6, varintField(2, 1))), ReasonRepeatedField},
		{"S19: field 2, on_reboot of old nodes", applyMethod, join(data, varintField(2, 1), noReboot), ReasonUnknownField},
		{"S19: field 3, immediate of old nodes", applyMethod, join(data, varintField(3, 1), noReboot), ReasonUnknownField},
		{"a field nobody has", applyMethod, join(data, noReboot, bytesField(5000, nil)), ReasonUnknownField},
		{"an unknown field inside the timeout", applyMethod, join(data, noReboot, bytesField(6, varintField(9, 1))), ReasonUnknownField},
		{"a group", applyMethod, join(data, noReboot, protowire.AppendTag(nil, 9, protowire.StartGroupType), protowire.AppendTag(nil, 9, protowire.EndGroupType)), ReasonUnknownField},
		{"mode 5", applyMethod, join(data, varintField(4, 5)), ReasonMode},
		{"mode -1", applyMethod, join(data, varintField(4, ^uint64(0))), ReasonMode},
		{"a mode some decoders cut to no-reboot", applyMethod, join(data, varintField(4, 1<<32|2)), ReasonMalformed},
		{"a mode as text", applyMethod, join(data, bytesField(4, []byte{2})), ReasonMalformed},
		{"a dry-run of 2", applyMethod, join(data, noReboot, varintField(5, 2)), ReasonMalformed},
		{"a negative rollback time", applyMethod, join(data, varintField(4, 4), bytesField(6, varintField(1, ^uint64(0)))), ReasonMalformed},
		{"a rollback time past the end of time", applyMethod, join(data, varintField(4, 4), bytesField(6, varintField(1, 1<<62))), ReasonMalformed},
		{"two billion nanoseconds", applyMethod, join(data, varintField(4, 4), bytesField(6, varintField(2, 2_000_000_000))), ReasonMalformed},
		{"a cut message", applyMethod, join(data, noReboot)[:4], ReasonMalformed},
		{"a length past the end", applyMethod, []byte{0x0a, 0x7f, 'x'}, ReasonMalformed},
		{"a varint without an end", applyMethod, bytes.Repeat([]byte{0x80}, 20), ReasonMalformed},
		{"field number zero", applyMethod, []byte{0x00, 0x01}, ReasonMalformed},
		{"a reboot with a field it does not have", reboot, varintField(9, 1), ReasonUnknownField},
		{"a reboot with its mode twice", reboot, join(varintField(1, 0), varintField(1, 1)), ReasonRepeatedField},
		{"a Version with a body, of the wrong kind, is unknown to a read and let be only if framed", "/machine.MachineService/Version", []byte{0x0a, 0x05}, ReasonMalformed},
		{"a resource type twice", list, join(bytesField(2, []byte("Members.cluster.talos.dev")), bytesField(2, []byte(machineConfigType))), ReasonRepeatedField},
		{"a resource type that is not UTF-8", list, bytesField(2, []byte{0xff}), ReasonMalformed},
		{"random bytes as a list", list, []byte("\x13\x37random"), ReasonMalformed},
		{"an upload", "/machine.MachineService/EtcdRecover", nil, ReasonUnsupported},
		{"a bidirectional stream", "/machine.DebugService/ContainerRun", nil, ReasonUnsupported},
		{"a method of 1.14", "/machine.MDService/Destroy", nil, ReasonUnsupported},
		{"one byte over the limit", applyMethod, bytesField(1, make([]byte, MaxMessage-4)), ReasonTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseCall(row(t, test.method), test.in)
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("got %+v, %v; want a refusal", got.Call, err)
			}
			if refusal.Reason != test.want {
				t.Fatalf("got %s (%s), want %s", refusal.Reason, refusal.Message, test.want)
			}
		})
	}
}

func TestParseCallTakesMessagesUpToTheLimit(t *testing.T) {
	for _, size := range []int{4<<20 - 1, 4<<20 + 1, MaxMessage} {
		payload := make([]byte, size)
		message := bytesField(1, payload)
		message = bytesField(1, payload[:len(payload)-(len(message)-size)])
		if len(message) != size {
			t.Fatalf("made %d bytes for %d", len(message), size)
		}
		if _, err := ParseCall(row(t, applyMethod), message); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A read of a later talosctl may carry a field this version does not know; the node
// ignores it as well.
func TestReadsMayHoldUnknownFields(t *testing.T) {
	in := append(marshal(t, &cosi.GetRequest{Namespace: "cluster", Type: "Members.cluster.talos.dev", Id: "a"}), varintField(77, 1)...)
	got, err := ParseCall(row(t, "/cosi.resource.State/Get"), in)
	if err != nil || got.Call.Class != policy.ClassRead {
		t.Fatalf("got %+v, %v", got.Call, err)
	}
}

func TestParseCallFillsFacts(t *testing.T) {
	tests := []struct {
		name   string
		method string
		in     proto.Message
		want   policy.Call
	}{
		{
			"get mc", "/cosi.resource.State/Get", &cosi.GetRequest{Namespace: "config", Type: machineConfigType, Id: "v1alpha1"},
			policy.Call{Class: policy.ClassConfigRead, Resource: &policy.Resource{Namespace: "config", Type: machineConfigType, ID: "v1alpha1"}},
		},
		{
			"get members", "/cosi.resource.State/List", &cosi.ListRequest{Namespace: "cluster", Type: "Members.cluster.talos.dev"},
			policy.Call{Class: policy.ClassRead, Stream: true, Resource: &policy.Resource{Namespace: "cluster", Type: "Members.cluster.talos.dev"}},
		},
		{
			"watch of root secrets", "/cosi.resource.State/Watch", &cosi.WatchRequest{Namespace: "secrets", Type: "OSRootSecrets.secrets.talos.dev"},
			policy.Call{Class: policy.ClassSecretRead, Stream: true, Resource: &policy.Resource{Namespace: "secrets", Type: "OSRootSecrets.secrets.talos.dev"}},
		},
		{
			"a watch of one configuration", "/cosi.resource.State/Watch", &cosi.WatchRequest{Namespace: "config", Type: machineConfigType, Id: proto.String("persistent")},
			policy.Call{Class: policy.ClassConfigRead, Stream: true, Resource: &policy.Resource{Namespace: "config", Type: machineConfigType, ID: "persistent"}},
		},
		{
			"a COSI write keeps its class", "/cosi.resource.State/Destroy", &cosi.DestroyRequest{Namespace: "cluster", Type: "Members.cluster.talos.dev", Id: "x"},
			policy.Call{Class: policy.ClassMutate, Resource: &policy.Resource{Namespace: "cluster", Type: "Members.cluster.talos.dev", ID: "x"}},
		},
		{
			"read of the boot id", "/machine.MachineService/Read", &machine.ReadRequest{Path: "/proc/sys/kernel/random/boot_id"},
			policy.Call{Class: policy.ClassSensitiveRead, Stream: true, Path: "/proc/sys/kernel/random/boot_id"},
		},
		{"copy", "/machine.MachineService/Copy", &machine.CopyRequest{RootPath: "/system/state"}, policy.Call{Class: policy.ClassSensitiveRead, Stream: true, Path: "/system/state"}},
		{"list", "/machine.MachineService/List", &machine.ListRequest{Root: "/"}, policy.Call{Class: policy.ClassRead, Stream: true, Path: "/"}},
		{
			"a list without the first slash and with one at the end", "/machine.MachineService/List", &machine.ListRequest{Root: "var/log/"},
			policy.Call{Class: policy.ClassRead, Stream: true, Path: "/var/log"},
		},
		{"a list of nothing is one of the root", "/machine.MachineService/List", &machine.ListRequest{}, policy.Call{Class: policy.ClassRead, Stream: true, Path: "/"}},
		{
			"disk usage of two paths", "/machine.MachineService/DiskUsage", &machine.DiskUsageRequest{Paths: []string{"/var", "x/"}},
			policy.Call{Class: policy.ClassRead, Stream: true, Path: "/var,/x"},
		},
		{"logs", "/machine.MachineService/Logs", &machine.LogsRequest{Namespace: "system", Id: "kubelet"}, policy.Call{Class: policy.ClassRead, Stream: true, Service: "kubelet"}},
		{"service restart", "/machine.MachineService/ServiceRestart", &machine.ServiceRestartRequest{Id: "kubelet"}, policy.Call{Class: policy.ClassMutate, Service: "kubelet"}},
		{"container restart", "/machine.MachineService/Restart", &machine.RestartRequest{Id: "k8s.io/x"}, policy.Call{Class: policy.ClassMutate, Service: "k8s.io/x"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := marshal(t, test.in)
			got, err := ParseCall(row(t, test.method), in)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Method, test.want.Size = test.method, len(in)
			if diff := cmp.Diff(test.want, got.Call); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// Control: with the walk over the wire taken away, the last of two data fields wins,
// which is what the walk is there to stop.
func TestWithoutTheWireWalkTheLastDataWins(t *testing.T) {
	message := append(bytesField(1, []byte("judged")), bytesField(1, []byte("forwarded"))...)
	got, err := parseApply(message)
	if err != nil || string(got.Data) != "forwarded" {
		t.Fatalf("got %q, %v", got.Data, err)
	}
	if checkWire(requestOf(row(t, applyMethod)), message, true) == nil {
		t.Fatal("the walk lets two data fields through")
	}
}

func FuzzParseCall(f *testing.F) {
	methods := []string{applyMethod, "/cosi.resource.State/Get", "/machine.MachineService/Reboot", "/machine.MachineService/DiskUsage", "/cosi.resource.State/Update"}
	f.Add(0, append(bytesField(1, []byte("x")), varintField(4, 2)...))
	f.Add(1, bytesField(2, []byte(machineConfigType)))
	f.Add(2, []byte{0x08, 0x01})
	f.Add(4, []byte("\x0a\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, which int, message []byte) {
		m := row(t, methods[uint(which)%uint(len(methods))])
		got, err := ParseCall(m, message)
		if err != nil {
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Message == "" || strings.ContainsFunc(refusal.Message, control) {
				t.Fatalf("not a refusal fit to print: %q", err)
			}
			return
		}
		// What is accepted, a full decoder accepts, and reads the same.
		if m.Applies() {
			var in machine.ApplyConfigurationRequest
			if err := proto.Unmarshal(message, &in); err != nil {
				t.Fatalf("accepted, and not decodable: %v", err)
			}
			if len(in.ProtoReflect().GetUnknown()) > 0 || !bytes.Equal(in.Data, got.Apply.Data) || in.DryRun != got.Apply.DryRun {
				t.Fatalf("read as %+v, decoded as %v", got.Apply, &in)
			}
			if name, _ := modeName(in.Mode); name != got.Apply.Mode {
				t.Fatalf("mode %s read as %s", in.Mode, got.Apply.Mode)
			}
		}
	})
}
