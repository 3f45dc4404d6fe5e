package bronzeward.rules.config

import data.bronzeward.lib.change
import data.bronzeward.lib.finding
import data.bronzeward.lib.quorum as needs

# METADATA
# scope: document
# title: judging
# description: Only the final judgement of an apply has a configuration to look at.
default judging := false

judging if {
	input.call.class == "apply"
	change.final
}

# METADATA
# title: the configuration was not read
# description: An apply whose configuration nobody read is not judged.
# custom:
#   code: BW-CONFIG-001
#   hint: "apply it again: talosctl -n {machine} apply-config --mode=no-reboot -f FILE"
deny contains finding.because(rego.metadata.rule(), "the configuration of this apply was not read") if {
	input.call.class == "apply"
	judging
	not readable
}

readable if {
	is_array(input.config.changes)
	is_array(input.config.documents)
	is_array(input.config.problems)
	input.config.digest != ""
	input.config.base != ""
}

# METADATA
# title: the configuration is not acceptable
# description: Talos could not take it, or not in one way only.
# custom:
#   code: BW-CONFIG-002
#   hint: talosctl validate --mode metal -c FILE
deny contains found if {
	input.call.class == "apply"
	judging
	some problem in input.config.problems
	found := finding.because(rego.metadata.rule(), sprintf("%s%s", [line(problem), problem.message]))
}

line(problem) := sprintf("line %d: ", [problem.line]) if problem.line > 0

line(problem) := "" if not problem.line > 0

# METADATA
# title: the kind of a document is unknown
# description: A kind no rule knows may do anything.
# custom:
#   code: BW-CONFIG-003
#   hint: "take the document out; a policy-admin may give its kind a meaning in config.kinds"
deny contains found if {
	input.call.class == "apply"
	judging
	kinds := {kind | kind := input.config.documents[_].kind}
	some kind in (kinds - known_kinds)
	found := finding.because(rego.metadata.rule(), sprintf("no rule knows documents of kind %s", [kind]))
}

known_kinds := {kind | some kind, meaning in data.bronzeward.config.kinds; meaning != false}

# METADATA
# title: the field is unknown
# description: A field no rule knows may mean anything.
# custom:
#   code: BW-CONFIG-004
#   hint: "leave it as it is on {machine}; a policy-admin may give it a meaning in config.fields, or its kind one in config.kinds"
deny contains found if {
	input.call.class == "apply"
	where := refused.unknown
	found := finding.because(rego.metadata.rule(), sprintf("no rule knows what this change means: %s", [where]))
}

# METADATA
# title: crash by size
# description: |
#   Thousands of new entries at once overrun the controller runtime's buffer and stop the
#   node; the dry run says it is fine.
# custom:
#   code: BW-CONFIG-005
#   hint: "apply it to {machine} in steps"
deny_danger contains found if {
	input.call.class == "apply"
	some place, entries in added
	entries > limit_new_entries
	found := finding.because(rego.metadata.rule(), sprintf("%s gains %d entries at once, more than %d: so many stop the node", [
		named(place), entries, limit_new_entries,
	]))
}

# METADATA
# title: crash by number
# description: |
#   The same danger spread over many places. Counted only where there are more changes
#   than the limit.
# custom:
#   code: BW-CONFIG-009
#   hint: "apply it to {machine} in steps"
deny_danger contains found if {
	input.call.class == "apply"
	judging
	count(input.config.changes) > limit_new_total
	entries := count([1 | some item in input.config.changes; item.before == null])
	entries > limit_new_total
	found := finding.because(rego.metadata.rule(), sprintf("the configuration gains %d entries at once, more than %d: so many stop the node", [
		entries, limit_new_total,
	]))
}

# METADATA
# title: too many documents
# description: Each document becomes resources of the node; thousands at once stop it.
# custom:
#   code: BW-CONFIG-006
#   hint: "use fewer documents for {machine}"
deny_danger contains found if {
	input.call.class == "apply"
	count(touched) > limit_new_entries
	number := count({document | some [document, _] in touched})
	number > limit_new_entries
	found := finding.because(rego.metadata.rule(), sprintf("%d documents come, change or go at once, more than %d: so many stop the node", [number, limit_new_entries]))
}

