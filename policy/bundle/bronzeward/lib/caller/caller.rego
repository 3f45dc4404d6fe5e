# METADATA
# title: caller
# description: What the caller is, by the groups of the credential.
package bronzeward.lib.caller

# METADATA
# title: roles
# description: The roles the caller's groups give.
roles contains role if {
	some group in input.caller.groups
	some role in data.bronzeward.role_bindings[group]
}

# METADATA
# scope: document
# title: named
# description: How a message names the caller.
default named := "the caller"

named := input.caller.subject if input.caller.subject != ""

# METADATA
# title: person
# description: Who the caller is, as changes and approvals name people.
person := {"issuer": input.caller.issuer, "subject": input.caller.subject}
