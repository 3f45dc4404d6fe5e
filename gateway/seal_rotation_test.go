package gateway

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
)

// A change that was captured and approved under one digest key is still found after another
// key became the current one, for as long as the old key is kept: by its bytes and by its id.
func TestAnApprovedChangeOutlivesItsDigestKey(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"talosctl", "by id"} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			id := h.approved(t, labelled("one"))
			kept := h.gw.sealer
			h.restart(t, func(c *Config) { c.Digester, c.Sealer = ring(t, "k2", "k1", "k2"), kept })
			if door == "by id" {
				_, err := h.applyChange(t, "olga", id)
				ok(t, err)
			} else {
				succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
			}
			c := h.is(t, id, control.ChangeSpent)
			attempt := must(h.store.GetAttempt(t.Context(), c.AttemptID))(t)
			if attempt.State != control.StateCompleted || attempt.Digest != c.Digest || !strings.HasPrefix(c.Digest, "hmac-sha256:k1:") {
				t.Errorf("the attempt is %s with digest %s, the change's is %s", attempt.State, attempt.Digest, c.Digest)
			}
			again := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
			if fresh := h.change(t, again); again == id || !strings.HasPrefix(fresh.Digest, "hmac-sha256:k2:") || !strings.HasPrefix(fresh.Base, "hmac-sha256:k2:") {
				t.Errorf("the next one is %s, digest %s on %s", again, fresh.Digest, fresh.Base)
			}
			if n := len(h.applies("w1")); n != 1 {
				t.Errorf("the node was sent %d applies", n)
			}
		})
	}
}

// After a rotation a base that moved is still told from one that did not.
func TestABaseThatMovedIsSeenUnderAnOlderKey(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	kept := h.gw.sealer
	h.restart(t, func(c *Config) { c.Digester, c.Sealer = ring(t, "k2", "k1", "k2"), kept })
	ok(t, h.nodes["w1"].SetConfig(labelled("elsewhere")))
	_, err := h.applyChange(t, "olga", id)
	actRefused(t, err, "BW-CHANGE-002")
	if c := h.is(t, id, control.ChangeSuperseded); c.OvertakenBy != ring(t, "k2", "k2").Digest(labelled("elsewhere")) {
		t.Errorf("overtaken by %s", c.OvertakenBy)
	}
	h.sentNothing(t)
}

// Without the old key nothing can be compared: the approved change is neither applied nor
// taken for another one nor ended, and the same bytes are a new change.
func TestWithoutItsDigestKeyAChangeIsNotMatched(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	kept := h.gw.sealer
	h.restart(t, func(c *Config) { c.Digester, c.Sealer = ring(t, "k2", "k2"), kept })
	other := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	if other == id {
		t.Error("it was matched")
	}
	_, err := h.applyChange(t, "olga", id)
	if got := actRefused(t, err, "BW-CHANGE-005"); got.grpc != codes.Unavailable {
		t.Errorf("the door answers %v", got.grpc)
	}
	h.is(t, id, control.ChangeApproved)
	h.sentNothing(t)

	// With both keys there are two live changes of one text: it is the approved one.
	h.restart(t, func(c *Config) { c.Digester, c.Sealer = ring(t, "k2", "k1", "k2"), kept })
	_, err = h.applyChange(t, "olga", other)
	if got := actRefused(t, err, "BW-APPROVAL-001"); !strings.Contains(got.text, other.String()) {
		t.Errorf("the refusal is about another change: %s", got.text)
	}
	ok(t, h.revokeApproval(t, id))
	h.approve(t, other, "ada")
	succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	h.is(t, other, control.ChangeSpent)
	if c := h.change(t, id); c.State == control.ChangeSpent {
		t.Error("the first one was spent")
	}
}
