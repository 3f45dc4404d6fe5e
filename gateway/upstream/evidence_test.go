package upstream

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/config"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/cluster"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/enums"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/hardware"
	runtimepb "github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/runtime"
	clusterres "github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	configres "github.com/siderolabs/talos/pkg/machinery/resources/config"
	hardwareres "github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	runtimeres "github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestTheResourceNamesAreMachinerys(t *testing.T) {
	got := []resourceName{stageResource, typeResource, identityResource, clusterResource, systemResource, activeResource, persistentResource}
	want := []resourceName{
		{runtimeres.NamespaceName, runtimeres.MachineStatusType, runtimeres.MachineStatusID},
		{configres.NamespaceName, configres.MachineTypeType, configres.MachineTypeID},
		{clusterres.NamespaceName, clusterres.IdentityType, clusterres.LocalIdentity},
		{clusterres.NamespaceName, clusterres.InfoType, clusterres.InfoID},
		{hardwareres.NamespaceName, hardwareres.SystemInformationType, hardwareres.SystemInformationID},
		{configres.NamespaceName, configres.MachineConfigType, configres.ActiveID},
		{configres.NamespaceName, configres.MachineConfigType, configres.PersistentID},
	}

	if d := cmp.Diff(want, got, cmp.AllowUnexported(resourceName{})); d != "" {
		t.Error(d)
	}
}

func TestTheStagesAreSpelledAsTalosSpellsThem(t *testing.T) {
	for _, stage := range runtimeres.MachineStageValues() {
		n := &node{}
		n.furnish("a", "b", "c", "d")
		n.put(stageResource, &runtimepb.MachineStatusSpec{Stage: enums.RuntimeMachineStage(stage)})

		var e Evidence

		must(t, takeStage(n.resources[stageResource.kind+"/"+stageResource.id], &e))

		if e.Stage != stage.String() {
			t.Errorf("got %q, want %q", e.Stage, stage)
		}
	}
}

func TestEvidenceHoldsEveryPiece(t *testing.T) {
	p := newPKI(t)
	text := "\ufeffversion: v1alpha1\r\n# kept \U0001F600\n\n"
	n := startNode(t, p, func(n *node) {
		n.put(activeResource, &config.MachineConfigSpec{YamlMarshalled: []byte(text)})
	})
	pool := p.pool(t)

	e, err := openFor(t, pool, n.target()).Evidence(ctxFor(t))
	must(t, err)

	want := Evidence{
		Version: "v1.13.6", Minor: "1.13", Stage: "running", Type: "worker",
		NodeID: "node-a", ClusterID: "cluster-a", SMBIOS: "4c4c4544-0000-1000-8000-000000000001",
		Active:     Document{Text: []byte(text), Version: e.Active.Version, Created: bootTime},
		Persistent: Document{Text: []byte("version: v1alpha1\n"), Version: e.Persistent.Version, Created: bootTime},
		Address:    n.addr,
	}
	if d := cmp.Diff(want, e, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmpopts.IgnoreUnexported(Evidence{})); d != "" {
		t.Error(d)
	}

	if e.Active.Version == e.Persistent.Version || e.Active.Version == "" {
		t.Errorf("versions are %q and %q", e.Active.Version, e.Persistent.Version)
	}

	observed, err := pool.Observe(ctxFor(t), n.target())
	must(t, err)

	if d := cmp.Diff(e, observed, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmpopts.IgnoreUnexported(Evidence{})); d != "" {
		t.Errorf("observed (-evidence +observed):\n%s", d)
	}

	for _, call := range n.seen() {
		if call.method != machine.MachineService_Version_FullMethodName && call.method != cosi.State_Get_FullMethodName {
			t.Errorf("reading called %s", call.method)
		}
	}
}

func TestAMachineWithoutSystemInformationIsWhole(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p, func(n *node) { delete(n.resources, systemResource.kind+"/"+systemResource.id) })

	e, err := openFor(t, p.pool(t), n.target()).Evidence(ctxFor(t))
	must(t, err)

	if e.SMBIOS != "" || e.NodeID != "node-a" {
		t.Errorf("evidence is %+v", e)
	}
}

