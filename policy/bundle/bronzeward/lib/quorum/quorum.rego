# METADATA
# title: quorum
# description: How many people must agree to a change, and who they are.
package bronzeward.lib.quorum

# METADATA
# title: required
# description: |
#   The highest count that an area's set "quorum" asks for; undefined when none gives one.
#   An area that names it may not have its own counts depend on it.
required := max({n | some area; some n in data.bronzeward.rules[area].quorum})

# METADATA
# title: member
# description: One of the groups may approve.
member(groups) if {
	some group in groups
	group in data.bronzeward.quorum.groups
}

# METADATA
# title: alone
# description: Nobody's approval of their own change counts unless data says so outright.
alone if data.bronzeward.quorum.self_approval == true

# METADATA
# scope: document
# title: named
# description: How a message names the groups.
default named := "no group at all"

named := concat(" or ", data.bronzeward.quorum.groups) if count(data.bronzeward.quorum.groups) > 0

# METADATA
# scope: document
# title: counted
# description: A number of approvals in words.
counted(1) := "1 approval"

counted(n) := sprintf("%v approvals", [n]) if n != 1
