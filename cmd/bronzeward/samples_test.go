package main

import (
	"time"

	"bronzeward/gateway/httpapi/api"
)

const (
	changeOne = "chg_01kb8v6d3kfq0r8mz7n2c5w9ta"
	changeTwo = "chg_01kb8v6d3kfq0r8mz7n2c5w9tb"
	digestOne = "hmac-sha256:k1:1111"
	digestTwo = "hmac-sha256:k1:2222"
	// changeThree is not olga's.
	changeThree = "chg_01kb8v6d3kfq0r8mz7n2c5w9tc"
	digestThree = "hmac-sha256:k1:3333"
	attemptA    = "019a5c3e-7b1d-7f00-8000-00000000000a"
)

// oneChange is a change that waits for the second of two approvals.
func oneChange() api.Change {
	return api.Change{
		ID: changeOne, State: api.ChangeStateWaiting, Kind: api.Apply, Machine: "worker-1", MachineID: stubDecision, Cluster: "lab",
		Mode: "no-reboot", Digest: digestOne, Base: api.Digests{Active: "hmac-sha256:k1:0000", Persistent: "hmac-sha256:k1:0000"},
		Set: "roll out", Requester: api.Person{Issuer: stubIssuer, Subject: "\u043elga"}, CreatedAt: stubNow.Add(-3 * time.Minute),
		ApproveBy: stubNow.Add(23*time.Hour + time.Minute), DecisionID: stubDecision, Size: 1234, Sealed: true, ChangesCount: 2,
		ApprovalsNeeded: api.ApprovalsNeeded{Required: 2, Groups: []string{"approvers"}}, ApprovalsCounting: 1,
		Approvals: []api.Approval{{
			ID: "apr_01kb8v6d3kfq0r8mz7n2c5w9tc", ChangeID: changeOne, Digest: digestOne, Approver: api.Person{Issuer: stubIssuer, Subject: "vera"},
			Kind: api.Human, Groups: []string{"approvers"}, At: stubNow.Add(-time.Minute), Self: []string{"requester"},
			Notes: []string{"approver no longer in approvers"}, DecisionID: stubDecision,
		}},
		Warnings: &[]api.Finding{{Code: "BW-APPROVAL-005", Message: "approved by its own\nrequester"}},
		Discards: &[]api.ConfigChange{},
	}
}

// otherChange is of the same set, for another machine.
func otherChange() api.Change {
	c := oneChange()
	c.ID, c.Machine, c.Digest, c.Approvals, c.ApprovalsCounting, c.CreatedAt = changeTwo, "worker-2", digestTwo, []api.Approval{}, 0, c.CreatedAt.Add(time.Second)
	return c
}

// strange is a change of the same set that somebody else asked for.
func strange() api.Change {
	c := otherChange()
	c.ID, c.Machine, c.Digest, c.Requester.Subject, c.CreatedAt = changeThree, "worker-3", digestThree, "mallory", c.CreatedAt.Add(time.Second)
	return c
}

// approved is a change after its last approval.
func approved(c api.Change) api.Change {
	c.State, c.UseBy, c.ApprovalsCounting = api.ChangeStateApproved, new(stubNow.Add(59*time.Minute)), c.ApprovalsNeeded.Required
	return c
}

// diffOf is what a change would change.
func diffOf(c api.Change) api.ChangeDiff {
	return api.ChangeDiff{
		ID: c.ID, Digest: c.Digest, Base: c.Base,
		Changes: []api.ConfigChange{
			{Document: "v1alpha1", Path: "machine.nodeLabels.zone", After: "a"},
			{Document: "v1alpha1", Path: "machine.sysctls.\u0440ath", Before: 1000000, After: "fp:0123456789abcdef0123", Reboot: true},
		},
		Discards: []api.ConfigChange{{Document: "v1alpha1", Path: "machine.nodeLabels.staged", Before: true, After: nil}},
	}
}

// attempt is one sending of a change, in this state.
func attempt(c api.Change, state api.AttemptState) api.Attempt {
	return api.Attempt{
		ID: attemptA, DecisionID: stubDecision, ChangeID: c.ID, Machine: c.Machine, MachineID: c.MachineID, Cluster: c.Cluster, State: state,
		Caller: c.Requester, Mode: c.Mode, Digest: c.Digest, Base: c.Base, OpenedAt: stubNow, Instance: "gateway-1", SettleAfter: stubNow.Add(time.Minute), Read: api.Digests{},
	}
}

// applied is the answer to applying it.
func applied(c api.Change, state api.AttemptState) api.Application {
	return api.Application{Attempt: attempt(c, state), Warnings: []string{"BW-X-001: mind this"}, Message: "Applied configuration without a reboot"}
}