func TestAMissingOrOddPieceIsANamedErrorAndNoEvidence(t *testing.T) {
	on := func(name resourceName, edit func(*cosi.Resource)) func(*node) {
		return func(n *node) { edit(n.resources[name.kind+"/"+name.id]) }
	}
	gone := func(name resourceName) func(*node) {
		return func(n *node) { delete(n.resources, name.kind+"/"+name.id) }
	}
	put := func(name resourceName, spec proto.Message) func(*node) {
		return func(n *node) { n.put(name, spec) }
	}
	fail := func(key string, code codes.Code) func(*node) {
		return func(n *node) { n.errs[key] = status.Error(code, "no") }
	}
	answer := func(messages ...*machine.Version) func(*node) {
		return func(n *node) { n.version = &machine.VersionResponse{Messages: messages} }
	}
	tagged := func(tag string) *machine.Version { return &machine.Version{Version: &machine.VersionInfo{Tag: tag}} }

	for _, row := range []struct {
		name  string
		edit  func(*node)
		part  string
		class Class
	}{
		{"no version", answer(), "version", ClassIncomplete},
		{"two machines answer", answer(tagged("v1.13.6"), tagged("v1.13.6")), "version", ClassIncomplete},
		{"empty version", answer(tagged("")), "version", ClassIncomplete},
		{"odd version", answer(tagged("1.13")), "version", ClassIncomplete},
		{"an error inside the answer", answer(&machine.Version{Metadata: &common.Metadata{Error: "x"}, Version: &machine.VersionInfo{Tag: "v1.13.6"}}), "version", ClassIncomplete},
		{"version refused", fail(machine.MachineService_Version_FullMethodName, codes.PermissionDenied), "version", ClassRefused},
		{"no stage", gone(stageResource), "stage", ClassIncomplete},
		{"unknown stage number", put(stageResource, &runtimepb.MachineStatusSpec{Stage: 99}), "stage", ClassIncomplete},
		{"no type", gone(typeResource), "machine type", ClassIncomplete},
		{"unknown type number", put(typeResource, &config.MachineTypeSpec{MachineType: 9}), "machine type", ClassIncomplete},
		{"no node id", gone(identityResource), "node id", ClassIncomplete},
		{"empty node id", put(identityResource, &cluster.IdentitySpec{}), "node id", ClassIncomplete},
		{"a node id with a newline", put(identityResource, &cluster.IdentitySpec{NodeId: "a\nb"}), "node id", ClassIncomplete},
		{"no cluster id", gone(clusterResource), "cluster id", ClassIncomplete},
		{"a long cluster id", put(clusterResource, &cluster.InfoSpec{ClusterId: strings.Repeat("a", 200)}), "cluster id", ClassIncomplete},
		{"a long UUID", put(systemResource, &hardware.SystemInformationSpec{Uuid: strings.Repeat("a", 200)}), "system information", ClassIncomplete},
		{"system information refused", fail(systemResource.kind+"/"+systemResource.id, codes.PermissionDenied), "system information", ClassRefused},
		{"no active configuration", gone(activeResource), "active configuration", ClassIncomplete},
		{"no persistent configuration", gone(persistentResource), "persistent configuration", ClassIncomplete},
		{"empty configuration", put(activeResource, &config.MachineConfigSpec{}), "active configuration", ClassIncomplete},
		{"configuration refused", fail(activeResource.kind+"/"+activeResource.id, codes.PermissionDenied), "active configuration", ClassRefused},
		{"node away behind its door", fail(activeResource.kind+"/"+activeResource.id, codes.Unavailable), "active configuration", ClassUnreachable},
		{"content that is no protobuf", on(typeResource, func(r *cosi.Resource) { r.Spec.ProtoSpec = []byte{0xff} }), "machine type", ClassIncomplete},
		{"no content", on(typeResource, func(r *cosi.Resource) { r.Spec = nil }), "machine type", ClassIncomplete},
		{"another id than asked", on(persistentResource, func(r *cosi.Resource) { r.Metadata.Id = "v1alpha1" }), "persistent configuration", ClassIncomplete},
		{"another type than asked", on(typeResource, func(r *cosi.Resource) { r.Metadata.Type = "x" }), "machine type", ClassIncomplete},
		{"being taken down", on(activeResource, func(r *cosi.Resource) { r.Metadata.Phase = "tearingDown" }), "active configuration", ClassIncomplete},
		{"no resource version", on(activeResource, func(r *cosi.Resource) { r.Metadata.Version = "" }), "active configuration", ClassIncomplete},
		{"no time of creation", on(activeResource, func(r *cosi.Resource) { r.Metadata.Created = nil }), "active configuration", ClassIncomplete},
		{"a time of creation out of range", on(activeResource, func(r *cosi.Resource) { r.Metadata.Created = &timestamppb.Timestamp{Nanos: -1} }), "active configuration", ClassIncomplete},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			n := startNode(t, p, row.edit)
			pool := p.pool(t)

			for _, read := range []func() (Evidence, error){
				func() (Evidence, error) { return openFor(t, pool, n.target()).Evidence(ctxFor(t)) },
				func() (Evidence, error) { return pool.Observe(ctxFor(t), n.target()) },
			} {
				e, err := read()

				var own *Error
				if ClassOf(err) != row.class || !asError(err, &own) || own.Part != row.part || own.Address != n.addr {
					t.Errorf("error is %v, want class %s, part %s", err, row.class, row.part)
				}

				if e.Version != "" || e.Active.Text != nil {
					t.Errorf("evidence is %+v", e)
				}
			}
		})
	}
}

