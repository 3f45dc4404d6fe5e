# METADATA
# title: approvals
# description: |
#   How many people must have agreed to exactly this change, and whether enough have. Go
#   counts again, under the locks.
package bronzeward.rules.approvals

import data.bronzeward.lib.change
import data.bronzeward.lib.finding
import data.bronzeward.lib.quorum as needed

# METADATA
# title: quorum
# description: What every apply needs; other areas may ask for more.
quorum contains data.bronzeward.quorum.required

# METADATA
# title: approvals are missing
# description: Fewer people have approved the change than the law requires.
# custom:
#   code: BW-APPROVAL-001
#   hint: "bronzeward changes show {change}, and once it is approved: bronzeward changes apply {change}"
deny contains found if {
	input.call.class == "apply"
	change.applying
	needed.required > count(approvers)
	found := finding.because(rego.metadata.rule(), sprintf("%s needs %s from %s%s%s%s", [
		finding.change, needed.counted(needed.required), needed.named, given, own_does_not_count, nothing_to_do,
	]))
}

# METADATA
# title: the change is of another epoch
# description: What was approved before a recovery authorizes nothing.
# custom:
#   code: BW-APPROVAL-002
#   hint: "propose it again in this epoch: talosctl -n {machine} apply-config --mode=no-reboot -f FILE"
deny contains found if {
	input.call.class == "apply"
	change.applying
	is_object(input.change)
	not input.change.epoch_current == true
	found := finding.because(rego.metadata.rule(), sprintf("%s is of another epoch and authorizes nothing", [finding.change]))
}

# METADATA
# title: the quorum is not known
# description: Without a number nothing is enough.
# custom:
#   code: BW-APPROVAL-003
#   hint: a policy-admin sets quorum.required, and every number of config.approvals, to a whole number
deny contains finding.because(rego.metadata.rule(), "how many approvals this needs is not known") if {
	input.call.class == "apply"
	change.applying
	not known
}

# A helper, because an undefined argument would make the negated call undefined too.
known if is_number(needed.required)

# METADATA
# title: self-approved
# description: Where data lets one's own approval count, it says whose it is.
# custom:
#   code: BW-APPROVAL-005
#   hint: "to have another person look at it: bronzeward changes show {change}"
deny contains found if {
	input.call.class == "apply"
	needed.alone
	change.applying
	some approver in approvers
	own := [part | some part in ["requester", "spender"]; input.change[part] == approver]
	count(own) > 0
	found := finding.because(rego.metadata.rule(), sprintf("self-approved: %s is the %s", [approver.subject, concat(" and the ", own)]))
}

# METADATA
# title: the change is not live
# description: Only a change that waits or is approved may be applied; all else is past.
# custom:
#   code: BW-APPROVAL-009
#   hint: bronzeward changes show {change}
deny contains found if {
	input.call.class == "apply"
	change.applying
	is_object(input.change)
	not live
	found := finding.because(rego.metadata.rule(), sprintf("%s is %s", [finding.change, object.get(input.change, "state", "in no state")]))
}

live if input.change.state in {"waiting", "approved"}

# METADATA
# title: approvers
# description: The people whose approval of the change counts.
approvers contains approval.approver if {
	input.change.epoch_current == true
	some approval in input.change.approvals
	approval.kind == "human"
	approval.revoked == false
	approval.epoch_current == true
	needed.member(approval.groups)
	remains(approval.groups_now)
	another(approval.approver)
}

# Who loses a group has approved nevertheless, unless data asks for more; then groups that
# nobody has seen since are none.
remains(_) if data.bronzeward.quorum.still_member == false

remains(groups_now) if needed.member(groups_now)

another(_) if needed.alone

another(approver) if {
	approver != input.change.requester
	approver != input.change.spender
}

# Who has approved and would apply is told why their own approval is not enough.
default own_does_not_count := ""

own_does_not_count := "; yours does not count when you apply it yourself" if {
	not needed.alone
	some approval in input.change.approvals
	approval.revoked == false
	approval.approver == input.change.spender
}

default nothing_to_do := ""

nothing_to_do := "; the machine runs exactly this already" if {
	input.config.identical == true
	not landing
}

# What the machine runs is not known for good while something may still land.
landing if {
	some hold in input.holds
	hold.kind in {"open-attempt", "unresolved-attempt"}
	hold.scope == "machine"
}

default given := ""

given := sprintf(", %d given", [count(approvers)]) if count(approvers) > 0
