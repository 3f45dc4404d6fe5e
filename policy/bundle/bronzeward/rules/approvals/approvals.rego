# METADATA
# title: approvals
# description: |
#   How many people must have agreed to exactly this change, and whether enough have. Go
#   counts again, under the locks.
package bronzeward.rules.approvals

import data.bronzeward.lib.change
import data.bronzeward.lib.finding

# METADATA
# title: quorum
# description: What every apply needs; other areas may ask for more.
quorum contains data.bronzeward.quorum.required

# METADATA
# title: approvals are missing
# description: Fewer people have approved the change than the law requires.
# custom:
#   code: BW-APPROVAL-001
#   hint: ""
deny contains found if {
	input.call.class == "apply"
	change.applying
	required > count(approvers)
	found := finding.because(rego.metadata.rule(), sprintf("approvals from %s: %d needed, %d given%s", [
		concat(" or ", data.bronzeward.quorum.groups), required, count(approvers), which,
	]))
}

# METADATA
# title: the change is of another epoch
# description: What was approved before a recovery authorizes nothing.
# custom:
#   code: BW-APPROVAL-002
#   hint: ""
deny contains found if {
	input.call.class == "apply"
	change.applying
	input.change.id
	not input.change.epoch_current == true
	found := finding.because(rego.metadata.rule(), sprintf("change %s is of another epoch and authorizes nothing", [input.change.id]))
}

# METADATA
# title: the quorum is not known
# description: Without a number nothing is enough.
# custom:
#   code: BW-APPROVAL-003
#   hint: ""
deny contains finding.because(rego.metadata.rule(), "how many approvals this needs is not known") if {
	input.call.class == "apply"
	change.applying
	not known
}

# A helper, because an undefined argument would make the negated call undefined too.
known if is_number(required)

# METADATA
# title: required
# description: The highest count any area asks for.
required := max({n | some area; some n in data.bronzeward.rules[area].quorum})

# METADATA
# title: approvers
# description: The people whose approval of the change counts.
approvers contains approval.approver if {
	input.change.epoch_current == true
	some approval in input.change.approvals
	counts(approval)
}

counts(approval) if {
	approval.kind == "human"
	approval.revoked == false
	approval.epoch_current == true
	member(approval.groups)
	still_member(approval.groups_now)
	another(approval.approver)
}

member(groups) if {
	some group in groups
	group in data.bronzeward.quorum.groups
}

still_member(null)

still_member(groups) if member(groups)

another(_) if data.bronzeward.quorum.self_approval == true

another(approver) if {
	approver != input.change.requester
	approver != input.change.spender
}

default which := ""

which := sprintf(" (change %s)", [input.change.id]) if input.change.id
