package bronzeward.rules.config

import data.bronzeward.lib.finding

# METADATA
# title: kernel parameters that are not allowed
# description: |
#   Some make the machine restart itself, run a program or cut itself off. A key passes by
#   an allowed prefix, and not with a refused one or a refused word in it.
# custom:
#   code: BW-CONFIG-040
#   hint: ""
deny contains found if {
	input.call.class == "apply"
	some field in ["sysctls", "sysfs"]
	places[field]
	keys := [key | some key in keys_of(field); not parameter(field, key)]
	count(keys) > 0
	found := finding.because(rego.metadata.rule(), sprintf("machine.%s %s is not among those that are safe to change", [field, shown(keys)]))
}

# METADATA
# title: kubelet flags that are not allowed
# description: Most flags of the kubelet open or close something; a few are harmless.
# custom:
#   code: BW-CONFIG-041
#   hint: ""
deny contains found if {
	input.call.class == "apply"
	places["kubelet-args"]
	keys := [key | some key in keys_of("kubelet-args"); not key in data.bronzeward.config.kubelet_args]
	count(keys) > 0
	found := finding.because(rego.metadata.rule(), sprintf("machine.kubelet.extraArgs %s is not among those that are safe to change", [shown(keys)]))
}

# METADATA
# title: labels a worker may not give itself
# description: Schedulers and operators trust these labels.
# custom:
#   code: BW-CONFIG-042
#   hint: ""
deny contains found if {
	input.call.class == "apply"
	some place in places.labels
	names := [name |
		some item in input.config.changes
		item.field == place[1]
		name := trim_left(trim_prefix(item.path, item.field), ".[\"")
	]
	strings.any_prefix_match(names, data.bronzeward.config.labels.refuse)
	keys := [name | some name in names; strings.any_prefix_match(name, data.bronzeward.config.labels.refuse)]
	found := finding.because(rego.metadata.rule(), sprintf("%s %s says what a worker may not say of itself", [place[1], shown(keys)]))
}

# METADATA
# title: keys of a meaning
# description: |
#   The map keys that change in the fields of this meaning. A change of the whole map has
#   the key "", which nothing allows.
keys_of(meaning) := [key |
	some place in places[meaning]
	some item in input.config.changes
	item.field == place[1]
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

key_in(rest) := json.unmarshal(substring(rest, 1, count(rest) - 2)) if {
	startswith(rest, "[\"")
	endswith(rest, "\"]")
	json.is_valid(substring(rest, 1, count(rest) - 2))
} else := trim_prefix(rest, ".")

parameter(field, key) if {
	plain := replace(key, "/", ".")
	regex.match(`^[A-Za-z0-9_*:-]+(\.[A-Za-z0-9_*:-]+)+$`, plain)
	table := data.bronzeward.config[field]
	strings.any_prefix_match(plain, table.allow)
	not strings.any_prefix_match(plain, table.refuse)
	not regex.match(table.words, plain)
}

shown(keys) := concat(", ", array.slice(sort(keys), 0, 3))
