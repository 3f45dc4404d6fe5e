# METADATA
# title: findings
# description: What a rule says, built from the rule's own METADATA.
package bronzeward.lib.finding

import data.bronzeward.lib.caller
import data.bronzeward.lib.quorum

# METADATA
# title: because
# description: |
#   A finding of the rule whose METADATA is given. {machine} in a hint becomes the
#   machine's name, {change} the change's id, {caller} who asks and {approvers} the groups
#   that approve. A hint that needs the id of a change there is not says where changes are.
because(rule, message) := {
	"code": rule.custom.code,
	"message": message,
	"hint": hint(rule.custom.hint),
}

# METADATA
# title: filled
# description: The same, with what else stands in the hint, by its name in braces.
filled(rule, message, names) := object.union(because(rule, message), {"hint": hint(strings.replace_n(names, rule.custom.hint))})

default hint(_) := "bronzeward changes list"

hint(text) := plain(text) if not contains(text, "{change}")

hint(text) := plain(replace(text, "{change}", input.change.id)) if {
	contains(text, "{change}")
	input.change.id != ""
}

plain(text) := text if not contains(text, "{")

plain(text) := replace(text, "{machine}", machine) if {
	contains(text, "{")
	not peopled(text)
}

plain(text) := strings.replace_n({"{machine}": machine, "{caller}": caller.named, "{approvers}": quorum.named}, text) if peopled(text)

peopled(text) if contains(text, "{caller}")

peopled(text) if contains(text, "{approvers}")

# METADATA
# scope: document
# title: machine
# description: The machine's name as a hint shows it.
default machine := "NODE"

machine := input.machine.name

# METADATA
# scope: document
# title: change
# description: How a message names the change the call or act is about.
default change := "this"

change := concat(" ", ["change", input.change.id]) if input.change.id != ""
