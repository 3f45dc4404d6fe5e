# METADATA
# title: holds
# description: A machine or cluster that is held takes no change.
package bronzeward.rules.holds

import data.bronzeward.lib.change
import data.bronzeward.lib.finding

# METADATA
# title: an attempt is open
# description: One apply at a time per machine. A dry run waits too, as Talos refuses two at once.
# custom:
#   code: BW-HOLDS-001
#   hint: bronzeward attempts show {hold}
deny contains found if {
	input.holds[0]
	some hold in stopping
	hold.kind == "open-attempt"
	hold.scope == "machine"
	found := about(rego.metadata.rule(), sprintf("attempt %s of %s is under way on %s%s", [hold.id, who(hold), finding.machine, since(hold)]), hold)
}

# METADATA
# title: an attempt is unresolved
# description: Nobody knows what the last apply did. A dry run waits too.
# custom:
#   code: BW-HOLDS-002
#   hint: bronzeward attempts show {hold}
deny contains found if {
	input.holds[0]
	some hold in stopping
	hold.kind == "unresolved-attempt"
	hold.scope == "machine"
	found := about(
		rego.metadata.rule(),
		sprintf(
			"nobody knows yet what attempt %s of %s did on %s%s; it is freed when the configuration shows up, or when a recovery-admin accounts for it",
			[hold.id, who(hold), finding.machine, since(hold)],
		),
		hold,
	)
}

# METADATA
# title: frozen
# description: Somebody froze it; an approver lifts it. What only adopts changes nothing on the machine.
# custom:
#   code: BW-HOLDS-003
#   hint: "an approver: bronzeward machines unfreeze {machine} --reason TEXT"
deny contains found if {
	input.holds[0]
	some hold in stopping
	hold.kind == "freeze"
	not adopts
	found := about(
		rego.metadata.rule(),
		sprintf("%s is frozen by %s%s%s; an approver lifts it", [finding.machine, who(hold), since(hold), why(hold)]),
		hold,
	)
}

# METADATA
# title: drift is open
# description: The configuration is not the last one known as applied. Only a change that settles the drift may run.
# custom:
#   code: BW-HOLDS-004
#   hint: bronzeward drift show {hold}
deny contains found if {
	input.holds[0]
	some hold in stopping
	hold.kind == "drift"
	not settles(hold)
	found := listed(about(rego.metadata.rule(), sprintf("the configuration of %s has drifted (%s); adopt or revert it first", [finding.machine, found_as(hold)]), hold), hold)
}

# METADATA
# title: recovery
# description: After a restore every machine is held until it is observed and released.
# custom:
#   code: BW-HOLDS-005
#   hint: bronzeward machines show {machine}
deny contains found if {
	input.holds[0]
	some hold in stopping
	hold.kind == "recovery"
	found := about(rego.metadata.rule(), sprintf("%s is held by recovery until a recovery-admin releases it", [finding.machine]), hold)
}

# METADATA
# title: the hold is unknown
# description: A hold nobody has a rule for still holds.
# custom:
#   code: BW-HOLDS-006
#   hint: bronzeward machines show {machine}
deny contains found if {
	input.holds[0]
	some hold in stopping
	not hold.kind in {"open-attempt", "unresolved-attempt", "freeze", "drift", "recovery", "retired"}
	found := about(rego.metadata.rule(), sprintf("%s is held by %q", [finding.machine, hold.kind]), hold)
}

# METADATA
# title: the cluster's slots are taken
# description: The rollout limit of the cluster is reached.
# custom:
#   code: BW-HOLDS-007
#   hint: bronzeward attempts show {hold}
deny contains found if {
	input.holds[0]
	some hold in stopping
	hold.kind in {"open-attempt", "unresolved-attempt"}
	hold.scope != "machine"
	found := about(
		rego.metadata.rule(),
		sprintf(
			"the rollout limit of cluster %s is used up by attempt %s of %s%s%s; it is free when that ends, or when an approver raises the limit",
			[cluster, hold.id, who(hold), since(hold), why(hold)],
		),
		hold,
	)
}

# METADATA
# title: the holds are not known
# description: A change without a list of holds was not judged under the locks.
# custom:
#   code: BW-HOLDS-008
#   hint: "try again; what holds it: bronzeward machines show {machine}"
deny contains finding.because(rego.metadata.rule(), "whether the machine is held is not known") if {
	not known
	change.mutating
}

# METADATA
# title: retired
# description: Somebody said that the machine never comes back. That is for good.
# custom:
#   code: BW-HOLDS-009
#   hint: bronzeward machines show {machine}
deny contains found if {
	input.holds[0]
	some hold in stopping
	hold.kind == "retired"
	found := about(
		rego.metadata.rule(),
		sprintf("%s was retired by %s%s%s; it takes no change any more", [finding.machine, who(hold), since(hold), why(hold)]),
		hold,
	)
}

known if is_array(input.holds)

# METADATA
# scope: document
# title: stopping
# description: |
#   The holds that matter to this call: all of them to a change, and those of the machine
#   itself to a dry run, a freeze and a drift aside: it changes nothing.
stopping contains hold if {
	change.mutating
	some hold in input.holds
}

stopping contains hold if {
	input.call.class == "apply"
	change.dry_run
	change.final
	some hold in input.holds
	not hold.kind in {"freeze", "drift"}
	hold.scope == "machine"
}

adopts if input.change.kind == "adopt"

# Only the change that names the drift settles it.
settles(hold) if {
	input.change.kind in {"revert", "adopt"}
	hold.id != ""
	input.change.drift == hold.id
}

# A drift that the evidence of a call shows has no id before it was looked at.
default found_as(_) := "it is not open yet, and is within a moment"

found_as(hold) := hold.id if hold.id != ""

listed(found, hold) := object.union(found, {"hint": "bronzeward drift list --open"}) if object.get(hold, "id", "") == ""

listed(found, hold) := found if object.get(hold, "id", "") != ""

# What a hold does not say is left out: that it holds is said all the same.
default who(_) := "somebody"

who(hold) := hold.holder.subject

default since(_) := ""

since(hold) := concat("", [" since ", hold.since])

default why(_) := ""

why(hold) := concat("", [": ", hold.reason]) if hold.reason != ""

default cluster := "unknown"

cluster := input.machine.cluster

about(rule, message, hold) := finding.filled(rule, message, {"{hold}": object.get(hold, "id", "ID")})
