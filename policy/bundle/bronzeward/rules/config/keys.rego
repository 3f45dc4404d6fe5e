package bronzeward.rules.config

import data.bronzeward.lib.finding

# METADATA
# title: kernel parameters that are not allowed
# description: |
#   Some make the machine restart itself, run a program or cut itself off, and some do so
#   by their value. A parameter passes by its exact name and a value in its range.
# custom:
#   code: BW-CONFIG-040
#   hint: "leave the parameter as it is on {machine}; a policy-admin may give it its values in config.sysctls or config.sysfs"
deny_danger contains found if {
	input.call.class == "apply"
	some meaning in ["sysctls", "sysfs"]
	places[meaning]
	bad := unfit(meaning, meaning)
	count(bad) > 0
	found := finding.because(rego.metadata.rule(), sprintf("machine.%s %s is not among those that are safe to change, or not to such a value", [meaning, shown(bad)]))
}

# METADATA
# title: kubelet flags that are not allowed
# description: Most flags of the kubelet open or close something; a few are harmless within a range.
# custom:
#   code: BW-CONFIG-041
#   hint: "leave the flag as it is on {machine}; a policy-admin may give it its values in config.kubelet_args"
deny_danger contains found if {
	input.call.class == "apply"
	places["kubelet-args"]
	bad := unfit("kubelet-args", "kubelet_args")
	count(bad) > 0
	found := finding.because(rego.metadata.rule(), sprintf("machine.kubelet.extraArgs %s is not among those that are safe to change, or not to such a value", [shown(bad)]))
}

# METADATA
# title: labels a worker may not give itself
# description: Schedulers and operators trust these labels.
# custom:
#   code: BW-CONFIG-042
#   hint: "leave the label to the cluster; a policy-admin may name it in config.labels.allow"
deny_danger contains found if {
	input.call.class == "apply"
	places.labels
	not all_ordinary
	bad := trusted("labels")
	count(bad) > 0
	found := finding.because(rego.metadata.rule(), sprintf("machine.nodeLabels %s says what a worker may not say of itself", [shown(bad)]))
}

# METADATA
# title: annotations a worker may not give itself
# description: Network plugins and controllers take orders from these annotations.
# custom:
#   code: BW-CONFIG-043
#   hint: "leave the annotation to the cluster; a policy-admin may name it in config.annotations.allow"
deny_danger contains found if {
	input.call.class == "apply"
	places.annotations
	not all_ordinary
	bad := trusted("annotations")
	count(bad) > 0
	found := finding.because(rego.metadata.rule(), sprintf("machine.nodeAnnotations %s gives orders to a controller of the cluster", [shown(bad)]))
}

# METADATA
# title: taints that drive pods off
# description: NoExecute ends what runs on the machine at once. An effect that is not shown is taken for it.
# custom:
#   code: BW-CONFIG-044
#   hint: "use NoSchedule, or drain {machine} first; a policy-admin may name the effect in config.taints.effects"
deny_danger contains found if {
	input.call.class == "apply"
	places.taints
	bad := {entry.key | some entry in entries("taints"); not lenient(entry.after)}
	count(bad) > 0
	found := finding.because(rego.metadata.rule(), sprintf("machine.nodeTaints %s drives pods off this machine at once", [shown(bad)]))
}

# METADATA
# title: entries of a meaning
# description: |
#   The map entries that change in the fields of this meaning. A change of the whole map has
#   the key "", which nothing allows.
entries(meaning) := [{"key": key, "after": object.get(item, "after", "")} |
	some place in places[meaning]
	some i
	input.config.changes[i].field == place[1]
	item := input.config.changes[i]
	item.document == place[0]
	not hollow(item)
	key := key_in(trim_prefix(item.path, item.field))
]

# METADATA
# title: hollow
# description: A whole map that comes or goes without an entry in it.
hollow(item) if {
	item.path == item.field
	item.before in [null, {}]
	item.after in [null, {}]
}

# METADATA
# scope: document
# title: key in a path
# description: |
#   A key that is no identifier stands quoted in the path. Facts show no key with a quote or a
#   backslash in it.
key_in(rest) := substring(rest, 2, count(rest) - 4) if {
	startswith(rest, "[\"")
} else := substring(rest, 1, -1)

# METADATA
# title: unfit
# description: |
#   The keys of a meaning that the named table of the data does not have, or not with the
#   value they get. The table is read only as far as it is needed.
unfit(meaning, table) := {entry.key | some entry in entries(meaning); not fits(table, entry)}

fits(table, entry) if {
	plain(entry.key)
	within(data.bronzeward.config[table][entry.key], entry.after)
}

fits("sysfs", entry) if {
	plain(entry.key)
	some pattern, want in data.bronzeward.config.sysfs
	contains(pattern, "*")
	glob.match(pattern, ["."], entry.key)
	within(want, entry.after)
}

