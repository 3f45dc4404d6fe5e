package httpapi

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// viewChange is a change as clients read it. Without a review, discards and warnings are
// left out. epoch is the current one: approvals of another count for nothing.
func viewChange(c *control.Change, review *control.Review, epoch uuid.UUID) api.Change {
	v := api.Change{
		ID: c.ID.String(), State: api.ChangeState(c.State), Kind: api.ChangeKind(c.Kind),
		Machine: c.MachineName, MachineID: c.MachineID.String(), Cluster: c.Cluster, Mode: c.Mode,
		Digest: c.Digest, Base: api.Digests{Active: c.Base, Persistent: c.Persistent}, Set: c.Set,
		Requester: viewPerson(c.Requester), CreatedAt: c.CreatedAt.UTC(), ApproveBy: c.ApproveBy.UTC(), UseBy: utc(c.UseBy),
		Reason: c.Reason, OvertakenBy: c.OvertakenBy, AttemptID: idIfAny(c.AttemptID), DecisionID: c.EntryID.String(),
		Size: c.Size, Sealed: c.Sealed,
		ApprovalsNeeded: api.ApprovalsNeeded{
			Required: c.Asked.Required, Groups: list(c.Asked.Groups), SelfApproval: c.Asked.SelfApproval,
		},
		// Nobody has said yet who applies it: for a spender who approved it, one less counts.
		ApprovalsCounting: len(c.Counting(c.Asked, policy.Person{}, epoch)),
		Approvals:         make([]api.Approval, 0, len(c.Approvals)),
		ChangesCount:      countIfKnown(c),
		DriftID:           c.Drift.String(), Why: c.Why,
	}
	for i := range c.Approvals {
		v.Approvals = append(v.Approvals, viewApproval(&c.Approvals[i], c.Asked.Groups))
	}
	if review != nil {
		warnings, discards := []api.Finding{}, viewConfigChanges(review.Discards)
		for _, r := range review.Warnings {
			warnings = append(warnings, api.Finding{Code: r.Code, Message: r.Message})
		}
		v.Warnings, v.Discards = &warnings, &discards
	}
	return v
}

// countIfKnown is how many values a change changes; null where nobody can say.
func countIfKnown(c *control.Change) *int {
	if c.NotCompared {
		return nil
	}
	return &c.Diffs
}

// viewApproval is an approval as clients read it; asked are the groups its change needs.
func viewApproval(a *control.Approval, asked []string) api.Approval {
	v := api.Approval{
		ID: a.ID.String(), ChangeID: a.ChangeID.String(), Digest: a.Digest, Approver: viewPerson(a.Approver), Kind: api.Kind(a.Kind),
		Groups: list(a.Groups), At: a.At.UTC(), Revoked: a.Revoked, RevokedReason: a.RevokedReason,
		Self: list(a.Self), Comment: a.Comment, Notes: []string{}, DecisionID: a.EntryID.String(),
	}
	if a.SentAs != uuid.Nil {
		v.Notes = append(v.Notes, "the change is being sent as attempt "+a.SentAs.String()+", which is not stopped; if it changes nothing, the change comes back without this approval")
	}
	if a.GroupsNow != nil {
		for _, group := range asked {
			if slices.Contains(a.Groups, group) && !slices.Contains(a.GroupsNow, group) {
				v.Notes = append(v.Notes, "approver no longer in "+group)
			}
		}
	}
	return v
}

func viewConfigChanges(changes []policy.ConfigChange) []api.ConfigChange {
	out := make([]api.ConfigChange, 0, len(changes))
	for _, c := range changes {
		out = append(out, api.ConfigChange{Document: c.Document, Path: c.Path, Before: c.Before, After: c.After, Reboot: c.Reboot})
	}
	return out
}

func viewDiff(c *control.Change, review *control.Review) api.ChangeDiff {
	return api.ChangeDiff{
		ID: c.ID.String(), Digest: c.Digest, Base: api.Digests{Active: c.Base, Persistent: c.Persistent},
		Changes: viewConfigChanges(review.Changes), Compared: review.Compared(), Discards: viewConfigChanges(review.Discards),
	}
}

func viewPerson(p policy.Person) api.Person { return api.Person{Issuer: p.Issuer, Subject: p.Subject} }

// list is never null in JSON.
func list(s []string) []string { return append([]string{}, s...) }

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}

func idIfAny(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}
