package gateway

import (
	"strings"
	"sync"
	"testing"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// oneForUnseen is a law that asks no more of what nobody could compare than of a label.
var oneForUnseen = sync.OnceValues(func() (law, error) {
	return newLaw(quorumData("1", "false", ""), policy.File{Path: "bronzeward/config/data.yaml", Body: []byte("approvals: {network: 1, not-compared: 1}\n")})
})

// The law is told when nobody can say what an adoption changes, and asks for two people then. Controls:
// where a copy is kept one is enough, and where the data ask for no more too.
func TestAnAdoptionThatNobodyCanCompareNeedsTwoPeople(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		law   func() (law, error)
		copy  bool
		known string
		two   bool
	}{
		{"no copy is kept", oneApproval, false, "false", true},
		{"control: a copy is kept", oneApproval, true, "true", false},
		{"control: the data ask for one", oneForUnseen, false, "false", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, row.law, nil)
			d := h.patched(t, labelled("patched"))
			if !row.copy {
				ok(t, h.db.Exec(t.Context(), "delete from control.applied_copies"))
			}
			id := h.settle(t, d, control.KindAdopt)
			h.approve(t, id, "ada")
			if row.two {
				_, err := h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil)
				if got := actRefused(t, err, "BW-APPROVAL-001"); !strings.Contains(got.text, "needs 2 approvals") {
					t.Errorf("with one approval: %s", got.text)
				}
				h.driftIs(t, d.ID, control.DriftOpen)
				h.approve(t, id, "abel")
			}
			_ = must(h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil))(t)
			h.driftIs(t, d.ID, control.DriftAdopted)
			said := h.texts(t, `select distinct convert_from(record, 'utf8')::jsonb -> 'facts' -> 'config' ->> 'changes_known'
				from audit.entries where change_id = $1 and method in ('drift.adopt', 'changes.apply') and class = 'act'`, id.String())
			if len(said) != 1 || said[0] != row.known {
				t.Errorf("of whether the changes are known the facts say %v, want %s", said, row.known)
			}
		})
	}
}

// What is on the disk is taken as applied as well, so the law and the approver see what it changes:
// staged round the gateway, what the law forbids is not adopted either. The control is what it lets
// through.
func TestAnAdoptionIsJudgedByWhatIsOnTheDisk(t *testing.T) {
	t.Parallel()
	forbidden := append(labelled("staged"), "---\napiVersion: v1alpha1\nkind: SideroLinkConfig\napiUrl: grpc://192.0.2.1\n"...)
	for _, row := range []struct {
		name    string
		found   func(*talosd.Node) error
		refused bool
		changes int
	}{
		{"forbidden, and staged", func(n *talosd.Node) error { return n.Stage(forbidden) }, true, 0},
		{"forbidden, and running", func(n *talosd.Node) error { return n.SetConfig(forbidden) }, true, 0},
		{"control: a label, and staged", func(n *talosd.Node) error { return n.Stage(labelled("staged")) }, false, 1},
		{"control: a label that runs, and one that is staged", func(n *talosd.Node) error {
			if err := n.SetConfig(labelled("patched")); err != nil {
				return err
			}
			return n.Stage(labelled("staged"))
		}, false, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			h.look(t, control.SightBaseline)
			ok(t, row.found(h.nodes["w1"]))
			h.look(t, control.SightOpened)
			d := h.openDrift(t)
			if row.refused {
				_, _, err := h.acts().SettleDrift(t.Context(), h.actor(t, "olga"), d.ID, control.KindAdopt, "why", nil)
				actRefused(t, err, "BW-CONFIG-011")
				h.driftIs(t, d.ID, control.DriftOpen)
				return
			}
			id := h.settle(t, d, control.KindAdopt)
			if review := must(h.store.GetReview(t.Context(), id))(t); len(review.Changes) != row.changes {
				t.Errorf("the approver is shown %+v", review.Changes)
			}
			h.approve(t, id, "ada")
			_ = must(h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil))(t)
			if m := h.machine(t, "w1"); m.ActiveDigest != d.FoundActive || m.PersistentDigest != d.FoundPersistent {
				t.Errorf("taken as applied are %s and %s", m.ActiveDigest, m.PersistentDigest)
			}
		})
	}
}
