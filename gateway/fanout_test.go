package gateway

import (
	"bytes"
	"strings"
	"testing"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// versions decodes the merged answer of one call.
func versions(t testing.TB, a answer) []*machine.Version {
	t.Helper()
	if len(succeeded(t, a).messages) != 1 {
		t.Fatalf("%d messages", len(a.messages))
	}
	var r machine.VersionResponse
	ok(t, proto.Unmarshal(a.messages[0], &r))
	return r.GetMessages()
}

// A read of several machines is one answer: an element for each, in the order they were
// named, under the name the caller wrote, with a decision for each.
func TestAReadOfSeveralMachinesIsMerged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.workers = 3 })
	spelled := []string{"W2", "127.0.1.1", "w3."}
	a := h.as(t, "vera").call(bounded(t), methodVersion, toAll(spelled...), nil)
	got := versions(t, a)
	for i, v := range got {
		if v.GetMetadata().GetHostname() != spelled[i] || v.GetVersion().GetTag() != talosd.DefaultVersion || v.GetMetadata().GetError() != "" {
			t.Errorf("element %d is %v", i, v)
		}
	}
	if len(got) != 3 || len(a.decisions()) != 3 {
		t.Fatalf("%d elements, %d decisions", len(got), len(a.decisions()))
	}
	if n := h.count(t, "select count(distinct machine_name) from audit.entries where id::text = any ($1) and verdict = 'allow'", a.decisions()); n != 3 {
		t.Errorf("the decisions are about %d machines", n)
	}
	// Byte for byte: what one machine says, with the name added, one after the other.
	var want []byte
	for i, name := range []string{"w2", "w1", "w3"} {
		one := succeeded(t, h.as(t, "vera").version(t, name))
		named := must(withHostname(one.messages[0], spelled[i], false))(t)
		want = append(want, named...)
	}
	if !bytes.Equal(a.messages[0], want) {
		t.Error("the merged answer is not the machines' own bytes with their names")
	}
}

// A machine that fails is its own metadata.error with its status; the others are answered.
// The call fails when all fail.
func TestAFailingMachineIsItsOwnError(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.workers = 2 })
	fail := func(name string) {
		ok(t, h.nodes[name].Fault(talosd.Fault{
			Kind: talosd.ErrorBefore, Method: methodVersion, Code: uint32(codes.ResourceExhausted), Message: name + " is full", Times: -1,
		}))
	}
	fail("w1")
	c := h.as(t, "vera")
	got := versions(t, c.call(bounded(t), methodVersion, toAll("w1", "w2"), nil))
	if len(got) != 2 || !strings.Contains(got[0].GetMetadata().GetError(), "w1 is full") ||
		codes.Code(got[0].GetMetadata().GetStatus().GetCode()) != codes.ResourceExhausted || got[1].GetMetadata().GetError() != "" {
		t.Errorf("got %v", got)
	}
	fail("w2")
	a := c.call(bounded(t), methodVersion, toAll("w1", "w2"), nil)
	if a.code() != codes.ResourceExhausted || !strings.Contains(a.text(), "w1 is full") || !strings.Contains(a.text(), "w2 is full") {
		t.Errorf("when all fail: %v", a.err)
	}
}

// A machine that the law refuses is its own metadata.error with the denial; what is refused
// is not asked.
func TestARefusedMachineIsItsOwnError(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.workers = 2
		s.law = func() (law, error) {
			return newLaw(admission(`"allow": input.machine.name == "w2", "approvals": {"required": 0, "groups": [], "self_approval": false}`))
		}
	})
	c := h.as(t, "vera")
	a := c.call(bounded(t), methodVersion, toAll("w1", "w2"), nil)
	got := versions(t, a)
	if len(got) != 2 || !strings.Contains(got[0].GetMetadata().GetError(), "DENIED") || got[1].GetMetadata().GetError() != "" {
		t.Errorf("got %v", got)
	}
	h.untouched(t, "w1")
	if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'deny' and machine_name = 'w1'", a.decisions()); n != 1 {
		t.Errorf("%d denials", n)
	}
}

