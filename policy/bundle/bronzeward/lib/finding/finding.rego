# METADATA
# title: findings
# description: What a rule says, built from the rule's own METADATA.
package bronzeward.lib.finding

# METADATA
# title: because
# description: |
#   A finding of the rule whose METADATA is given. {machine} in a hint becomes the
#   machine's name.
because(rule, message) := {
	"code": rule.custom.code,
	"message": message,
	"hint": replace(rule.custom.hint, "{machine}", machine),
}

# METADATA
# scope: document
# title: machine
# description: The machine's name as a hint shows it.
default machine := "NODE"

machine := input.machine.name
