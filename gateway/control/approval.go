package control

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// Approval is one person's approval of one Change. Immutable; it may be revoked.
type Approval struct {
	ID       ApprovalID
	ChangeID ChangeID
	// Digest is the one the approver named, which is the change's.
	Digest   string
	Epoch    uuid.UUID
	Approver policy.Person
	Kind     string
	// Groups are the approver's as proven when approving.
	Groups []string
	// Self says in which ways the approval is of the approver's own: "requester". Empty
	// unless data allow self-approval.
	Self []string
	// Comment is what the approver said; empty when nothing.
	Comment string
	EntryID uuid.UUID
	At      time.Time

	// Revoked is true when it was taken back, or its approver was revoked.
	Revoked       bool
	RevokedReason string
	// SentAs is set by the act that took it back when the change was being sent already, and is
	// the attempt that is not stopped.
	SentAs uuid.UUID
	// GroupsNow are the approver's by the freshest token seen; null when none was.
	GroupsNow []string
}

// Counting gives the approvals that count for a spender under what the law asks, in the
// order they came, one per person. It is Go's own count, beside the policy's (I6): epoch is
// the current one. Losing a group does not withdraw an approval.
func (c *Change) Counting(q policy.Quorum, spender policy.Person, epoch uuid.UUID) []Approval {
	var out []Approval
	for _, a := range c.Approvals {
		counts := !a.Revoked && a.Kind == "human" && a.Digest == c.Digest && a.Epoch == epoch && c.Epoch == epoch &&
			slices.ContainsFunc(a.Groups, func(g string) bool { return slices.Contains(q.Groups, g) }) &&
			(q.SelfApproval || a.Approver != c.Requester && a.Approver != spender)
		if counts && !slices.ContainsFunc(out, func(b Approval) bool { return b.Approver == a.Approver }) {
			out = append(out, a)
		}
	}
	return out
}

// Selves says in which ways an approval is of the approver's own change.
func (c *Change) Selves(approver, spender policy.Person) []string {
	self := []string{}
	if approver == c.Requester {
		self = append(self, "requester")
	}
	if approver == spender {
		self = append(self, "spender")
	}
	return self
}
