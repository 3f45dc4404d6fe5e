# METADATA
# title: acts
# description: The one answer about an act on Bronzeward itself.
package bronzeward.api

import data.bronzeward.lib.caller
import data.bronzeward.lib.finding
import data.bronzeward.lib.quorum

# METADATA
# title: decision
# description: The shape is read strictly; anything else is a denial.
# entrypoint: true
decision := object.union(
	{
		"allow": allow,
		"reasons": reasons,
		"approvals": {"required": required, "groups": ["policy-admins"], "self_approval": false},
	},
	granted,
)

# METADATA
# scope: document
# title: allow
# description: The act is in the table, one of the caller's roles may do it, and nothing refuses.
default allow := false

allow if {
	data.bronzeward.api.acts[input.act]
	count(deny) == 0
}

# METADATA
# scope: document
# title: required
# description: How many besides the caller must agree.
default required := 0

required := data.bronzeward.api.policy_approvals if input.act in {"policy.activate", "policy.rollback"}

# METADATA
# scope: document
# title: granted
# description: The most hours a certificate may last, said of certificates.issue alone.
default granted := {}

granted := {"certificate_hours": hours} if input.act == "certificates.issue"

hours := data.bronzeward.api.certificates.hours if data.bronzeward.api.certificates.hours in numbers.range(1, 24)

reasons := [reason |
	some found in deny
	reason := object.union(found, {"rule": "data.bronzeward.api", "severity": "deny"})
]

# METADATA
# title: the caller is revoked
# description: A revocation is for good.
# custom:
#   code: BW-ACT-001
#   hint: "a revocation has no undo: somebody else does this"
deny contains finding.because(rego.metadata.rule(), sprintf("you, %s, are revoked, for good", [caller.named])) if {
	not input.caller.revoked == false
}

# METADATA
# title: the act is unknown
# description: What is not in the table is refused.
# custom:
#   code: BW-ACT-002
#   hint: a policy-admin gives the act a row in bronzeward/api/data.yaml
deny contains found if {
	not data.bronzeward.api.acts[input.act]
	found := finding.because(rego.metadata.rule(), sprintf("no rule knows the act %q", [input.act]))
}

# METADATA
# title: the role is missing
# description: None of the caller's roles may do this.
# custom:
#   code: BW-ACT-003
#   hint: ask somebody with the role, or be in a group that role_bindings gives it
deny contains found if {
	act := data.bronzeward.api.acts[input.act]
	needed := {role | some role in act.roles}
	count(needed & caller.roles) == 0
	found := finding.because(rego.metadata.rule(), sprintf("%s needs the role %s", [input.act, concat(" or ", sort(needed))]))
}

# METADATA
# title: only for people
# description: Automation may not do what asks for a person's judgement.
# custom:
#   code: BW-ACT-004
#   hint: "a person does it: bronzeward login"
deny contains found if {
	act := data.bronzeward.api.acts[input.act]
	not act.human == false
	input.caller.kind != "human"
	found := finding.because(rego.metadata.rule(), sprintf("%s is for people, and this caller is automation", [input.act]))
}

# METADATA
# title: the proof has ended
# description: A credential that has ended proves nothing.
# custom:
#   code: BW-ACT-005
#   hint: bronzeward login
deny contains finding.because(rego.metadata.rule(), "the proof of this caller has ended") if {
	not proof_lasts
}

proof_lasts if {
	not startswith(input.caller.proof_ends, "0001-")
	time.parse_rfc3339_ns(input.caller.proof_ends) > time.parse_rfc3339_ns(input.now)
}

# METADATA
# title: somebody else's change
# description: An operator takes back what they proposed; an approver cancels any change.
# custom:
#   code: BW-ACT-006
#   hint: "bronzeward changes cancel {change} as its requester or as an approver"
deny contains found if {
	input.act == "changes.cancel-own"
	known
	not own
	found := finding.because(rego.metadata.rule(), sprintf("%s was proposed by somebody else; its requester or an approver cancels it", [finding.change]))
}

# METADATA
# title: the change is not known
# description: What is done to a change is judged on the change, or not at all.
# custom:
#   code: BW-ACT-007
#   hint: bronzeward changes list
deny contains found if {
	startswith(input.act, "changes.")
	not input.act in {"changes.read", "changes.submit"}
	not known
	found := finding.because(rego.metadata.rule(), sprintf("%s names no change that is known", [input.act]))
}

# METADATA
# title: no lifetime is granted
# description: A certificate lasts as long as data says, and data has to say it.
# custom:
#   code: BW-ACT-008
#   hint: a policy-admin sets certificates.hours in bronzeward/api/data.yaml
deny contains finding.because(rego.metadata.rule(), "certificates.hours is no whole number from 1 to 24, so no certificate is issued") if {
	input.act == "certificates.issue"
	not hours
}

# METADATA
# title: a certificate does not renew itself
# description: Who stole one would have it for ever.
# custom:
#   code: BW-ACT-009
#   hint: show a token of your identity provider
deny contains finding.because(rego.metadata.rule(), "a certificate is issued on a token, and none was shown") if {
	input.act == "certificates.issue"
	not token_shown
}

# METADATA
# title: not asked to approve
# description: The approval would not count, so it is not taken.
# custom:
#   code: BW-APPROVAL-006
#   hint: "somebody of {approvers} approves it: bronzeward changes approve {change}"
deny contains found if {
	input.act == "changes.approve"
	not asked
	found := finding.because(rego.metadata.rule(), sprintf("%s needs approval from %s, and %s is in none of these groups", [finding.change, quorum.named, caller.named]))
}

# METADATA
# title: one's own change
# description: Who asks does not also agree, unless data says so.
# custom:
#   code: BW-APPROVAL-007
#   hint: "somebody else of {approvers} approves it: bronzeward changes approve {change}"
deny contains found if {
	input.act == "changes.approve"
	own
	not quorum.alone
	found := finding.because(rego.metadata.rule(), sprintf("%s was proposed by %s, and nobody approves their own", [finding.change, caller.named]))
}

# METADATA
# title: only people approve
# description: Whatever the table of acts says.
# custom:
#   code: BW-APPROVAL-008
#   hint: "a person of {approvers} approves it: bronzeward changes approve {change}"
deny contains finding.because(rego.metadata.rule(), "only people approve, and this caller is automation") if {
	input.act == "changes.approve"
	not input.caller.kind == "human"
}

asked if quorum.member(input.caller.groups)

token_shown if input.caller.proof in {"token", "certificate+token"}

# A helper, because an undefined argument would make the negated call undefined too.
known if {
	is_object(input.change)
	input.change.id != ""
}

own if input.change.requester == caller.person