plain(key) if regex.match(`^[A-Za-z0-9_:-]+(\.[A-Za-z0-9_:-]+)*$`, key)

# METADATA
# scope: document
# title: within
# description: A value goes away, or each part of it is what the table says of that part.
within(want, null) if is_array(want)

within(want, value) if {
	is_string(value)
	regex.match(`^[a-z0-9_+ \t-]{1,128}$`, value)
	parts := [part | some part in regex.split(`[ \t]+`, value); part != ""]
	count(parts) == count(want)
	every i, part in parts {
		good(want[i], part)
	}
}

good(want, part) if {
	regex.match(`^-?(0|[1-9][0-9]{0,18})$`, part)
	to_number(part) >= want.min
	to_number(part) <= want.max
}

good(want, part) if part in want.one_of

# METADATA
# title: trusted
# description: |
#   The keys of a meaning whose prefix belongs to somebody who is trusted, or is not shown:
#   facts hide a prefix with the look of a secret, and nobody knows whose it is. All keys are
#   looked at in one go; one by one only where one of them is such a key.
trusted(meaning) := {key | some key in names(meaning); not free(meaning, key)} if not all_free(meaning)

all_free(meaning) if not regex.match(foreign[meaning], concat("\n", names(meaning)))

free(meaning, key) if not regex.match(foreign[meaning], key)

free(meaning, key) if key in data.bronzeward.config[meaning].allow

# METADATA
# title: names
# description: The keys that change in the fields of a meaning, and the field itself where the whole map does.
names(meaning) := array.concat(wholes, keys) if {
	wholes := [place[1] |
		some place in places[meaning]
		some item in input.config.changes
		item.path == place[1]
		not hollow(item)
	]
	keys := [key |
		some place in places[meaning]
		dotted := concat("", [place[1], "."])
		quoted := concat("", [place[1], "[\""])
		some item in input.config.changes
		item.field == place[1]
		item.path != place[1]
		key := trim_suffix(trim_prefix(trim_prefix(item.path, dotted), quoted), "\"]")
	]
}

# METADATA
# scope: document
# title: all ordinary
# description: |
#   No path that changes holds anything that makes a label or annotation somebody else's: it
#   is asked of all paths in one go, before a key is taken out of any. It is a quick first
#   look and no more: what it does not rule out is looked at key by key.
default all_ordinary := false

all_ordinary if regex.match(suspicious, concat("\n", [path | path := input.config.changes[_].path])) == false

# METADATA
# title: suspicious
# description: |
#   The expression of paths in which a key may be foreign, whatever field they are of: all
#   that foreign names, where a key may begin in a path. Undefined, and so no path ordinary,
#   where data has no such lists.
suspicious := concat("", [
	`(?im)/.*/|fp:.*/|(^|\.|\[")("\]$|machine\.node[a-z]+("\])?$|$|(`,
	literal(concat("|", domains)), `)/`, literal(begins), `)`,
]) if {
	labels := data.bronzeward.config.labels
	annotations := data.bronzeward.config.annotations
	lists := [labels.domains, annotations.domains, labels.begins, annotations.begins]
	every list in lists {
		is_array(list)
	}
	names := array.flatten(lists)
	{type_name(name) | some name in names} == {"string"}
	regex.match(`^[a-z0-9. -]*$`, concat(" ", names))
	domains := array.concat(labels.domains, annotations.domains)
	begins := concat("|", array.flatten(["", labels.begins, annotations.begins]))
}

# METADATA
# title: foreign
# description: |
#   By meaning, the expression of keys that are not one's own to give: the whole map, a
#   hidden prefix, several slashes, a listed beginning, a listed domain or one below it.
#   Undefined, and so no key free, where data has no such lists.
foreign[meaning] := pattern if {
	some meaning in ["annotations", "labels"]
	table := data.bronzeward.config[meaning]
	regex.match(`^[a-z0-9. -]*$`, concat(" ", array.concat(table.begins, table.domains)))
	begins := concat("", [concat("", ["|", name]) | some name in table.begins])
	pattern := concat("", [
		`(?im)^($|machine\.node[a-z]+$|fp:.*/|.*/.*/|(.*\.)?(`,
		literal(concat("|", table.domains)), `)/`, literal(begins), `)`,
	])
}

# Of what the lists may hold only the dot means something else in an expression.
literal(names) := concat(`\.`, split(names, "."))

lenient(null)

lenient(after) if {
	parts := split(after, ":")
	parts[count(parts) - 1] in data.bronzeward.config.taints.effects
}

shown(keys) := sprintf("%s and %d more", [concat(", ", array.slice(sort(keys), 0, 3)), count(keys) - 3]) if count(keys) > 3

shown(keys) := concat(", ", sort(keys)) if count(keys) <= 3
