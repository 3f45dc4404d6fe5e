package gateway

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
)

// A quorum of two takes two people.
func TestAQuorumOfTwo(t *testing.T) {
	t.Parallel()
	h := approving(t, twoApprovals, nil)
	request := noReboot(t, labelled("one"))
	olga := h.as(t, "olga")
	id := waits(t, olga.apply(t, "w1", request))
	h.approve(t, id, "ada")
	h.is(t, id, control.ChangeWaiting)
	a := olga.apply(t, "w1", request)
	if waits(t, a) != id || !strings.Contains(a.text(), "needs 2 approvals from talos-approvers, 1 given") {
		t.Errorf("with one of two it reads %q", a.text())
	}
	_, err := h.applyChange(t, "otto", id)
	actRefused(t, err, "BW-APPROVAL-001")
	h.sentNothing(t)
	h.approve(t, id, "abel")
	h.is(t, id, control.ChangeApproved)
	// The spender's own does not count, so that of two one is missing.
	third := waits(t, olga.apply(t, "w1", noReboot(t, labelled("two"))))
	h.approve(t, third, "ada", "boris")
	_, err = h.applyChange(t, "boris", third)
	actRefused(t, err, "BW-APPROVAL-001")
	h.sentNothing(t)
	succeeded(t, olga.apply(t, "w1", request))
	h.is(t, id, control.ChangeSpent)
}

// What counts is what the law asks for when the change is spent: another law that becomes live
// after the approval takes the change back to waiting, or lets it through.
func TestTheLawMovesAfterTheApproval(t *testing.T) {
	t.Parallel()
	one, two, none, own := must(oneApproval())(t), must(twoApprovals())(t), must(shippedLaw())(t), must(ownApproval())(t)
	for _, row := range []struct {
		name      string
		from, to  law
		approvers []string
		before    control.ChangeState
		refused   bool
		after     control.ChangeState
		asked     int
		more      string // whose approval then suffices
	}{
		{"more are asked for", one, two, []string{"ada"}, control.ChangeApproved, true, control.ChangeWaiting, 2, "abel"},
		{"fewer are asked for", two, one, []string{"ada"}, control.ChangeWaiting, false, control.ChangeSpent, 1, ""},
		{"none is asked for any more", one, none, nil, control.ChangeWaiting, false, control.ChangeSpent, 0, ""},
		{"one's own counts no more", own, one, []string{"boris"}, control.ChangeApproved, true, control.ChangeWaiting, 1, "ada"},
	} {
		for _, door := range []string{"talosctl", "by id"} {
			t.Run(row.name+", "+door, func(t *testing.T) {
				t.Parallel()
				h := approving(t, func() (law, error) { return row.from, nil }, func(s *setup) { s.ownEngine = true })
				request := noReboot(t, labelled("one"))
				c := h.as(t, "boris")
				id := waits(t, c.apply(t, "w1", request))
				h.approve(t, id, row.approvers...)
				h.is(t, id, row.before)
				h.activate(t, row.to.bundle)
				h.is(t, id, row.before) // nobody looked at it since

				apply := func() error {
					if door == "by id" {
						_, err := h.applyChange(t, "boris", id)
						return err
					}
					return c.apply(t, "w1", request).err
				}
				err := apply()
				if refused := err != nil; refused != row.refused {
					t.Fatalf("under the new law it came to %v", err)
				}
				after := h.is(t, id, row.after)
				if after.Asked.Required != row.asked || h.changes(t) != 1 {
					t.Errorf("%d are asked for, and there are %d changes", after.Asked.Required, h.changes(t))
				}
				if !row.refused {
					return
				}
				if after.UseBy != nil {
					t.Errorf("it waits, and is good until %s", after.UseBy)
				}
				h.sentNothing(t)
				h.approve(t, id, row.more)
				h.is(t, id, control.ChangeApproved)
				ok(t, apply())
				h.is(t, id, control.ChangeSpent)
			})
		}
	}
}

// Whatever a careless law says, Go counts by itself: one that allows everything and asks for
// two gets two, and its refusal names the change.
func TestGoCountsWhateverTheLawAllows(t *testing.T) {
	t.Parallel()
	h := approving(t, carelessTwo, nil)
	request := noReboot(t, labelled("one"))
	a := h.as(t, "olga").apply(t, "w1", request)
	id := waits(t, a)
	if !strings.Contains(a.text(), "2 approvals are needed and 0 count") || !strings.Contains(a.text(), "bronzeward changes apply "+id.String()) {
		t.Errorf("the refusal reads %q", a.text())
	}
	h.approve(t, id, "ada", "boris")
	_, err := h.applyChange(t, "boris", id)
	if got := actRefused(t, err, "BW-APPROVAL-001"); !strings.Contains(got.text, "2 approvals are needed and 1 count") {
		t.Errorf("the refusal reads %q", got.text)
	}
	h.sentNothing(t)
	succeeded(t, h.as(t, "olga").apply(t, "w1", request))
}

// I18 holds before anybody is asked: what no policy can waive is not captured, although the
// law itself refuses for nothing but approvals. Control: with the invariant met it is captured.
func TestNobodyIsAskedForWhatAnInvariantRefuses(t *testing.T) {
	t.Parallel()
	for _, spoilt := range []bool{true, false} {
		t.Run(map[bool]string{true: "in maintenance", false: "control: running"}[spoilt], func(t *testing.T) {
			t.Parallel()
			for _, of := range []func() (law, error){carelessTwo, onlyApprovalsLaw} {
				h := approving(t, of, nil)
				if spoilt {
					ok(t, h.nodes["w1"].SetStage("maintenance"))
				}
				a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
				if !spoilt {
					waits(t, a)
					continue
				}
				if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "BW-INVARIANT-008") || strings.Contains(a.text(), "try: bronzeward changes show chg_0") || h.changes(t) != 0 {
					t.Errorf("got %q, and %d changes", a.text(), h.changes(t))
				}
				h.lawRefusesForApprovalsOnly(t, a)
			}
		})
	}
}