# METADATA
# title: too many changes
# description: At most ten thousand changes are shown to the law, and what it does not see it does not allow.
# custom:
#   code: BW-CONFIG-007
#   hint: "apply it to {machine} in steps"
deny contains finding.because(rego.metadata.rule(), "the configuration changes more than can be judged at once") if {
	input.call.class == "apply"
	judging
	count(input.config.changes) >= limit_changes
}

# METADATA
# title: more approvals
# description: A meaning that is not refused but needs people to agree.
# custom:
#   code: BW-CONFIG-014
#   hint: "have {approvers} look at it: bronzeward changes show {change}"
deny contains found if {
	input.call.class == "apply"
	some [what, _] in raising
	found := finding.because(rego.metadata.rule(), what)
}

# METADATA
# scope: document
# title: raising
# description: What asks for more approvals, a meaning or a danger by its code, and how many.
raising contains [what, needed] if {
	some meaning, needed in data.bronzeward.config.approvals
	where := meanings[meaning]
	meaning in agreeable
	what := sprintf("a change of %s, needing %s: %s", [meaning, needs.counted(needed), listed(where)])
}

raising contains [what, needed] if {
	some found in deny_danger
	found.code in agreeable
	needed := data.bronzeward.config.approvals[found.code]
	what := sprintf("%s (%s), needing %s", [found.message, found.code, needs.counted(needed)])
}

# METADATA
# title: quorum
# description: What such a meaning or danger asks for.
quorum contains needed if {
	input.call.class == "apply"
	some [_, needed] in raising
}

# METADATA
# title: quorum of what was not compared
# description: It may be any of the meanings, so it needs as many as the one that needs the most.
quorum contains needed if {
	input.call.class == "apply"
	not_compared
	not "not-compared" in allowed
	some needed in data.bronzeward.config.approvals
}

# METADATA
# title: the change needs a reboot
# description: Talos's immediate mode refuses it, with the old and new text in the answer.
# custom:
#   code: BW-CONFIG-032
#   hint: "leave it as it is on {machine}, or change it together with a planned reboot, which does not go through this gateway"
deny contains found if {
	input.call.class == "apply"
	judging
	not adopts
	where := {[item.document, item.field] | some i; input.config.changes[i].reboot == true; item := input.config.changes[i]}
	count(where) > 0
	found := finding.because(rego.metadata.rule(), sprintf("this takes effect only with a reboot, and Talos refuses it in this mode: %s", [listed(where)]))
}

# METADATA
# title: nothing changes
# description: The text is the one already active.
# custom:
#   code: BW-CONFIG-036
#   hint: "nothing has to be done: {machine} runs it already"
deny contains finding.because(rego.metadata.rule(), "this is the configuration already active; nothing changes") if {
	input.call.class == "apply"
	judging
	not adopts
	input.config.identical == true
}

# METADATA
# title: touched
# description: |
#   The distinct places that change: a field of the v1alpha1 document, or a separate
#   document as a whole, since all of one has one meaning.
touched := {["v1alpha1", field] | some field in fields} | {[document, ""] | some document in separate}

# METADATA
# scope: document
# title: fields
# description: The fields of the v1alpha1 document that change.
default fields := set()

fields := {field | some i; input.config.changes[i].document == "v1alpha1"; field := input.config.changes[i].field} if judging

# METADATA
# scope: document
# title: separate
# description: The separate documents that change.
default separate := set()

separate := {document | document := input.config.changes[_].document} - {"v1alpha1"} if judging

# METADATA
# title: meanings
# description: |
#   The places by the meaning of their change. Asked for as a whole, so that they are found
#   once and not again for each meaning.
meanings := {meaning: found | some meaning, found in grouped}

