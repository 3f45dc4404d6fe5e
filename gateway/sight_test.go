package gateway

import (
	"bytes"
	"strings"
	"testing"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
)

// configRead asks for the active configuration, as `talosctl get machineconfig` does.
func configRead(t testing.TB, c *client, machine string) answer {
	t.Helper()
	request := must(proto.Marshal(&cosi.GetRequest{
		Namespace: "config", Type: "MachineConfigs.config.talos.dev", Id: "v1alpha1", Options: &cosi.GetOptions{},
	}))(t)
	return c.call(bounded(t), methodGet, to(machine), request)
}

// A machine's configuration holds every secret of its cluster, and a row is an operator's
// word: whatever the law allows, it is read only from the pinned machine, a worker.
func TestAConfigurationIsReadOnlyFromThePinnedWorker(t *testing.T) {
	for _, row := range []struct {
		name   string
		setup  func(*setup)
		before func(*testing.T, *house)
		reason string
	}{
		{"control: the pinned worker", nil, nil, ""},
		{"a control plane in a worker's row", func(s *setup) {
			s.node = func(_ string, c *talosd.Config) {
				c.MachineConfig = []byte(strings.Replace(string(oracle.Base()), "type: worker", "type: controlplane", 1))
			}
		}, nil, "BW-INVARIANT-006"},
		{"another machine at the address", nil, func(t *testing.T, h *house) {
			ok(t, h.nodes["w1"].SwapIdentity(talosd.Identity{NodeID: "node-z"}))
		}, "BW-INVARIANT-007"},
		{"a machine that is not pinned", nil, func(t *testing.T, h *house) {
			ok(t, h.db.Exec(t.Context(), "update control.machines set pinned_at = null, node_id = '', talos_cluster_id = '', smbios = ''"))
			_, err := h.store.Refresh(t.Context(), 0)
			ok(t, err)
			ok(t, h.db.Exec(t.Context(), "update control.authority set version = version + 1"))
			_, err = h.store.Refresh(t.Context(), 0)
			ok(t, err)
		}, "BW-INVARIANT-003"},
		{"a machine that is away", nil, func(_ *testing.T, h *house) {
			h.nodes["w1"].RefuseDials(true)
			h.nodes["w1"].ResetConnections()
		}, "BW-UPSTREAM-001"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) {
				s.law = openLaw
				if row.setup != nil {
					row.setup(s)
				}
			})
			if row.before != nil {
				row.before(t, h)
			}
			a := configRead(t, h.as(t, "olga"), "w1")
			if row.reason == "" {
				succeeded(t, a)
				if len(a.messages) != 1 || !bytes.Contains(a.messages[0], []byte("type: worker")) {
					t.Errorf("the configuration did not come: %d messages", len(a.messages))
				}
				return
			}
			refusedWith(t, a, codes.PermissionDenied, row.reason)
			for _, call := range h.nodes["w1"].Log().Of(methodGet) {
				if strings.Contains(strings.Join(call.Metadata[DecisionTrailer], " "), first(a.decisions())) {
					t.Error("the node was asked all the same")
				}
			}
		})
	}
}

// A boot sets off what is staged, whoever staged it: a law that lets people reboot does
// not let them do that.
func TestABootThatWouldSetOffSomethingStagedIsRefused(t *testing.T) {
	const reboot = "/machine.MachineService/Reboot"
	for _, row := range []struct {
		name   string
		before func(*testing.T, *house)
		reason string
	}{
		{"control: nothing is staged", func(*testing.T, *house) {}, ""},
		{"something is staged", func(t *testing.T, h *house) { ok(t, h.nodes["w1"].Stage(labelled("staged"))) }, "BW-INVARIANT-019"},
		{"another machine", func(t *testing.T, h *house) {
			ok(t, h.nodes["w1"].SwapIdentity(talosd.Identity{NodeID: "node-z"}))
		}, "BW-INVARIANT-007"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) { s.law = openLaw })
			row.before(t, h)
			a := h.as(t, "olga").call(bounded(t), reboot, to("w1"), nil)
			sent := len(h.nodes["w1"].Log().Of(reboot))
			if row.reason == "" {
				if sent != 1 {
					t.Errorf("the node was sent %d reboots: %v", sent, a.err)
				}
				return
			}
			refusedWith(t, a, codes.PermissionDenied, row.reason)
			if sent != 0 {
				t.Errorf("the node was sent %d reboots", sent)
			}
		})
	}
}

// Nothing but an apply is large, and one person cannot make the gateway hold many.
func TestALargeRequestOfAnotherMethodIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	a := h.as(t, "vera").call(bounded(t), methodVersion, to("w1"), bytes.Repeat([]byte{0x0a, 0x00}, maxRequest))
	refusedWith(t, a, codes.ResourceExhausted, "BW-REQUEST-001")
	if n := h.count(t, "select count(*) from audit.entries where verdict = 'refuse' and codes = '{BW-REQUEST-001}'"); n != 1 {
		t.Errorf("%d entries", n)
	}
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n != 0 {
		t.Errorf("the node was asked %d times", n)
	}
}
