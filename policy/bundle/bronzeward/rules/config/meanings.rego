# METADATA
# title: config
# description: |
#   What a configuration would change, judged by its meaning. Data says what each kind of
#   document and each v1alpha1 field means; what data does not know is refused. A meaning
#   that stands in config.approvals is not refused but needs that many approvals; one in
#   config.allowed passes.
package bronzeward.rules.config

import data.bronzeward.lib.finding

# METADATA
# title: a danger that is refused
# description: |
#   One rule per meaning follows, and elsewhere are those that look at keys and counts and
#   at what a change does. An ordinary change has no meaning that is refused, and no effect
#   but a live one; then none of those rules is asked.
# custom:
#   code: BW-CONFIG-008
#   hint: bronzeward changes list
deny contains found if {
	input.call.class == "apply"
	some found in standing
}

standing contains found if {
	refused != {}
	some found in deny_meaning
}

standing contains found if {
	effects != {}
	some found in deny_effect
}

# What names keys or counts has no meaning of its own that data could give a stance, so
# data gives it by the code.
standing contains found if {
	some found in deny_danger
	not found.code in agreeable
}

# METADATA
# title: agreeable
# description: The meanings and codes that data lets pass with approvals, of which at least one is needed.
agreeable := {name | some name, needed in data.bronzeward.config.approvals; needed >= 1}

# METADATA
# title: new trust
# description: A key that the node trusts can make credentials that go round the gateway.
# custom:
#   code: BW-CONFIG-010
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (trust: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.trust
	found := finding.because(rego.metadata.rule(), sprintf("this changes whom the node or the cluster trusts, and such a key goes round this gateway: %s", [where]))
}

# METADATA
# title: side doors
# description: Pods, agents and SideroLink that may speak to the Talos API do not pass here.
# custom:
#   code: BW-CONFIG-011
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (side-door: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["side-door"]
	found := finding.because(rego.metadata.rule(), sprintf("this opens another way to the Talos API, round this gateway: %s", [where]))
}

# METADATA
# title: code on the node
# description: Static pods, extension services, manifests, mounts and udev rules run what they name.
# custom:
#   code: BW-CONFIG-012
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (code: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.code
	found := finding.because(rego.metadata.rule(), sprintf("this runs code on the node or in the cluster: %s", [where]))
}

# METADATA
# title: lock-out by network rules
# description: A rule that shuts port 50000 cuts the gateway off for good, and the dry run says it is fine.
# custom:
#   code: BW-CONFIG-013
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (lock-out: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["lock-out"]
	found := finding.because(rego.metadata.rule(), sprintf("this may shut the Talos API of this machine for good, and nobody could undo it from here: %s", [where]))
}

# METADATA
# title: network links and addresses
# description: A small change can take the machine's only address.
# custom:
#   code: BW-CONFIG-015
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (network: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.network
	found := finding.because(rego.metadata.rule(), sprintf("this changes the links or addresses this machine is reached by: %s", [where]))
}

# METADATA
# title: names
# description: The machine may answer to another name, or its certificate no longer fit.
# custom:
#   code: BW-CONFIG-016
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (names: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.names
	found := finding.because(rego.metadata.rule(), sprintf("this changes the name or certificate this machine is known by: %s", [where]))
}

# METADATA
# title: name resolution
# description: Whoever answers the node's questions sends it where they like.
# custom:
#   code: BW-CONFIG-017
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (resolving: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.resolving
	found := finding.because(rego.metadata.rule(), sprintf("this changes how the machine resolves names: %s", [where]))
}

# METADATA
# title: time
# description: A wrong clock makes good certificates bad and old ones good.
# custom:
#   code: BW-CONFIG-018
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (time: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.time
	found := finding.because(rego.metadata.rule(), sprintf("this changes where the machine takes its time from: %s", [where]))
}

# METADATA
# title: silent reboot
# description: A watchdog or an out-of-memory trigger restarts the machine or kills what runs on it.
# custom:
#   code: BW-CONFIG-019
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (silent-reboot: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["silent-reboot"]
	found := finding.because(rego.metadata.rule(), sprintf("this can restart the machine or kill what runs on it, whatever the mode says: %s", [where]))
}

# METADATA
# title: storage
# description: Making a volume or changing its encryption writes to a disk.
# custom:
#   code: BW-CONFIG-020
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (storage: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.storage
	found := finding.because(rego.metadata.rule(), sprintf("this writes to disks: data can be lost: %s", [where]))
}

# METADATA
# title: installation
# description: The next upgrade or install takes this disk, this image and these arguments.
# custom:
#   code: BW-CONFIG-021
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (install: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.install
	found := finding.because(rego.metadata.rule(), sprintf("this changes what is installed on which disk: %s", [where]))
}

