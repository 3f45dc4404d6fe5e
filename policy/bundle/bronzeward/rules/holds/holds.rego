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
	some hold in stopping
	hold.kind == "open-attempt"
	hold.scope == "machine"
	found := about(rego.metadata.rule(), sprintf("attempt %s is under way on %s", [hold.id, finding.machine]), hold)
}

# METADATA
# title: an attempt is unresolved
# description: Nobody knows what the last apply did.
# custom:
#   code: BW-HOLDS-002
#   hint: bronzeward attempts show {hold}
deny contains found if {
	some hold in stopping
	hold.kind == "unresolved-attempt"
	hold.scope == "machine"
	found := about(rego.metadata.rule(), sprintf("nobody knows yet what attempt %s did on %s; a recovery-admin accounts for it", [hold.id, finding.machine]), hold)
}

# METADATA
# title: frozen
# description: Somebody froze it; an approver lifts it. An adoption sends nothing and goes on.
# custom:
#   code: BW-HOLDS-003
#   hint: bronzeward machines show {machine}
deny contains found if {
	some hold in stopping
	hold.kind == "freeze"
	not adopts
	found := about(rego.metadata.rule(), sprintf("%s is frozen by %s; an approver lifts it", [finding.machine, hold.holder.subject]), hold)
}

# METADATA
# title: drift is open
# description: The configuration is not the last one known as applied. Only a change that settles the drift may run.
# custom:
#   code: BW-HOLDS-004
#   hint: bronzeward drift show {hold}
deny contains found if {
	some hold in stopping
	hold.kind == "drift"
	not settles(hold)
	found := about(rego.metadata.rule(), sprintf("the configuration of %s has drifted (%s); adopt or revert it first", [finding.machine, hold.id]), hold)
}

# METADATA
# title: recovery
# description: After a restore every machine is held until it is observed and released.
# custom:
#   code: BW-HOLDS-005
#   hint: bronzeward machines show {machine}
deny contains found if {
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
	some hold in stopping
	not hold.kind in {"open-attempt", "unresolved-attempt", "freeze", "drift", "recovery"}
	found := about(rego.metadata.rule(), sprintf("%s is held by %q", [finding.machine, hold.kind]), hold)
}

# METADATA
# title: the cluster's slots are taken
# description: The rollout limit of the cluster is reached.
# custom:
#   code: BW-HOLDS-007
#   hint: bronzeward attempts list
deny contains found if {
	some hold in stopping
	hold.kind in {"open-attempt", "unresolved-attempt"}
	hold.scope != "machine"
	found := about(rego.metadata.rule(), sprintf("another apply of cluster %s is under way (%s)", [cluster, hold.id]), hold)
}

# METADATA
# title: the holds are not known
# description: A change without a list of holds was not judged under the locks.
# custom:
#   code: BW-HOLDS-008
#   hint: ""
deny contains finding.because(rego.metadata.rule(), "whether the machine is held is not known") if {
	change.mutating
	not known
}

known if is_array(input.holds)

# METADATA
# scope: document
# title: stopping
# description: |
#   The holds that matter to this call: all of them to a change, and only an attempt
#   under way on the same machine to a dry run.
stopping contains hold if {
	change.mutating
	some hold in input.holds
}

stopping contains hold if {
	input.call.class == "apply"
	change.dry_run
	change.final
	some hold in input.holds
	hold.kind == "open-attempt"
	hold.scope == "machine"
}

adopts if input.change.kind == "adopt"

# Only the change that names the drift settles it.
settles(hold) if {
	input.change.kind in {"revert", "adopt"}
	hold.id != ""
	input.change.drift == hold.id
}

default cluster := "unknown"

cluster := input.machine.cluster

about(rule, message, hold) := object.union(found, {"hint": replace(found.hint, "{hold}", hold.id)}) if {
	found := finding.because(rule, message)
}
