package gateway

import (
	"fmt"
	"slices"

	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// holdsOf never is null: a rule that counts holds must see an empty list.
func holdsOf(l control.Locked) []policy.Hold {
	if l.Holds == nil {
		return []policy.Hold{}
	}
	return l.Holds
}

// stopping are the holds that stop an apply or dry run whatever the law says. A freeze lets through
// what changes nothing on the machine: a dry run, and a change that only adopts. An open drift lets
// a dry run through, and the one change that names it.
func stopping(f *policy.Facts) []policy.Hold {
	harmless := f.Call.DryRun || f.Change != nil && f.Change.Kind == control.KindAdopt
	return slices.DeleteFunc(slices.Clone(f.Holds), func(h policy.Hold) bool {
		switch h.Kind {
		case policy.HoldFreeze:
			return harmless
		case policy.HoldDrift:
			return f.Call.DryRun || h.ID != "" && f.Change != nil && f.Change.Kind != control.KindApply && f.Change.Drift == h.ID
		}
		return false
	})
}

// evidenceFacts is the Evidence as a policy sees it.
func evidenceFacts(e upstream.Evidence, m *control.Machine) *policy.Evidence {
	return &policy.Evidence{
		Version: e.Version, Minor: e.Minor, Stage: e.Stage, Type: e.Type,
		IdentityMatches: identityMatches(e, m),
		Staged:          !facts.SameText(e.Active.Text, e.Persistent.Text),
	}
}

// identityMatches compares all of a machine's identity with what the row is pinned to.
// A row that is not pinned matches nothing.
func identityMatches(e upstream.Evidence, m *control.Machine) bool {
	return m.Pinned() && identityOf(e) == m.Identity
}

// maxReadable is the largest request, in bytes, whose configuration can be read back: the
// answer to a Get holds the text twice (proto_spec and yaml_spec) and must fit into one
// message. A larger one would land, and its attempt hold the machine for good.
const maxReadable = (MaxMessage - 1<<20) / 2

// everyCall is what no policy can waive for any call, a read too: a revoked person is refused for good (I4), and what hands out a
// credential, or a secret of the machine's, goes to nobody, for it would be a way round this gateway.
func everyCall(f *policy.Facts, d policy.Decision) policy.Decision {
	if !d.Allow {
		return d
	}
	if f.Caller.Revoked {
		d = refusedToo(d, "BW-INVARIANT-001", "this identity is revoked", "")
	}
	switch f.Call.Class {
	case policy.ClassMint, policy.ClassSecretRead, policy.ClassUpload:
		d = refusedToo(d, "BW-INVARIANT-021", fmt.Sprintf("calls of class %s are forwarded for nobody", f.Call.Class), "")
	}
	return d
}

// invariants is I18 and what else no policy can waive for an apply: whatever the law
// allowed is denied when one of these does not hold. The law normally said so already,
// in better words. counting is Go's own count of the approvals that stand behind it.
func invariants(f *policy.Facts, d policy.Decision, counting int) policy.Decision {
	if !d.Allow {
		return d
	}
	must := func(holds bool, code, message string) {
		if !holds {
			d.Allow = false
			d.Reasons = append(d.Reasons, policy.Reason{
				Code: code, Message: message, Rule: "bronzeward/invariants", Severity: policy.SeverityDeny,
			})
		}
	}
	must(!f.Caller.Revoked, "BW-INVARIANT-001", "this identity is revoked")
	must(f.Caller.ProofEnds.IsZero() || f.Now.Before(f.Caller.ProofEnds), "BW-INVARIANT-017",
		"the credential this call was opened with has ended")
	must(f.Call.Targets == 1, "BW-INVARIANT-002", "an apply has exactly one machine")
	must(f.Machine != nil && f.Machine.Pinned, "BW-INVARIANT-003", "the machine is not pinned to an identity")
	adopts := f.Change != nil && f.Change.Kind == control.KindAdopt // nothing is sent
	must(adopts || f.Machine != nil && f.Machine.Role == "worker", "BW-INVARIANT-004", "only workers are applied to")
	if f.Evidence == nil || f.Config == nil {
		must(false, "BW-INVARIANT-005", "there is no evidence of what the machine runs")
		return d
	}
	must(adopts || f.Evidence.Type == "worker", "BW-INVARIANT-006", fmt.Sprintf("the machine says it is a %s, not a worker", f.Evidence.Type))
	must(f.Evidence.IdentityMatches, "BW-INVARIANT-007", "the machine behind the address is not the one that was pinned")
	must(f.Evidence.Stage == "running" || f.Evidence.Stage == "booting",
		"BW-INVARIANT-008", fmt.Sprintf("the machine is in stage %q", f.Evidence.Stage))
	must(f.Evidence.Minor == facts.SupportedMinor, "BW-INVARIANT-009",
		fmt.Sprintf("the machine runs Talos %s; applies are judged for %s", f.Evidence.Version, facts.SupportedMinor))
	must(len(f.Config.Problems) == 0, "BW-INVARIANT-010", "the configuration is not one that can be read whole")
	for _, h := range stopping(f) {
		d.Allow = false
		d.Reasons = append(d.Reasons, policy.Reason{
			Code: "BW-INVARIANT-011", Message: fmt.Sprintf("the machine's scope is held (%s %s)", h.Kind, h.ID),
			Hint: "bronzeward machines show " + hintMachine(f), Rule: "bronzeward/invariants", Severity: policy.SeverityDeny,
		})
	}
	if f.Call.DryRun {
		must(!f.Evidence.Staged, "BW-INVARIANT-012", "a dry run would disturb what is staged or on trial")
		must(f.Call.Mode == "no-reboot" || f.Call.Mode == "auto", "BW-INVARIANT-013", "a dry run is of mode no-reboot or auto")
	} else {
		must(f.Call.ModeGiven && f.Call.Mode == "no-reboot", "BW-INVARIANT-014", "only mode no-reboot is forwarded")
		must(f.Call.Size <= maxReadable, "BW-INVARIANT-018", fmt.Sprintf(
			"the request has %d bytes; what has more than %d could not be read back from the machine", f.Call.Size, maxReadable))
		// Where approvals are needed, their count below says it.
		must(adopts || !f.Evidence.Staged || counting > 0 || d.Approvals.Required > 0, "BW-INVARIANT-015", "what is staged or on trial would be discarded, and no approval says so")
		if counting < d.Approvals.Required {
			d.Allow = false
			d.Reasons = append(d.Reasons, tooFew(f, d.Approvals, counting))
		}
	}
	return d
}

// hintMachine is the name of the machine as a hint shows it.
func hintMachine(f *policy.Facts) string {
	if f.Machine == nil {
		return "NODE"
	}
	return f.Machine.Name
}

// tooFew is the one refusal of an invariant that approvals cure, so it names the change.
func tooFew(f *policy.Facts, q policy.Quorum, counting int) policy.Reason {
	needed, count := "1 approval is needed", "1 counts"
	if q.Required != 1 {
		needed = fmt.Sprintf("%d approvals are needed", q.Required)
	}
	if counting != 1 {
		count = fmt.Sprintf("%d count", counting)
	}
	r := policy.Reason{
		Code: approvalCode, Rule: "bronzeward/invariants", Severity: policy.SeverityDeny,
		Message: needed + " and " + count,
	}
	if f.Change != nil {
		r.Message = fmt.Sprintf("change %s: %s", f.Change.ID, r.Message)
		r.Hint = fmt.Sprintf("bronzeward changes show %s, and once it is approved: bronzeward changes apply %s", f.Change.ID, f.Change.ID)
	}
	return r
}
