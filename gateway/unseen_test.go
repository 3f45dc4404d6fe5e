package gateway

import (
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// An apply that comes before the watch has seen what somebody did round the gateway is refused by
// its own evidence, whatever the law asks, and becomes no change. The control makes what was applied
// one that nothing can be compared with: then the apply lands on what somebody patched.
func TestAnApplyBeforeTheWatchHasLookedIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		patch   func(*talosd.Node) error
		law     func(testing.TB, func(*setup)) *house
		control string
		refused bool
	}{
		{"patched", func(n *talosd.Node) error { return n.SetConfig(labelled("patched")) }, free, "", true},
		{"staged", func(n *talosd.Node) error { return n.Stage(labelled("staged")) }, asking, "", true},
		{"patched, where approvals are asked for", func(n *talosd.Node) error { return n.SetConfig(labelled("patched")) }, asking, "", true},
		{
			"control: the key of what was applied is gone", func(n *talosd.Node) error { return n.SetConfig(labelled("patched")) }, free,
			"update control.machines set applied_active = replace(applied_active, ':k1:', ':k9:')", false,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := row.law(t, nil)
			h.look(t, control.SightBaseline)
			if row.control != "" {
				ok(t, h.db.Exec(t.Context(), row.control))
			}
			ok(t, row.patch(h.nodes["w1"]))
			a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("another")))
			if !row.refused {
				succeeded(t, a)
				return
			}
			if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "BW-HOLDS-004") || !strings.Contains(a.text(), "bronzeward drift list --open") {
				t.Errorf("the apply: %v %q", a.code(), a.text())
			}
			h.sentNothing(t)
			if n := h.count(t, "select (select count(*) from control.attempts) + (select count(*) from control.changes)"); n != 0 {
				t.Errorf("%d attempts and changes", n)
			}
			h.look(t, control.SightOpened)
			h.sentNothing(t)
		})
	}
}

// A dry run changes nothing, and goes through as it does while a drift is open.
func TestADryRunBeforeTheWatchHasLookedGoesThrough(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.look(t, control.SightBaseline)
	ok(t, h.nodes["w1"].SetConfig(labelled("patched")))
	succeeded(t, h.as(t, "olga").apply(t, "w1", applyRequest(t, labelled("another"), machine.ApplyConfigurationRequest_NO_REBOOT, true)))
}

func free(t testing.TB, tweak func(*setup)) *house { return newHouse(t, tweak) }

func asking(t testing.TB, tweak func(*setup)) *house { return approving(t, oneApproval, tweak) }
