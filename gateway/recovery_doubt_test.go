package gateway

import (
	"context"
	"testing"

	"bronzeward/gateway/control"
)

// While the database may be older than it was no law is made live, by a person or by a watched
// directory; the refusal is in the book. The control is the same before anything was found.
func TestNoLawIsMadeLiveInDoubt(t *testing.T) {
	t.Parallel()
	for name, activate := range map[string]func(*testing.T, *house, *Acts) error{
		"by a person": func(t *testing.T, h *house, acts *Acts) error {
			_, err := acts.Activate(context.Background(), h.actor(t, "sven"), tried(must(oneApproval())(t).bundle), nil)
			return err
		},
		"by a watched directory": func(t *testing.T, _ *house, acts *Acts) error {
			return acts.ActivateWatched(context.Background(), tried(must(oneApproval())(t).bundle))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			acts := h.acts()
			const counter = "select counter from control.live_bundle"
			before := h.count(t, counter)
			ok(t, activate(t, h, acts))
			if n := h.count(t, counter); n != before+1 {
				t.Fatalf("the control: %d activations, %d before", n, before)
			}
			ok(t, h.store.MarkFound(context.Background(), control.Found{
				OfEpoch: h.store.Snapshot().Epoch, State: control.RecoveryRolledBack, Message: "this database is older",
			}))
			wantDenied(t, activate(t, h, acts), codeRolledBack)
			if n := h.count(t, counter); n != before+1 {
				t.Errorf("%d activations, %d before", n, before)
			}
			if n := h.count(t, "select count(*) from audit.entries where verdict = 'deny' and $1 = any (codes)", codeRolledBack); n != 1 {
				t.Errorf("%d entries say that it was refused", n)
			}
		})
	}
}