// Streams of several machines: every element carries its machine's name, and a failure is
// kept back until some machine has answered; when none does, the call fails.
func TestStreamsOfSeveralMachines(t *testing.T) {
	t.Parallel()
	const list = "/machine.MachineService/List"
	h := newHouse(t, func(s *setup) { s.workers = 2 })
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ErrorBefore, Method: list, Code: uint32(codes.NotFound), Message: "no such folder", Times: -1}))
	c := h.as(t, "vera")
	request := must(proto.Marshal(&machine.ListRequest{Root: "/"}))(t)
	a := succeeded(t, c.call(bounded(t), list, toAll("w1", "w2"), request))
	failed := 0
	for i, m := range a.messages {
		var f machine.FileInfo
		ok(t, proto.Unmarshal(m, &f))
		switch name := f.GetMetadata().GetHostname(); {
		case f.GetMetadata().GetError() != "":
			failed++
			if name != "w1" || !strings.Contains(f.GetMetadata().GetError(), "no such folder") {
				t.Errorf("element %d is %v", i, &f)
			}
		case name != "w2" || f.GetName() == "":
			t.Errorf("element %d is %v", i, &f)
		}
	}
	if failed != 1 || len(a.messages) < 2 {
		t.Errorf("%d failures among %d elements", failed, len(a.messages))
	}
	var first machine.FileInfo
	ok(t, proto.Unmarshal(a.messages[0], &first))
	if strings.Contains(first.String(), "DENIED") {
		t.Error("a failure went out before any machine had answered")
	}
	ok(t, h.nodes["w2"].Fault(talosd.Fault{Kind: talosd.ErrorBefore, Method: list, Code: uint32(codes.NotFound), Message: "neither here", Times: -1}))
	b := c.call(bounded(t), list, toAll("w1", "w2"), request)
	if b.code() != codes.NotFound || len(b.messages) != 0 || !strings.Contains(b.text(), "neither here") {
		t.Errorf("when all fail: %v, %d elements", b.err, len(b.messages))
	}
}

// The same machine under all its spellings is one target, and is asked once.
func TestOneMachineUnderManySpellingsIsAskedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	a := h.as(t, "vera").call(bounded(t), methodVersion, toAll("w1", "127.0.1.1", "::ffff:127.0.1.1", "W1.", "[::ffff:7f00:101]", " w1 , w1"), nil)
	if got := versions(t, a); len(got) != 1 || got[0].GetMetadata().GetHostname() != "w1" {
		t.Errorf("got %v", got)
	}
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n != 1 || len(a.decisions()) != 1 {
		t.Errorf("the machine was asked %d times", n)
	}
	h2 := h.as(t, "olga").call(bounded(t), talosd.MethodApply, toAll("w1", "127.0.1.1"), noReboot(t, labelled("one")))
	succeeded(t, h2)
}

// Targets nobody can mean are refused by name, before a node is touched.
func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.workers = 2 })
	c := h.as(t, "vera")
	var hundred []string
	for i := range 100 {
		hundred = append(hundred, "m"+itoa(i))
	}
	for _, row := range []struct {
		name string
		md   map[string][]string
		word string
	}{
		{"none", nil, "names no machine"},
		{"an unknown one", map[string][]string{"node": {"w9"}}, "w9"},
		{"one of two is unknown", map[string][]string{"nodes": {"w1", "w9"}}, "w9"},
		{"a hundred", map[string][]string{"nodes": hundred}, ""},
		{"several hundred in one value", map[string][]string{"nodes": {strings.Join(append(hundred, strings.Split(strings.Repeat("x,y,z,", 200), ",")...), ",")}}, ""},
		{"a port", map[string][]string{"node": {"w1:50000"}}, "port"},
		{"a zone", map[string][]string{"node": {"fe80::1%eth0"}}, "zone"},
		{"node and nodes", map[string][]string{"node": {"w1"}, "nodes": {"w2"}}, "one of the two"},
		{"two node values", map[string][]string{"node": {"w1", "w2"}}, "node"},
		{"an unknown cluster", map[string][]string{"node": {"w1"}, "context": {"elsewhere"}}, "elsewhere"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := c.call(bounded(t), methodVersion, row.md, nil)
			refusedWith(t, a, codes.PermissionDenied, "DENIED BW-TARGET-001")
			if !strings.Contains(a.text(), row.word) || len(a.decisions()) != 1 {
				t.Errorf("got %q", a.text())
			}
		})
	}
	h.untouched(t, "w1")
	h.untouched(t, "w2")
}

