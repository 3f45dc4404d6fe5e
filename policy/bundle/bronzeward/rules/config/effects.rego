package bronzeward.rules.config

import data.bronzeward.lib.finding

# METADATA
# title: nobody knows what the change does
# description: |
#   The oracle of this Talos minor does not say of the field or kind whether it is live. A
#   minor without a table has none that it says it of.
# custom:
#   code: BW-CONFIG-046
#   hint: "leave it as it is on {machine}; a policy-admin who knows what it does there writes it into bronzeward/oracle/data.yaml"
deny_effect contains found if {
	input.call.class == "apply"
	not adopts
	where := effects.unknown
	found := finding.because(rego.metadata.rule(), sprintf("whether this needs a reboot is not known for Talos %s: %s", [minor, listed(where)]))
}

# METADATA
# title: nothing happens before a reboot
# description: |
#   Talos takes such a change in no-reboot mode without a word, and whoever restarts the
#   machine next sets it off. A revert may go back on what a drift left lying like that.
# custom:
#   code: BW-CONFIG-047
#   hint: "leave it as it is on {machine}, or change it together with a planned reboot, which does not go through this gateway"
deny_effect contains found if {
	input.call.class == "apply"
	not adopts
	not reverts
	effects.inert
	where := changed_at("inert")
	count(where) > 0
	found := finding.because(rego.metadata.rule(), sprintf("Talos takes this without a word, and it has its effect only when %s restarts: %s", [finding.machine, shown(where)]))
}

# METADATA
# title: the change disrupts
# description: |
#   It takes effect at once and can restart the machine, end what runs on it, cut it off or
#   write to a disk; Talos says nothing of it. Whether it may at all is said by its meaning.
# custom:
#   code: BW-CONFIG-048
#   hint: "drain {machine} first, and have a way to its console"
deny_effect contains found if {
	input.call.class == "apply"
	not adopts
	effects.disruptive
	where := changed_at("disruptive")
	count(where) > 0
	found := finding.because(rego.metadata.rule(), sprintf("this takes effect at once and can disrupt %s: %s", [finding.machine, shown(where)]))
}

# METADATA
# scope: document
# title: effects
# description: |
#   The places whose change is not simply live, by what the oracle says a change there does,
#   found once. A word that is none of the three is as good as none.
effects := {} if all_live

effects := {effect: found | some effect, found in affected} if not all_live

# The ordinary change is of a few fields that stand in the table as they are.
all_live if {
	separate == set()
	fields - live[input.evidence.minor] == set()
}

live := {minor: {field | some field, effect in table.fields; effect == "live"} | some minor, table in data.bronzeward.oracle}

affected[effect] contains place if {
	some place in touched
	word := effect_of(place[0], place[1])
	word != "live"
	effect := object.get({"inert": "inert", "disruptive": "disruptive"}, word, "unknown")
}

# METADATA
# scope: document
# title: effect of a place
# description: |
#   As with meanings: a separate document does what its kind does, a v1alpha1 field what the
#   longest entry of the table says that it begins with.
effect_of("v1alpha1", field) := field_effect(field)

effect_of(document, _) := kind_effect(split(document, "/")[0]) if document != "v1alpha1"

default kind_effect(_) := "unknown"

kind_effect(kind) := data.bronzeward.oracle[input.evidence.minor].kinds[kind]

field_effect(field) := effect if {
	effect := data.bronzeward.oracle[input.evidence.minor].fields[field]
} else := effect if {
	effect := data.bronzeward.oracle[input.evidence.minor].fields[beginning(field, 4)]
} else := effect if {
	effect := data.bronzeward.oracle[input.evidence.minor].fields[beginning(field, 3)]
} else := effect if {
	effect := data.bronzeward.oracle[input.evidence.minor].fields[beginning(field, 2)]
} else := effect if {
	effect := data.bronzeward.oracle[input.evidence.minor].fields[beginning(field, 1)]
} else := "unknown"

# METADATA
# title: changed at
# description: |
#   The paths that change in the places with this effect, each with its document. What Talos
#   refuses by itself for want of a reboot is left to the rule that says so.
changed_at(effect) := {where |
	some place in effects[effect]
	some item in input.config.changes
	item.document == place[0]
	place[1] in {"", item.field}
	not item.reboot == true
	where := trim_space(concat(" ", [trim_prefix(item.document, "v1alpha1"), item.path]))
}

default minor := "of this machine"

minor := input.evidence.minor
