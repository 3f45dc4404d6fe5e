package replay

import (
	"fmt"
	"slices"
	"strings"

	"bronzeward/audit"
	"bronzeward/policy"
)

// approvalCode is the reason that approvals cure. A proposal is told without it: it waits for them.
const approvalCode = "BW-APPROVAL-001"

// word is a verdict with the law's part of its reasons.
type word struct {
	allow     bool
	reasons   []policy.Reason
	approvals int
}

// ours is true for a reason that a gateway added to what the law said.
func ours(r policy.Reason) bool {
	return (r.Rule == "bronzeward" || strings.HasPrefix(r.Rule, "bronzeward/")) && !policy.EngineSaid(r)
}

// split parts the reasons of an entry into the law's and the gateway's.
func split(reasons []policy.Reason) (law, gateway []policy.Reason) {
	for _, r := range reasons {
		if ours(r) {
			gateway = append(gateway, r)
		} else {
			law = append(law, r)
		}
	}
	return law, gateway
}

// replacing are codes of a gateway whose denial stands in place of what the law said, so that the
// entry does not have the law's part: a change that is not the one asked for, a certificate that no
// law could give, a law that was overtaken.
var replacing = []string{"BW-CHANGE-002", "BW-INVARIANT-020", policy.CodeMalformed, policy.CodeNoPolicy}

// lawUnknown is true when an entry does not have what the law said.
func lawUnknown(law, gateway []policy.Reason) bool {
	return len(law) == 0 && slices.ContainsFunc(gateway, func(r policy.Reason) bool {
		return r.Severity == policy.SeverityDeny && slices.Contains(replacing, r.Code)
	})
}

// proposal is true for a call that was judged to become a change, and not to be sent.
func proposal(e *audit.Entry, facts *policy.Recorded) bool {
	return facts.Call != nil && e.Class == "act" && e.Method != "changes.apply"
}

// recorded is what an entry says was decided.
func recorded(e *audit.Entry, law []policy.Reason) word {
	return word{allow: e.Verdict == audit.Allowed, reasons: law, approvals: e.ApprovalsNeeded}
}

// told is what a caller would be told now that the law says d, with what the gateway added then. complete
// is false when the answer needs what was not looked up then.
func told(e *audit.Entry, facts *policy.Recorded, law, gateway []policy.Reason, d policy.Decision) (w word, complete bool) {
	w = word{reasons: slices.Clone(d.Reasons), approvals: d.Approvals.Required}
	if lookedUpNothing(facts, law) {
		// Refused before anything was looked up, for what refuses whatever it is about: the rest of
		// what a law says of it is said for want of a change.
		w.reasons = slices.DeleteFunc(w.reasons, func(r policy.Reason) bool { return !policy.RefusesAnyAct(r.Code) && !policy.EngineSaid(r) })
		if !d.Allow && !denies(w.reasons) {
			return w, false
		}
	}
	w.allow = d.Allow && !denies(gateway)
	if proposal(e, facts) && !w.allow && onlyApprovals(w.reasons, gateway) {
		w.allow = true
		w.reasons = slices.DeleteFunc(w.reasons, func(r policy.Reason) bool { return r.Code == approvalCode })
	}
	return w, true
}

// lookedUpNothing is true for an act that was refused by its caller and name alone.
func lookedUpNothing(facts *policy.Recorded, law []policy.Reason) bool {
	if facts.Act == nil || facts.Act.Change != nil || !denies(law) {
		return false
	}
	return !slices.ContainsFunc(law, func(r policy.Reason) bool { return !policy.RefusesAnyAct(r.Code) })
}

func denies(reasons []policy.Reason) bool {
	return slices.ContainsFunc(reasons, func(r policy.Reason) bool { return r.Severity == policy.SeverityDeny })
}

// onlyApprovals is true when approvals are all that is missing.
func onlyApprovals(lists ...[]policy.Reason) bool {
	missing := false
	for _, r := range slices.Concat(lists...) {
		if r.Severity != policy.SeverityDeny {
			continue
		}
		if r.Code != approvalCode {
			return false
		}
		missing = true
	}
	return missing
}

// differ says how one word is not the other; empty when it is. exact holds the words of reasons
// too, which a draft may well put otherwise.
func differ(was, now word, act, exact bool) Kind {
	switch {
	case was.allow && !now.allow:
		return NowDenied
	case !was.allow && now.allow:
		return NowAllowed
	case !slices.Equal(said(was.reasons), said(now.reasons)):
		return OtherReasons
	case !act && was.approvals != now.approvals:
		return OtherReasons
	case exact && !slices.Equal(was.reasons, now.reasons):
		return OtherReasons
	}
	return Same
}

// said are the codes of reasons, each once and sorted, with the step of those that do not refuse.
func said(reasons []policy.Reason) []string {
	out := make([]string, 0, len(reasons))
	for _, r := range reasons {
		if r.Severity == policy.SeverityDeny {
			out = append(out, r.Code)
		} else {
			out = append(out, fmt.Sprintf("%s (%s)", r.Code, r.Severity))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// without are the elements of one sorted list that the other does not have.
func without(list, other []string) []string {
	out := []string{}
	for _, s := range list {
		if !slices.Contains(other, s) {
			out = append(out, s)
		}
	}
	return out
}
