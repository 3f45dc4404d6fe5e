# METADATA
# title: target
# description: |
#   Which machine a call may go to. Only workers that are pinned, are who they were
#   pinned as and run a supported Talos take an apply, one at a time.
package bronzeward.rules.target

import data.bronzeward.lib.change
import data.bronzeward.lib.finding

# METADATA
# title: the machine is unknown
# description: A call that names no machine we have a row of goes nowhere.
# custom:
#   code: BW-TARGET-002
#   hint: bronzeward machines list
deny contains finding.because(rego.metadata.rule(), "the call names no machine that is known here") if {
	not input.machine.name
}

# METADATA
# title: one target
# description: Whatever changes something goes to exactly one machine.
# custom:
#   code: BW-TARGET-003
#   hint: talosctl -n {machine} ...
deny contains found if {
	not input.call.class in {"read", "config-read", "secret-read", "sensitive-read", "egress"}
	not input.call.targets == 1
	found := finding.because(rego.metadata.rule(), sprintf("%s changes something and must name exactly one machine, not %v", [input.call.method, input.call.targets]))
}

# METADATA
# title: only workers are changed
# description: The machine's row says what it is expected to be. An adoption changes no machine.
# custom:
#   code: BW-TARGET-004
#   hint: "only workers: bronzeward machines list"
deny contains found if {
	input.call.class in {"apply", "mutate"}
	not input.machine.role == "worker"
	not adopts
	found := finding.because(rego.metadata.rule(), sprintf("%s is not a worker, and only workers are changed through this gateway", [finding.machine]))
}

# METADATA
# title: nobody reads a control plane's configuration
# description: It holds the keys of the cluster.
# custom:
#   code: BW-TARGET-005
#   hint: "only workers: bronzeward machines list"
deny contains found if {
	input.call.class == "config-read"
	not input.machine.role == "worker"
	found := finding.because(rego.metadata.rule(), sprintf("%s is not a worker, and its configuration holds the keys of the cluster", [finding.machine]))
}

# METADATA
# title: the machine is not pinned
# description: Without a fixed identity nobody knows what is behind the address.
# custom:
#   code: BW-TARGET-006
#   hint: bronzeward machines observe {machine} && bronzeward machines pin {machine}
deny contains found if {
	input.call.class == "apply"
	not input.machine.pinned == true
	found := finding.because(rego.metadata.rule(), sprintf("%s is not pinned, so nobody knows what is behind its address", [finding.machine]))
}

# METADATA
# title: the evidence is missing
# description: An apply is judged on what was read from the machine, or not at all.
# custom:
#   code: BW-TARGET-007
#   hint: "try again; whether {machine} answers: bronzeward machines observe {machine}"
deny contains found if {
	input.call.class == "apply"
	change.final
	not input.evidence.type
	found := finding.because(rego.metadata.rule(), sprintf("nothing was read from %s to judge on", [finding.machine]))
}

# METADATA
# title: another machine answers
# description: The identity behind the address is not the one pinned.
# custom:
#   code: BW-TARGET-008
#   hint: bronzeward machines observe {machine}
deny contains found if {
	input.call.class == "apply"
	change.final
	input.evidence.type
	not input.evidence.identity_matches == true
	found := finding.because(rego.metadata.rule(), sprintf("the machine that answers at the address of %s is not the one pinned", [finding.machine]))
}

# METADATA
# title: the live type is no worker
# description: What the machine says it is counts, not only its row.
# custom:
#   code: BW-TARGET-009
#   hint: "only workers: bronzeward machines list"
deny contains found if {
	input.call.class == "apply"
	change.final
	input.evidence.type != "worker"
	not adopts
	found := finding.because(rego.metadata.rule(), sprintf("%s says it is %q, and only workers are changed through this gateway", [finding.machine, input.evidence.type]))
}

# METADATA
# title: the stage
# description: |
#   In maintenance Talos asks nobody who they are and ignores the mode, and on its way down
#   a machine may keep half of a change. Only stages that data names take an apply.
# custom:
#   code: BW-TARGET-010
#   hint: talosctl -n {machine} get machinestatus
deny contains found if {
	input.call.class == "apply"
	change.final
	is_object(input.evidence)
	not up
	found := finding.because(rego.metadata.rule(), sprintf("%s is in stage %q, and applies go to machines in stage %s only", [
		finding.machine, object.get(input.evidence, "stage", ""), concat(" or ", data.bronzeward.supported.stages),
	]))
}

up if input.evidence.stage in data.bronzeward.supported.stages

served if input.evidence.minor in data.bronzeward.supported.minors

# METADATA
# title: the Talos minor is not supported
# description: Another minor has other fields and other effects.
# custom:
#   code: BW-TARGET-011
#   hint: "bronzeward machines show {machine}"
deny contains found if {
	input.call.class == "apply"
	change.final
	input.evidence.type
	not served
	found := finding.because(rego.metadata.rule(), sprintf("%s runs Talos %s, and applies are judged for %s only", [finding.machine, input.evidence.version, concat(", ", data.bronzeward.supported.minors)]))
}

# METADATA
# title: the Talos minor has no table
# description: Without one nobody knows which changes of it need a reboot, so nothing is applied.
# custom:
#   code: BW-TARGET-013
#   hint: "a policy-admin writes the table of {machine}'s minor into bronzeward/oracle/data.yaml, or takes the minor out of supported.minors"
deny contains found if {
	input.call.class == "apply"
	change.final
	served
	not charted
	found := finding.because(rego.metadata.rule(), sprintf("%s runs Talos %s, and the law has no table of what changes do there", [finding.machine, input.evidence.minor]))
}

# The main document's own fields are the least of a table.
charted if {
	table := data.bronzeward.oracle[input.evidence.minor]
	table.fields != {}
	table.kinds != {}
}

# METADATA
# title: another cluster
# description: The context of the caller's talosconfig and the machine's row must not disagree on a change.
# custom:
#   code: BW-TARGET-012
#   hint: talosctl config contexts
deny contains found if {
	not input.call.class in {"read", "config-read", "secret-read", "sensitive-read", "egress"}
	input.call.cluster != ""
	input.machine.cluster != input.call.cluster
	found := finding.because(rego.metadata.rule(), sprintf("%s belongs to cluster %q, and the call says %q", [finding.machine, input.machine.cluster, input.call.cluster]))
}

# What runs is taken as applied, and nothing is sent.
adopts if {
	input.call.class == "apply"
	input.change.kind == "adopt"
}
