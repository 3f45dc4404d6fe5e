# METADATA
# title: acts
# description: The one answer about an act on Bronzeward itself.
package bronzeward.api

import data.bronzeward.lib.caller
import data.bronzeward.lib.finding

# METADATA
# title: decision
# description: The shape is read strictly; anything else is a denial.
# entrypoint: true
decision := {
	"allow": allow,
	"reasons": reasons,
	"approvals": {"required": required, "groups": ["policy-admins"], "self_approval": false},
}

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

reasons := [reason |
	some found in deny
	reason := object.union(found, {"rule": "data.bronzeward.api", "severity": "deny"})
]

# METADATA
# title: the caller is revoked
# description: A revocation is for good.
# custom:
#   code: BW-ACT-001
#   hint: ""
deny contains finding.because(rego.metadata.rule(), "this identity is revoked, for good") if {
	not input.caller.revoked == false
}

# METADATA
# title: the act is unknown
# description: What is not in the table is refused.
# custom:
#   code: BW-ACT-002
#   hint: ""
deny contains found if {
	not data.bronzeward.api.acts[input.act]
	found := finding.because(rego.metadata.rule(), sprintf("no rule knows the act %q", [input.act]))
}

# METADATA
# title: the role is missing
# description: None of the caller's roles may do this.
# custom:
#   code: BW-ACT-003
#   hint: ""
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
#   hint: ""
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
#   hint: ""
deny contains finding.because(rego.metadata.rule(), "the proof of this caller has ended") if {
	not proof_lasts
}

proof_lasts if {
	not startswith(input.caller.proof_ends, "0001-")
	time.parse_rfc3339_ns(input.caller.proof_ends) > time.parse_rfc3339_ns(input.now)
}