// An answer that holds no `messages` is not given a name: a COSI resource asked for with
// `nodes` arrives byte for byte.
func TestAResourceAskedForWithNodesIsNotTouched(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "vera")
	for _, row := range []struct {
		method  string
		request proto.Message
	}{
		{methodGet, &cosi.GetRequest{Namespace: "runtime", Type: "MachineStatuses.runtime.talos.dev", Id: "machine"}},
		{"/cosi.resource.State/List", &cosi.ListRequest{Namespace: "runtime", Type: "MachineStatuses.runtime.talos.dev"}},
	} {
		request := must(proto.Marshal(row.request))(t)
		one := succeeded(t, c.call(bounded(t), row.method, to("w1"), request))
		many := c.call(bounded(t), row.method, toAll("w1"), request)
		if many.err == nil && !bytes.Equal(join(one.messages...), join(many.messages...)) {
			t.Errorf("%s: the resource was changed on its way", row.method)
		}
		if many.err != nil && many.code() != codes.PermissionDenied {
			t.Errorf("%s got %v", row.method, many.err)
		}
	}
}

// Every address of a machine is tried.
func TestAMachineIsReachedAtItsSecondAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	m := h.machine(t, "w1")
	_, err := h.store.UpdateMachine(t.Context(), "w1", control.MachineUpdate{
		Addresses: append(addresses("127.0.9.9"), m.Addresses...), Port: m.Port, Labels: m.Labels,
	}, admin("machines.update"))
	ok(t, err)
	must(h.store.Refresh(t.Context(), 0))(t)
	succeeded(t, h.as(t, "olga").version(t, "w1"))
	succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
}

// FuzzWithHostname holds that adding a name keeps everything else: what a machine says is
// strangers' input.
func FuzzWithHostname(f *testing.F) {
	good, err := proto.Marshal(&machine.VersionResponse{Messages: []*machine.Version{{Platform: &machine.PlatformInfo{Name: "metal"}}, {}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, "w1", false)
	f.Add(good, "", true)
	f.Add([]byte{0x0a, 0xff}, "w1", false)
	f.Add(protowire.AppendTag(nil, 1, protowire.StartGroupType), "w1", false)
	f.Add([]byte{}, strings.Repeat("x", 300), false)
	f.Fuzz(func(t *testing.T, answer []byte, name string, stream bool) {
		before := bytes.Clone(answer)
		out, err := withHostname(answer, name, stream)
		if !bytes.Equal(answer, before) {
			t.Fatal("the machine's answer was written into")
		}
		var was, is machine.VersionResponse
		if err != nil || stream || proto.Unmarshal(answer, &was) != nil {
			return
		}
		if err := proto.Unmarshal(out, &is); err != nil {
			if !strings.Contains(err.Error(), "UTF-8") {
				t.Fatalf("an answer that could be read no longer can: %v", err)
			}
			return
		}
		if len(was.GetMessages()) != len(is.GetMessages()) {
			t.Fatalf("%d elements became %d", len(was.GetMessages()), len(is.GetMessages()))
		}
		for _, m := range is.GetMessages() {
			if m.GetMetadata().GetHostname() != name && name != "" {
				t.Fatalf("an element has the name %q", m.GetMetadata().GetHostname())
			}
		}
	})
}
