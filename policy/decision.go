package policy

import (
	"slices"
	"strings"
)

// Severity is a rule's step on the ladder shadow → warn → deny.
type Severity string

// The ladder. Only Deny refuses; Warn is shown to the caller; Shadow is recorded.
const (
	SeverityDeny   Severity = "deny"
	SeverityWarn   Severity = "warn"
	SeverityShadow Severity = "shadow"
)

// Decision is the verdict on one Call.
type Decision struct {
	Allow   bool     `json:"allow"`
	Reasons []Reason `json:"reasons"`
	// Approvals is what the law requires before an apply may go on; Go counts them.
	Approvals Quorum `json:"approvals"`
	// UpstreamRoles go to the node as talos-role; never empty when Allow is true.
	UpstreamRoles []string `json:"upstream_roles"`
	// Redact is true unless the caller's role may see secrets in diffs and error texts.
	Redact bool `json:"redact"`
	// CertificateHours is the most hours a certificate may last, of an act that issues one;
	// zero grants none.
	CertificateHours int `json:"certificate_hours,omitempty"`
	// Revision is the bundle's SHA-256 in hex, empty when no bundle judged.
	Revision string `json:"revision"`
	// OPA is the version of the engine that judged.
	OPA string `json:"opa"`
}

// Reason is one thing a rule said.
type Reason struct {
	Code     string   `json:"code"`
	Message  string   `json:"message"`
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Hint     string   `json:"hint"`
}

// Quorum is how many approvals the law requires, and from whom.
type Quorum struct {
	Required     int      `json:"required"`
	Groups       []string `json:"groups"`
	SelfApproval bool     `json:"self_approval"`
}

// Denials are the reasons that refuse.
func (d Decision) Denials() []Reason { return d.bySeverity(SeverityDeny) }

// Told are the denials as a person is told them: that approvals are missing is left out where
// something else refuses and there is no change that anybody could approve. The book has all.
func (d Decision) Told() []Reason {
	all := d.Denials()
	told := slices.DeleteFunc(slices.Clone(all), func(r Reason) bool {
		return r.Code == codeApprovals && !strings.Contains(r.Hint, changePrefix)
	})
	if len(told) == 0 {
		return all
	}
	return told
}

// codeApprovals says that approvals are missing; its hint names the change, if there is one.
const codeApprovals = "BW-APPROVAL-001"

// changePrefix begins every id of a change.
const changePrefix = "chg_"

// Warnings are the reasons that are shown and do not refuse.
func (d Decision) Warnings() []Reason { return d.bySeverity(SeverityWarn) }

func (d Decision) bySeverity(s Severity) []Reason {
	var out []Reason
	for _, r := range d.Reasons {
		if r.Severity == s {
			out = append(out, r)
		}
	}
	return out
}

// Codes are the codes of all reasons, in order.
func (d Decision) Codes() []string {
	out := make([]string, 0, len(d.Reasons))
	for _, r := range d.Reasons {
		out = append(out, r.Code)
	}
	return out
}

// Deny builds a refusal that no bundle made: the engine's own, fail-closed words.
func Deny(code, message, hint string) Decision {
	return Decision{
		Reasons:       []Reason{{Code: code, Message: message, Rule: "bronzeward", Severity: SeverityDeny, Hint: hint}},
		Approvals:     Quorum{Groups: []string{}},
		UpstreamRoles: []string{},
		Redact:        true,
	}
}
