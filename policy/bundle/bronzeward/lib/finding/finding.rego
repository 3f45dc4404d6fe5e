# METADATA
# title: findings
# description: What a rule says, built from the rule's own METADATA.
package bronzeward.lib.finding

# METADATA
# title: because
# description: |
#   A finding of the rule whose METADATA is given. {machine} in a hint becomes the
#   machine's name and {change} the change's id; without a change, a hint that needs its
#   id is left out.
because(rule, message) := {
	"code": rule.custom.code,
	"message": message,
	"hint": hint(rule.custom.hint),
}

default hint(_) := ""

hint(text) := replace(text, "{machine}", machine) if not contains(text, "{change}")

hint(text) := strings.replace_n({"{machine}": machine, "{change}": input.change.id}, text) if {
	contains(text, "{change}")
	input.change.id != ""
}

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
