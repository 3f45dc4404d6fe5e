# METADATA
# title: admission
# description: |
#   The one answer about a call. It collects what the rule areas say and adds nothing of
#   its own: an area is a folder under bronzeward/rules with a set "deny", and may have a
#   set "grant" of Talos roles and a set "quorum" of required counts of approvals.
package bronzeward.admission

import data.bronzeward.lib.caller
import data.bronzeward.lib.change
import data.bronzeward.lib.quorum

# METADATA
# title: decision
# description: The shape is read strictly; anything else is a denial.
# entrypoint: true
decision := {
	"allow": allow,
	"reasons": reasons,
	"approvals": approvals,
	"upstream_roles": upstream_roles,
	"redact": redact,
}

# METADATA
# scope: document
# title: allow
# description: Some rule gives a role to go upstream with, and none refuses.
default allow := false

allow if {
	count(upstream_roles) > 0
	not refused
}

# METADATA
# title: refused
# description: Some reason stands on the last step of the ladder.
refused if {
	some reason in reasons
	reason.severity == "deny"
}

# METADATA
# title: reasons
# description: What every area says, with the step its code stands on.
reasons contains reason if {
	some area
	some found in data.bronzeward.rules[area].deny
	reason := {
		"code": found.code,
		"message": found.message,
		"hint": found.hint,
		"rule": concat("", ["data.bronzeward.rules.", area]),
		"severity": severity(found.code),
	}
}

# METADATA
# title: severity
# description: The step of the ladder a code stands on; deny unless data says otherwise.
severity(code) := step if {
	step := data.bronzeward.ladder[code]
	step in {"deny", "warn", "shadow"}
} else := "deny"

# METADATA
# title: upstream roles
# description: The Talos roles the areas grant.
upstream_roles := {role | some area; some role in data.bronzeward.rules[area].grant}

# METADATA
# title: approvals
# description: What an apply needs; nothing else needs any.
approvals := {
	"required": required,
	"groups": data.bronzeward.quorum.groups,
	"self_approval": data.bronzeward.quorum.self_approval,
}

# METADATA
# scope: document
# title: required
# description: The highest count an area asks for.
default required := 0

required := quorum.required if {
	input.call.class == "apply"
	change.applying
}

# METADATA
# scope: document
# title: redact
# description: Secrets are hidden unless one of the caller's roles may see them.
default redact := true

redact := false if {
	some role in caller.roles
	data.bronzeward.permissions[role].see_secrets == true
}
