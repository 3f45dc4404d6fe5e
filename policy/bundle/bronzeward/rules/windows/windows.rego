# METADATA
# title: windows
# description: |
#   When a cluster takes applies. Data says, by two calendars: windows, outside of which a
#   cluster they name takes none, and freezes, within which only named people go on. None
#   stands there as shipped.
package bronzeward.rules.windows

import data.bronzeward.lib.caller
import data.bronzeward.lib.change
import data.bronzeward.lib.finding

# METADATA
# title: outside every window
# description: Some window names the cluster, and none of them is open now.
# custom:
#   code: BW-WINDOWS-001
#   hint: "wait for {opens}; a dry run passes at any time: talosctl -n {machine} apply-config --mode=no-reboot --dry-run -f FILE"
deny contains found if {
	input.call.class == "apply"
	kept
	change.applying
	count(named) > 0
	not open
	found := finding.filled(
		rego.metadata.rule(),
		sprintf("cluster %s takes applies only in its windows (%s): next is %s", [input.machine.cluster, concat(", ", sort(named)), opens]),
		{"{opens}": opens},
	)
}

# METADATA
# title: frozen by the calendar
# description: A freeze of the cluster lasts, and the caller is none of those who may go on within it.
# custom:
#   code: BW-WINDOWS-002
#   hint: "wait until {ends}; until then {overriders} may apply it"
deny contains found if {
	input.call.class == "apply"
	kept
	change.applying
	some freeze in freezing
	not overrides(freeze)
	found := finding.filled(
		rego.metadata.rule(),
		sprintf("cluster %s is frozen by the calendar (%s) until %s", [input.machine.cluster, freeze.name, ends(freeze)]),
		{"{ends}": ends(freeze), "{overriders}": who(freeze)},
	)
}

# METADATA
# title: the calendar cannot be read
# description: |
#   A window or freeze whose days, times, clusters or people are not of the form they must
#   have could mean anything, so it lets nothing through. A zone nobody knows does the same.
# custom:
#   code: BW-WINDOWS-003
#   hint: "a policy-admin mends bronzeward/data.yaml: bronzeward policy check DIR names the line"
deny contains found if {
	input.call.class == "apply"
	kept
	change.applying
	count(unreadable) > 0
	found := finding.because(rego.metadata.rule(), sprintf("the law's calendar cannot be read, so no apply passes: %s", [concat(", ", sort(unreadable))]))
}

# METADATA
# title: applied within a freeze
# description: Somebody who may go on within a freeze does. The warning names both.
# custom:
#   code: BW-WINDOWS-004
#   hint: "nothing has to be done on {machine}: the book has who went on, and when"
deny contains found if {
	input.call.class == "apply"
	kept
	change.applying
	some freeze in freezing
	overrides(freeze)
	found := finding.because(rego.metadata.rule(), sprintf("%s goes on within the freeze of cluster %s (%s, until %s)", [caller.named, input.machine.cluster, freeze.name, ends(freeze)]))
}

# METADATA
# scope: document
# title: kept
# description: There is a calendar to keep, unless neither has an entry.
default kept := true

kept := false if {
	data.bronzeward.windows == []
	data.bronzeward.freezes == []
}

# METADATA
# title: named
# description: The windows that name the machine's cluster.
named contains sprintf("%v", [window.name]) if {
	some window in data.bronzeward.windows
	input.machine.cluster in window.clusters
}

# METADATA
# title: open
# description: One of the cluster's windows is open at the database's time.
open if {
	some window in data.bronzeward.windows
	input.machine.cluster in window.clusters
	readable(window)
	covers(window)
}

# METADATA
# title: freezing
# description: The freezes of the machine's cluster that last at the database's time.
freezing contains freeze if {
	some freeze in data.bronzeward.freezes
	input.machine.cluster in freeze.clusters
	readable(freeze)
	covers(freeze)
}

# METADATA
# scope: document
# title: overrides
# description: The caller is a person who may go on within this freeze, by name or by a group.
overrides(freeze) if {
	input.caller.kind == "human"
	some person in freeze.overriders.people
	person == caller.person
}

overrides(freeze) if {
	input.caller.kind == "human"
	some group in freeze.overriders.groups
	group in input.caller.groups
}

# METADATA
# scope: document
# title: who
# description: How a hint names those who may go on.
default who(_) := "nobody"

who(freeze) := concat(" or ", names) if {
	people := [person.subject | some person in object.get(freeze, ["overriders", "people"], [])]
	names := array.concat(people, object.get(freeze, ["overriders", "groups"], []))
	count(names) > 0
}