func TestReadingIsBoundedInTime(t *testing.T) {
	p := newPKI(t)
	n := startRaw(t, p, func(*rawNode) {}) // never answers
	pool := p.pool(t, func(c *Config) { c.ReadTimeout = 50 * time.Millisecond })

	_, err := openFor(t, pool, n.target()).Evidence(ctxFor(t))
	if ClassOf(err) != ClassUnreachable {
		t.Errorf("error is %v", err)
	}
}

func TestAConfigurationOfManyMegabytesIsRead(t *testing.T) {
	p := newPKI(t)
	text := strings.Repeat("a", 107<<20/10)
	n := startNode(t, p, func(n *node) { n.setText(text) })

	e, err := openFor(t, p.pool(t), n.target()).Evidence(ctxFor(t))
	must(t, err)

	if string(e.Active.Text) != text || string(e.Persistent.Text) != text {
		t.Error("the text is another")
	}
}

func TestTheTextIsKeptOutOfPrintedEvidence(t *testing.T) {
	e := Evidence{Active: Document{Text: []byte("hunter2"), Version: "7"}}

	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, e); strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprint([]byte("hunter2"))) {
			t.Errorf("%s prints %s", verb, s)
		}
	}
}

// FuzzPieces feeds strangers' bytes to every decoder: none panics, and what is taken
// without an error is whole.
func FuzzPieces(f *testing.F) {
	n := &node{}
	n.furnish("a", "b", "c", "d")

	for _, r := range n.resources {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}

		f.Add(b)
	}

	f.Add([]byte{0xff})

	f.Fuzz(func(t *testing.T, b []byte) {
		var r cosi.Resource
		if proto.Unmarshal(b, &r) != nil {
			return
		}

		var e Evidence
		if activeResource.check(&r) == nil && takeDocument(func(e *Evidence) *Document { return &e.Active })(&r, &e) == nil {
			if len(e.Active.Text) == 0 || e.Active.Version == "" || e.Active.Created.IsZero() || !bytes.Contains(b, e.Active.Text) {
				t.Errorf("document is %+v", e.Active)
			}
		}

		if takeStage(&r, &e) == nil && e.Stage == "" || takeType(&r, &e) == nil && e.Type == "" || takeIdentity(&r, &e) == nil && e.NodeID == "" || takeCluster(&r, &e) == nil && e.ClusterID == "" {
			t.Errorf("evidence is %+v", e)
		}

		_ = takeSystem(&r, &e)
	})
}

// A pooled connection that is replaced while it is read must not mix two machines.
func TestEvidenceOfTwoConnectionsIsNone(t *testing.T) {
	p := newPKI(t)
	a := startNode(t, p)
	b := startNode(t, p, func(n *node) { n.furnish("node-b", "cluster-a", "", "b\n") })
	pool := p.pool(t)

	ca := openFor(t, pool, a.target())
	cb := openFor(t, pool, b.target())

	all := readings()
	if _, err := pool.readAll(ctxFor(t), ca.conn, all); err != nil {
		t.Fatal(err)
	}

	last := all[len(all)-1].call
	all[len(all)-1].call = func(ctx context.Context, _ *grpc.ClientConn, e *Evidence, opts ...grpc.CallOption) error {
		return last(ctx, cb.conn, e, opts...)
	}

	if e, err := pool.readAll(ctxFor(t), ca.conn, all); err == nil || e.NodeID != "" {
		t.Errorf("two machines gave %+v", e)
	}
}
