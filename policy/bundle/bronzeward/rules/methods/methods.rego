# METADATA
# title: methods
# description: |
#   Which methods a caller may use. Nothing is allowed that no role is given; what is
#   allowed goes to the node with the least Talos role that does it.
package bronzeward.rules.methods

import data.bronzeward.lib.caller
import data.bronzeward.lib.finding

# METADATA
# title: grant
# description: The Talos roles the call goes upstream with; empty when it may not go.
grant contains role if {
	allowed
	some role in upstream
}

# METADATA
# scope: document
# title: upstream
# description: What the method needs on the node, else what its class needs.
upstream := data.bronzeward.methods.method_roles[input.call.method]

upstream := data.bronzeward.methods.roles[input.call.class] if {
	not data.bronzeward.methods.method_roles[input.call.method]
	not boot_id
}

upstream := ["os:admin"] if {
	input.call.method == "/machine.MachineService/Read"
	boot_id
}

# METADATA
# scope: document
# title: allowed
# description: One of the caller's roles has the class, or the method by name.
default allowed := false

allowed if {
	input.call.class in {"read", "config-read", "apply", "egress"}
	some role in caller.roles
	input.call.class in data.bronzeward.permissions[role].classes
}

allowed if {
	input.call.class in data.bronzeward.methods.grantable
	some role in caller.roles
	input.call.method in data.bronzeward.permissions[role].methods
}

allowed if boot_id

# METADATA
# title: boot id
# description: |
#   Read may give out a few named files to whoever may read and apply, although the
#   method is closed.
boot_id if {
	input.call.method == "/machine.MachineService/Read"
	input.call.path in data.bronzeward.methods.readable
	some role in caller.roles
	"apply" in data.bronzeward.permissions[role].classes
}

known := {"read", "config-read", "secret-read", "sensitive-read", "egress", "mint", "apply", "mutate", "upload"}

# METADATA
# title: the class is unknown
# description: A method no row of the table gives a class is refused.
# custom:
#   code: BW-METHODS-001
#   hint: not through this gateway
deny contains found if {
	not input.call.class in known
	found := finding.because(rego.metadata.rule(), sprintf("%s is no method this gateway knows", [input.call.method]))
}

# METADATA
# title: uploads
# description: What cannot be read whole cannot be judged, so it is never forwarded.
# custom:
#   code: BW-METHODS-002
#   hint: not through this gateway
deny contains found if {
	input.call.class == "upload"
	found := finding.because(rego.metadata.rule(), sprintf("%s takes a stream from the caller, and what cannot be read whole is never forwarded", [input.call.method]))
}

# METADATA
# title: minting
# description: A credential made by the node would be a way round the gateway.
# custom:
#   code: BW-METHODS-003
#   hint: a kubeconfig comes from the cluster's own sign-in, and talosctl works with the talosconfig you have
deny contains found if {
	input.call.class == "mint"
	found := finding.because(rego.metadata.rule(), sprintf("%s hands out a credential that goes round this gateway", [input.call.method]))
}

# METADATA
# title: secret types
# description: Resources that Talos marks sensitive are given to nobody.
# custom:
#   code: BW-METHODS-004
#   hint: "not through this gateway; talosctl -n {machine} get TYPE reads types that are not secret"
deny contains found if {
	input.call.class == "secret-read"
	found := finding.because(rego.metadata.rule(), sprintf("resources of type %s hold secrets and are given to nobody", [resource_type]))
}

# METADATA
# title: changes of the machine
# description: Methods that change the machine other than by an apply are closed unless a role has them by name.
# custom:
#   code: BW-METHODS-005
#   hint: ask a policy-admin to name the method in permissions for a role of yours
deny contains found if {
	input.call.class == "mutate"
	not allowed
	found := finding.because(rego.metadata.rule(), sprintf("%s changes the machine, and no role of %s has it; a policy-admin gives it by name in permissions", [input.call.method, caller.named]))
}

# METADATA
# title: sensitive reads
# description: Files, snapshots and packets may hold anything.
# custom:
#   code: BW-METHODS-006
#   hint: ask a policy-admin to name the method in permissions for a role of yours
deny contains found if {
	input.call.class == "sensitive-read"
	not allowed
	found := finding.because(rego.metadata.rule(), sprintf("%s may give out secrets, and no role of %s has it", [what, caller.named]))
}

# METADATA
# title: egress
# description: These make the node dial what the caller names.
# custom:
#   code: BW-METHODS-007
#   hint: ask a policy-admin to give a role of yours the class egress in permissions
deny contains found if {
	input.call.class == "egress"
	not allowed
	found := finding.because(rego.metadata.rule(), sprintf("%s makes the node dial what the caller names, and no role of %s has it", [input.call.method, caller.named]))
}

# METADATA
# title: the configuration
# description: Raw configurations are for those who may change them.
# custom:
#   code: BW-METHODS-008
#   hint: ask an operator, or be in a group that role_bindings gives the role
deny contains found if {
	input.call.class == "config-read"
	not allowed
	found := finding.because(rego.metadata.rule(), sprintf("reading the machine configuration (and so edit and patch) needs the role %s", [needed]))
}

# METADATA
# title: the role is missing
# description: None of the caller's roles has the class.
# custom:
#   code: BW-METHODS-009
#   hint: ask an operator, or be in a group that role_bindings gives the role
deny contains found if {
	input.call.class in {"read", "apply"}
	not allowed
	found := finding.because(rego.metadata.rule(), sprintf("%s needs the role %s", [input.call.method, needed]))
}

# METADATA
# title: nothing to go upstream with
# description: Allowed, but data names no Talos role for the class.
# custom:
#   code: BW-METHODS-010
#   hint: a policy-admin names a Talos role in methods.roles or methods.method_roles
deny contains found if {
	allowed
	not upstream
	found := finding.because(rego.metadata.rule(), sprintf("data names no Talos role for %s", [input.call.method]))
}

needed := concat(" or ", sort({role |
	some role, given in data.bronzeward.permissions
	input.call.class in given.classes
}))

default resource_type := "unknown"

resource_type := input.call.resource.type

default what := "the method"

what := sprintf("%s of %s", [input.call.method, input.call.path]) if input.call.path != ""

what := input.call.method if input.call.path == ""