# METADATA
# scope: document
# title: places
# description: |
#   The same, for the rules that refuse. A revert has none: it goes back to what was applied
#   before, and what a drift may not have changed could not be taken back else. How many must
#   agree is asked of its meanings all the same.
places := {} if reverts

places := meanings if not reverts

reverts if input.change.kind == "revert"

# What runs is taken as applied: nothing is sent that Talos could refuse, and there is nothing to do.
adopts if input.change.kind == "adopt"

# A separate document means what its kind means. A v1alpha1 field means what the longest entry
# of the table says that it begins with, and most stand there as they are.
grouped[meaning] contains ["v1alpha1", field] if {
	some field in fields
	meaning := data.bronzeward.config.fields[field]
}

grouped[meaning] contains ["v1alpha1", field] if {
	some field in (fields - known_fields)
	meaning := by_beginning(field)
}

grouped[meaning] contains [document, ""] if {
	some document in separate
	meaning := by_kind(split(document, "/")[0])
}

default known_fields := set()

known_fields := object.keys(data.bronzeward.config.fields) if is_object(data.bronzeward.config.fields)

# The meaning is a variable, because a name that stands in the head is there with no place, too.
grouped[meaning] contains ["no copy of what was applied is kept", ""] if {
	not_compared
	meaning := "not-compared"
}

# METADATA
# title: not compared
# description: |
#   An adoption whose differences nobody can show. Facts that do not say whether they are known
#   show none either.
not_compared if {
	judging
	adopts
	not input.config.changes_known == true
}

# METADATA
# title: refused
# description: By meaning, the places that no stance in the data lets through, as a message names them.
refused[meaning] := listed(found) if {
	some meaning in (object.keys(places) - passing)
	found := places[meaning]
}

# METADATA
# title: passing
# description: The meanings that pass, as if they were ordinary or with approvals.
passing := allowed | agreeable

allowed := {meaning | some meaning in data.bronzeward.config.allowed}

default by_kind(_) := "unknown"

by_kind(kind) := data.bronzeward.config.kinds[kind] if kind != "v1alpha1"

by_beginning(field) := meaning if {
	meaning := data.bronzeward.config.fields[beginning(field, 4)]
} else := meaning if {
	meaning := data.bronzeward.config.fields[beginning(field, 3)]
} else := meaning if {
	meaning := data.bronzeward.config.fields[beginning(field, 2)]
} else := meaning if {
	meaning := data.bronzeward.config.fields[beginning(field, 1)]
} else := "unknown"

# METADATA
# title: beginning
# description: The first parts of a dotted field.
beginning(field, parts) := concat(".", array.slice(split(field, "."), 0, parts))

# METADATA
# title: added
# description: |
#   How many entries each large collection gains. Facts name those that would hold more
#   than five hundred; no other can gain as many.
added[place] := entries if {
	judging
	some collection in input.config.collections
	place := [collection.document, collection.field]
	entries := count([1 |
		some item in input.config.changes
		item.field == collection.field
		split(item.document, "/")[0] == collection.document
		item.before == null
	])
}

named(["v1alpha1", field]) := field

named([document, field]) := concat(" ", [document, field]) if {
	document != "v1alpha1"
	field != ""
}

named([document, ""]) := document if document != "v1alpha1"

# METADATA
# scope: document
# title: listed
# description: At most three places by name, and how many more there are.
listed(found) := concat(", ", names) if {
	count(found) <= 3
	names := [named(place) | some place in found]
}

listed(found) := sprintf("%s and %d more", [concat(", ", array.slice(names, 0, 3)), count(names) - 3]) if {
	count(found) > 3
	names := [named(place) | some place in found]
}

# What the data do not say is none at all: a limit that is missing lets nothing through.
default limit_new_entries := 0

limit_new_entries := data.bronzeward.config.limits.new_entries

default limit_new_total := 0

limit_new_total := data.bronzeward.config.limits.new_total

default limit_changes := 0

limit_changes := data.bronzeward.config.limits.changes
