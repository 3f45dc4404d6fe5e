package gateway

import (
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
)

// A mutation that was aimed before its machine's address changed, and is judged after it, is sent to the new address alone: at
// the old one may be another machine by now.
func TestAMutationThatMeetsANewAddressLeavesTheOldOne(t *testing.T) {
	t.Parallel()
	const restart = "/machine.MachineService/ServiceRestart"
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	let := must(h.db.HoldAuthority(t.Context()))(t)
	done, sent := make(chan error, 1), make(chan answer, 1)
	go func() {
		nobody := netip.MustParseAddrPort(freeAddress(t))
		_, err := h.acts().UpdateMachine(t.Context(), h.actor(t, "olga"), "w1",
			control.MachineUpdate{Addresses: []netip.Addr{nobody.Addr()}, Port: nobody.Port()}, nil)
		done <- err
	}()
	h.waiting(t, 1) // the new address is first in the queue, and nobody knows of it yet
	go func() { sent <- h.as(t, "olga").call(bounded(t), restart, to("w1"), dataField([]byte("cri"))) }()
	h.waiting(t, 2)
	ok(t, let())
	ok(t, <-done)
	refusedWith(t, <-sent, codes.Unavailable, "BW-UPSTREAM-001")
	if n := len(h.nodes["w1"].Log().Of(restart)); n != 0 {
		t.Errorf("%d calls came to the old address", n)
	}
}
