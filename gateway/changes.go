package gateway

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// binding is what an approval of this request would be for, with the digests under the
// current key.
func (c *call) binding(l *look, machine, epoch uuid.UUID) control.Binding {
	return control.Binding{
		MachineID: machine, Identity: identityOf(l.evidence), Kind: c.kind(), Drift: c.drift(), Mode: c.asked.Apply.Mode,
		Digest: l.config.Digest, Size: int64(len(c.asked.Apply.Data)), Base: l.config.Base, Persistent: l.config.Persistent, Epoch: epoch,
	}
}

func identityOf(e upstream.Evidence) control.Identity {
	return control.Identity{NodeID: e.NodeID, ClusterID: e.ClusterID, SMBIOS: e.SMBIOS}
}

// match finds the live change that this request is, on what the machine runs now: every
// field of the binding is the same. A digest of an older key is compared under that key. While
// keys change, one text may be two changes: then it is the one that was asked for by its id,
// or the one that is approved.
func (c *call) match(l *look, machine, epoch uuid.UUID, live []control.Change) (found *control.Change) {
	want := c.binding(l, machine, epoch)
	for i := range live {
		ch := &live[i]
		have := want
		have.Digest = l.asked.under(ch.Digest, want.Digest)
		have.Base = l.active.under(ch.Base, want.Base)
		have.Persistent = l.persistent.under(ch.Persistent, want.Persistent)
		switch {
		case have != ch.Binding:
		case ch.ID == c.opened:
			return ch
		case found == nil, found.State == control.ChangeWaiting && ch.State == control.ChangeApproved:
			found = ch
		}
	}
	return found
}

// moved are the live changes that were proposed against something else than the machine runs,
// or has on its disk, those of them of which only the latter is so, and the digest of what that is. A digest of a key this process does not
// have is not compared.
func (c *call) moved(l *look, live []control.Change) (out, onDisk []control.ChangeID, by string) {
	by = l.config.Persistent
	for i := range live {
		active, errA := l.active.same(live[i].Base)
		persistent, errP := l.persistent.same(live[i].Persistent)
		if errA == nil && !active {
			by = l.config.Base
		}
		if errA == nil && !active || errP == nil && !persistent {
			out = append(out, live[i].ID)
			if errA != nil || active {
				onDisk = append(onDisk, live[i].ID)
			}
		}
	}
	return out, onDisk, by
}

// changeFacts is a change as a policy sees it.
func changeFacts(ch *control.Change, spender policy.Person, epoch uuid.UUID) *policy.Change {
	f := &policy.Change{
		ID: ch.ID.String(), State: string(ch.State), Kind: ch.Kind, Drift: ch.Drift.String(), Requester: ch.Requester, Spender: spender,
		Approvals: []policy.Approval{}, EpochCurrent: ch.Epoch == epoch,
	}
	for _, a := range ch.Approvals {
		f.Approvals = append(f.Approvals, policy.Approval{
			Approver: a.Approver, Kind: a.Kind, Groups: append([]string{}, a.Groups...), GroupsNow: slices.Clone(a.GroupsNow),
			Revoked: a.Revoked, EpochCurrent: a.Epoch == epoch,
		})
	}
	return f
}

// pendingFacts is a change that is about to be captured.
func (c *call) pendingFacts(id control.ChangeID) *policy.Change {
	return pendingChange(id, c.kind(), c.drift(), c.person())
}

func pendingChange(id control.ChangeID, kind string, drift control.DriftID, by policy.Person) *policy.Change {
	return &policy.Change{
		ID: id.String(), State: string(control.ChangeWaiting), Kind: kind, Drift: drift.String(), Requester: by, Spender: by,
		Approvals: []policy.Approval{}, EpochCurrent: true,
	}
}

// approvalCode is the one reason that an approval cures.
const approvalCode = "BW-APPROVAL-001"

// OnlyApprovals is true when nothing but approvals is missing.
func OnlyApprovals(d policy.Decision) bool {
	denials := d.Denials()
	return !d.Allow && len(denials) > 0 && !slices.ContainsFunc(denials, func(r policy.Reason) bool { return r.Code != approvalCode })
}

// liveNow are the changes whose clocks still run by a sampled clock.
func liveNow(list []control.Change, snap *control.Snapshot) []control.Change {
	now := snap.Now()
	return slices.DeleteFunc(list, func(ch control.Change) bool { return ch.Expired(now) })
}

// person is who calls, as changes name them.
func (c *call) person() policy.Person {
	return personOf(c.caller)
}

// review is what an approver looks at: the differences, what would be discarded, and what
// rules say besides.
func (c *call) review(l *look, d policy.Decision) control.Review {
	r := control.Review{Changes: l.config.Changes, Warnings: d.Warnings()}
	if c.adopts() {
		r.Warnings = append(slices.Clone(r.Warnings), c.adoptWarnings(l)...)
		return r
	}
	if !facts.SameText(l.evidence.Active.Text, l.evidence.Persistent.Text) {
		staged := c.g.reader.Read(c.ctx, l.evidence.Persistent.Text, l.evidence.Active.Text, l.evidence.Persistent.Text)
		r.Discards = staged.Changes
		if len(staged.Problems) > 0 {
			r.Discards = append(r.Discards, policy.ConfigChange{Document: "v1alpha1", Path: "", After: "what is staged cannot be read: " + staged.Problems[0].Message})
		}
	}
	return r
}

// adoptWarnings are what an approver of an adoption has to know besides the differences.
func (c *call) adoptWarnings(l *look) (out []policy.Reason) {
	warn := func(code, message string) {
		out = append(out, policy.Reason{Code: code, Message: message, Rule: "bronzeward", Severity: policy.SeverityWarn})
	}
	if c.act.unknown {
		warn(control.CodeNotCompared, "no copy of what was applied before is kept, so what changed cannot be shown: look at the machine")
	}
	if !facts.SameText(l.evidence.Active.Text, l.evidence.Persistent.Text) {
		warn("BW-DRIFT-006", "on its disk is another configuration than the one that runs, and the next reboot brings it: both are adopted")
	}
	return out
}

// newChangeID makes an id for a change that may be captured.
func newChangeID() control.ChangeID { return control.ChangeID(newID()) }

// retell says in a refusal which changes were overtaken by what the machine runs.
func retell(d policy.Decision, overtaken []control.ChangeID) policy.Decision {
	if len(overtaken) == 0 || !OnlyApprovals(d) {
		return d
	}
	names := make([]string, len(overtaken))
	for i, id := range overtaken {
		names[i] = id.String()
	}
	d.Reasons = append(slices.Clone(d.Reasons), policy.Reason{
		Code: "BW-CHANGE-002", Message: "superseded, because the machine runs, or has on its disk, another configuration by now: " + strings.Join(names, ", "),
		Rule: "bronzeward", Severity: policy.SeverityWarn,
	})
	return d
}
