package gateway

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// revokeApproval takes back the change's one approval, as rhea.
func (h *house) revokeApproval(t testing.TB, id control.ChangeID) error {
	t.Helper()
	_, err := h.acts().RevokeApproval(context.Background(), h.actor(t, "rhea"), h.change(t, id).Approvals[0].ID, "a mistake", nil)
	return err
}

// revokePerson revokes somebody, as rhea.
func (h *house) revokePerson(t testing.TB, subject string) error {
	t.Helper()
	_, err := h.acts().RevokeIdentity(context.Background(), h.actor(t, "rhea"), policy.Person{Issuer: issuer, Subject: subject}, "left", nil)
	return err
}

// Between approval and apply somebody's authority is taken away: the approval's, the
// approver's, the requester's or the spender's. Through both doors nothing is sent, and the
// change is left in the state that says why.
func TestWhatIsRevokedBetweenApprovalAndApply(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		revoke  func(*testing.T, *house, control.ChangeID) error
		spender string
		state   control.ChangeState
		byBytes string // how the same bytes are refused
		byID    string
		another bool // the same bytes are another change
	}{
		{"the approval", func(t *testing.T, h *house, id control.ChangeID) error { return h.revokeApproval(t, id) }, "olga", control.ChangeWaiting, "BW-APPROVAL-001", "BW-APPROVAL-001", false},
		{"the approver", func(t *testing.T, h *house, _ control.ChangeID) error { return h.revokePerson(t, "ada") }, "olga", control.ChangeWaiting, "BW-APPROVAL-001", "BW-APPROVAL-001", false},
		{"the requester, who applies", func(t *testing.T, h *house, _ control.ChangeID) error { return h.revokePerson(t, "olga") }, "olga", control.ChangeRevoked, "BW-IDENTITY-001", "BW-ACT-001", false},
		{"the requester, and somebody else applies", func(t *testing.T, h *house, _ control.ChangeID) error { return h.revokePerson(t, "olga") }, "otto", control.ChangeRevoked, "BW-APPROVAL-001", "BW-CHANGE-002", true},
		{"the spender", func(t *testing.T, h *house, _ control.ChangeID) error { return h.revokePerson(t, "otto") }, "otto", control.ChangeApproved, "BW-IDENTITY-001", "BW-ACT-001", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			id := h.approved(t, labelled("one"))
			ok(t, row.revoke(t, h, id))
			c := h.is(t, id, row.state)
			if row.state == control.ChangeWaiting && (c.UseBy != nil || !c.Approvals[0].Revoked) {
				t.Errorf("it waits with use_by %v and the approval %+v", c.UseBy, c.Approvals[0])
			}
			_, err := h.applyChange(t, row.spender, id)
			// A revoked person is refused as a caller or as who acts, by which is judged first once
			// the revocation is seen; before this replica has seen it, for the change that ended with it.
			if got := tell(err); row.byID != "BW-ACT-001" || got.code != "BW-IDENTITY-001" && (got.code != "BW-CHANGE-002" || row.state != control.ChangeRevoked) {
				actRefused(t, err, row.byID)
			}
			a := h.as(t, row.spender).apply(t, "w1", noReboot(t, labelled("one")))
			refusedWith(t, a, codes.PermissionDenied, row.byBytes)
			if another := strings.Contains(a.text(), "chg_") && namedChange(t, a.text()) != id; another != row.another {
				t.Errorf("the same bytes are another change: %t: %s", another, a.text())
			}
			h.is(t, id, row.state)
			h.sentNothing(t)
			switch row.state {
			case control.ChangeWaiting: // approved anew, by somebody who may
				h.approve(t, id, "abel")
				fallthrough
			case control.ChangeApproved:
				_, err = h.applyChange(t, "boris", id)
				ok(t, err)
				h.is(t, id, control.ChangeSpent)
			}
		})
	}
}

// Of a revoked person every act is refused with an entry, whichever it is, also when it names
// what does not exist.
func TestEveryActOfARevokedPersonIsRefused(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	waiting := waits(t, h.as(t, "otto").apply(t, "w1", noReboot(t, labelled("two"))))
	approval := h.change(t, id).Approvals[0].ID
	for _, who := range []string{"olga", "ada", "sven"} {
		h.revoke(t, who)
	}
	ok(t, h.revokePerson(t, "audrey")) // rhea may still
	h.revoke(t, "rhea")
	acts := h.acts()
	ctx := t.Context()
	olga, ada, rhea := h.actor(t, "olga"), h.actor(t, "ada"), h.actor(t, "rhea")
	for name, act := range map[string]func() error{
		"submit": func() error {
			_, _, err := acts.Submit(ctx, olga, control.Submission{Machine: "w1", Text: labelled("three"), Mode: "no-reboot"}, nil)
			return err
		},
		"apply":  func() error { _, err := acts.ApplyChange(ctx, olga, id, nil); return err },
		"cancel": func() error { _, err := acts.Cancel(ctx, olga, waiting, "x", nil); return err },
		"approve": func() error {
			_, err := acts.Approve(ctx, ada, []control.ApproveOne{{ID: waiting, Digest: h.change(t, waiting).Digest}}, nil)
			return err
		},
		"reject":          func() error { _, err := acts.Reject(ctx, ada, waiting, "x", nil); return err },
		"revoke approval": func() error { _, err := acts.RevokeApproval(ctx, rhea, approval, "x", nil); return err },
		"revoke identity": func() error { return h.revokePerson(t, "vera") },
		"add a machine": func() error {
			_, err := acts.AddMachines(ctx, olga, []control.NewMachine{{Name: "w9", Cluster: cluster, Role: "worker", Addresses: addresses("192.0.2.9"), Port: 50000}}, nil)
			return err
		},
		"update a machine": func() error {
			_, err := acts.UpdateMachine(ctx, olga, "w1", control.MachineUpdate{Addresses: addresses("192.0.2.9"), Port: 50000}, nil)
			return err
		},
		"observe a machine": func() error { _, err := acts.Observe(ctx, olga, "w1", nil); return err },
		"pin a machine":     func() error { _, err := acts.Pin(ctx, olga, "w1", false, nil); return err },
		"read":              func() error { _, err := acts.Read(ctx, olga, "changes.read", id.String()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			got := actRefused(t, act(), "BW-ACT-001")
			if n := h.count(t, "select count(*) from audit.entries where id = $1 and kind = 'http' and verdict = 'deny' and 'BW-ACT-001' = any (codes)", got.entry); n != 1 {
				t.Errorf("%d entries", n)
			}
		})
	}
	if n := h.changes(t); n != 2 || h.approvalsOf(t, waiting) != 0 {
		t.Errorf("there are %d changes and %d approvals", n, h.approvalsOf(t, waiting))
	}
	h.is(t, waiting, control.ChangeWaiting)
	h.sentNothing(t)
}
