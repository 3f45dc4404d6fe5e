package clitest

import (
	"time"

	"bronzeward/gateway/httpapi/api"
)

// The ids and digests of the samples.
const (
	ChangeOne = "chg_01kb8v6d3kfq0r8mz7n2c5w9ta"
	ChangeTwo = "chg_01kb8v6d3kfq0r8mz7n2c5w9tb"
	DigestOne = "hmac-sha256:k1:1111"
	DigestTwo = "hmac-sha256:k1:2222"
	// ChangeThree is not olga's.
	ChangeThree = "chg_01kb8v6d3kfq0r8mz7n2c5w9tc"
	DigestThree = "hmac-sha256:k1:3333"
	AttemptA    = "019a5c3e-7b1d-7f00-8000-00000000000a"
)

// OneChange is a change that waits for the second of two approvals.
func OneChange() api.Change {
	return api.Change{
		ID: ChangeOne, State: api.ChangeStateWaiting, Kind: api.Apply, Machine: "worker-1", MachineID: StubDecision, Cluster: "lab",
		Mode: "no-reboot", Digest: DigestOne, Base: api.Digests{Active: "hmac-sha256:k1:0000", Persistent: "hmac-sha256:k1:0000"},
		Set: "roll out", Requester: api.Person{Issuer: StubIssuer, Subject: "\u043elga"}, CreatedAt: StubNow.Add(-3 * time.Minute),
		ApproveBy: StubNow.Add(23*time.Hour + time.Minute), DecisionID: StubDecision, Size: 1234, Sealed: true, ChangesCount: new(2),
		ApprovalsNeeded: api.ApprovalsNeeded{Required: 2, Groups: []string{"approvers"}}, ApprovalsCounting: 1,
		Approvals: []api.Approval{{
			ID: "apr_01kb8v6d3kfq0r8mz7n2c5w9tc", ChangeID: ChangeOne, Digest: DigestOne, Approver: api.Person{Issuer: StubIssuer, Subject: "vera"},
			Kind: api.Human, Groups: []string{"approvers"}, At: StubNow.Add(-time.Minute), Self: []string{"requester"},
			Notes: []string{"approver no longer in approvers"}, DecisionID: StubDecision,
		}},
		Warnings: &[]api.Finding{{Code: "BW-APPROVAL-005", Message: "approved by its own\nrequester"}},
		Discards: &[]api.ConfigChange{},
	}
}

// OtherChange is of the same set, for another machine.
func OtherChange() api.Change {
	c := OneChange()
	c.ID, c.Machine, c.Digest, c.Approvals, c.ApprovalsCounting, c.CreatedAt = ChangeTwo, "worker-2", DigestTwo, []api.Approval{}, 0, c.CreatedAt.Add(time.Second)
	return c
}

// Strange is a change of the same set that somebody else asked for.
func Strange() api.Change {
	c := OtherChange()
	c.ID, c.Machine, c.Digest, c.Requester.Subject, c.CreatedAt = ChangeThree, "worker-3", DigestThree, "mallory", c.CreatedAt.Add(time.Second)
	return c
}

// Approved is a change after its last approval.
func Approved(c api.Change) api.Change {
	c.State, c.UseBy, c.ApprovalsCounting = api.ChangeStateApproved, new(StubNow.Add(59*time.Minute)), c.ApprovalsNeeded.Required
	return c
}

// DiffOf is what a change would change.
func DiffOf(c api.Change) api.ChangeDiff {
	return api.ChangeDiff{
		ID: c.ID, Digest: c.Digest, Base: c.Base, Compared: true,
		Changes: []api.ConfigChange{
			{Document: "v1alpha1", Path: "machine.nodeLabels.zone", After: "a"},
			{Document: "v1alpha1", Path: "machine.sysctls.\u0440ath", Before: 1000000, After: "fp:0123456789abcdef0123", Reboot: true},
		},
		Discards: []api.ConfigChange{{Document: "v1alpha1", Path: "machine.nodeLabels.staged", Before: true, After: nil}},
	}
}

// Attempt is one sending of a change, in this state.
func Attempt(c api.Change, state api.AttemptState) api.Attempt {
	return api.Attempt{
		ID: AttemptA, DecisionID: StubDecision, ChangeID: c.ID, Machine: c.Machine, MachineID: c.MachineID, Cluster: c.Cluster, State: state,
		Caller: c.Requester, Mode: c.Mode, Digest: c.Digest, Base: c.Base, OpenedAt: StubNow, Instance: "gateway-1", SettleAfter: StubNow.Add(time.Minute), Read: api.Digests{},
	}
}

// Applied is the answer to applying it.
func Applied(c api.Change, state api.AttemptState) api.Application {
	return api.Application{Attempt: Attempt(c, state), Warnings: []string{"BW-X-001: mind this"}, Message: "Applied configuration without a reboot"}
}