# METADATA
# title: supply chain
# description: Mirrors, credentials, images and their verification say which programs run.
# custom:
#   code: BW-CONFIG-022
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (supply-chain: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["supply-chain"]
	found := finding.because(rego.metadata.rule(), sprintf("this changes where the machine takes its programs from, or whether they are verified: %s", [where]))
}

# METADATA
# title: sending out
# description: Logs and events leave the machine.
# custom:
#   code: BW-CONFIG-023
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (exfiltration: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.exfiltration
	found := finding.because(rego.metadata.rule(), sprintf("this makes the machine send logs, events or probes elsewhere: %s", [where]))
}

# METADATA
# title: environment
# description: A proxy in the environment sees what the machine fetches.
# custom:
#   code: BW-CONFIG-024
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (environment: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.environment
	found := finding.because(rego.metadata.rule(), sprintf("this changes the environment of the machine's services, proxies among it: %s", [where]))
}

# METADATA
# title: machine type
# description: A worker stays a worker.
# custom:
#   code: BW-CONFIG-025
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (machine-type: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["machine-type"]
	found := finding.because(rego.metadata.rule(), sprintf("this changes what kind of machine this is: %s", [where]))
}

# METADATA
# title: cluster identity
# description: Tokens, ids and names decide which cluster a machine joins.
# custom:
#   code: BW-CONFIG-026
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (cluster-identity: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["cluster-identity"]
	found := finding.because(rego.metadata.rule(), sprintf("this changes the cluster's identity or its join secrets: %s", [where]))
}

# METADATA
# title: endpoints
# description: The machine would speak to another control plane.
# custom:
#   code: BW-CONFIG-027
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (endpoint: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.endpoint
	found := finding.because(rego.metadata.rule(), sprintf("this changes where the machine looks for its control plane or the cluster's networks: %s", [where]))
}

# METADATA
# title: access control
# description: Without it every Talos client certificate may do everything.
# custom:
#   code: BW-CONFIG-028
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (access: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.access
	found := finding.because(rego.metadata.rule(), sprintf("this weakens who may use the machine's API: %s", [where]))
}

# METADATA
# title: debug and persist
# description: Debug prints secrets to the console; without persist a restart forgets the configuration.
# custom:
#   code: BW-CONFIG-029
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (debug: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.debug
	found := finding.because(rego.metadata.rule(), sprintf("this changes debug output or whether the configuration is kept: %s", [where]))
}

# METADATA
# title: files
# description: A file written wrong keeps the machine from starting, and its content may be anything.
# custom:
#   code: BW-CONFIG-030
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (files: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.files
	found := finding.because(rego.metadata.rule(), sprintf("this writes files on the machine: %s", [where]))
}

# METADATA
# title: kernel
# description: Modules and drivers run in the kernel.
# custom:
#   code: BW-CONFIG-031
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (kernel: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.kernel
	found := finding.because(rego.metadata.rule(), sprintf("this loads or rebinds kernel modules or drivers: %s", [where]))
}

# METADATA
# title: mesh and discovery
# description: Discovery and KubeSpan decide which peers the machine believes.
# custom:
#   code: BW-CONFIG-033
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (mesh: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.mesh
	found := finding.because(rego.metadata.rule(), sprintf("this changes which peers the machine finds and trusts: %s", [where]))
}

# METADATA
# title: control plane settings
# description: These fields are for control planes, and workers ignore or spread them.
# custom:
#   code: BW-CONFIG-034
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (control-plane: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["control-plane"]
	found := finding.because(rego.metadata.rule(), sprintf("this is for control planes, not for a worker: %s", [where]))
}

# METADATA
# title: hardening
# description: Seccomp profiles keep containers in their bounds.
# custom:
#   code: BW-CONFIG-035
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (hardening: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.hardening
	found := finding.because(rego.metadata.rule(), sprintf("this weakens or changes the confinement of containers: %s", [where]))
}

# METADATA
# title: kubelet
# description: The kubelet's configuration can open its own API or stop it.
# custom:
#   code: BW-CONFIG-037
#   hint: "leave it as it is on {machine}; a policy-admin may let it pass with more approvals (kubelet: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused.kubelet
	found := finding.because(rego.metadata.rule(), sprintf("this changes the kubelet's own configuration or registration: %s", [where]))
}

# METADATA
# title: not compared
# description: What runs would be taken as applied, and nobody can say what of it has changed.
# custom:
#   code: BW-CONFIG-038
#   hint: "look at what {machine} runs before it is taken as applied; a policy-admin may let it pass with more approvals (not-compared: 2 in config.approvals)"
deny_meaning contains found if {
	input.call.class == "apply"
	where := refused["not-compared"]
	found := finding.because(rego.metadata.rule(), sprintf("what this takes as applied was not compared with what was applied before: %s", [where]))
}
