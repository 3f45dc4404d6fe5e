package bronzeward.rules.config_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.config

# The rules of effects alone: what a change means is asked elsewhere.
effects_said(facts) := {found.code: found.message |
	some found in findings
	found.code in {"BW-CONFIG-046", "BW-CONFIG-047", "BW-CONFIG-048"}
} if {
	findings := config.deny with input as facts
}

done := {
	"a label is live": {"items": [sample.change("v1alpha1", "machine.nodeLabels.a", "machine.nodeLabels")], "want": {}},
	"a field below a live one is live": {"items": [sample.change("v1alpha1", "machine.time.servers[0]", "machine.time.servers")], "want": {}},
	"resolvers are live": {"items": [sample.change("ResolverConfig", "nameservers[0]", "nameservers")], "want": {}},
	"a volume is inert": {
		"items": [sample.change("VolumeConfig/EPHEMERAL", "provisioning.maxSize", "provisioning.maxSize")],
		"want": {"BW-CONFIG-047": "Talos takes this without a word, and it has its effect only when worker-1 restarts: VolumeConfig/EPHEMERAL provisioning.maxSize"},
	},
	"the password of a registry is inert below what is live": {
		"items": [sample.change("v1alpha1", `machine.registries.config["r.example"].auth.password`, "machine.registries.config.auth.password")],
		"want": {"BW-CONFIG-047": `Talos takes this without a word, and it has its effect only when worker-1 restarts: machine.registries.config["r.example"].auth.password`},
	},
	"what Talos refuses itself is left to the rule that says so": {
		"items": [object.union(sample.change("v1alpha1", "machine.udev.rules[0]", "machine.udev.rules"), {"reboot": true})],
		"want": {},
	},
	"what it does not refuse although it is inert is not": {
		"items": [sample.change("v1alpha1", "machine.udev.rules[0]", "machine.udev.rules")],
		"want": {"BW-CONFIG-047": "Talos takes this without a word, and it has its effect only when worker-1 restarts: machine.udev.rules[0]"},
	},
	"a link disrupts": {
		"items": [sample.change("LinkConfig/eth0", sprintf("addresses[%d].address", [i]), "addresses.address") | some i in numbers.range(0, 4)],
		"want": {"BW-CONFIG-048": "this takes effect at once and can disrupt worker-1: LinkConfig/eth0 addresses[0].address, LinkConfig/eth0 addresses[1].address, LinkConfig/eth0 addresses[2].address and 2 more"},
	},
	"a document that goes as a whole is named by itself": {
		"items": [sample.change("WatchdogTimerConfig", "", "")],
		"want": {"BW-CONFIG-048": "this takes effect at once and can disrupt worker-1: WatchdogTimerConfig"},
	},
	"a field nobody knows": {
		"items": [sample.change("v1alpha1", "machine.nosuch", "machine.nosuch")],
		"want": {"BW-CONFIG-046": "whether this needs a reboot is not known for Talos 1.13: machine.nosuch"},
	},
	"a block as a whole": {
		"items": [sample.change("v1alpha1", "machine.features", "machine.features")],
		"want": {"BW-CONFIG-046": "whether this needs a reboot is not known for Talos 1.13: machine.features"},
	},
	"a kind nobody knows": {
		"items": [sample.change("KubeNetworkConfig", "x", "x")],
		"want": {"BW-CONFIG-046": "whether this needs a reboot is not known for Talos 1.13: KubeNetworkConfig"},
	},
}

test_effects[name] if {
	some name, c in done
	effects_said(changing(c.items)) == c.want
}

# Whatever stance data gives to meanings, and whoever agreed: unknown is refused.
test_no_stance_lets_an_unknown_effect_through if {
	"BW-CONFIG-046" in sample.codes(config.deny) with input as field("machine.nosuch") with data.bronzeward.config.allowed as ["unknown"]
	"BW-CONFIG-046" in sample.codes(config.deny) with input as field("machine.nosuch") with data.bronzeward.config.approvals as {"unknown": 2}
	"BW-CONFIG-046" in sample.codes(config.deny) with input as sample.patched({
		"/config/changes": [sample.change("v1alpha1", "machine.nosuch", "machine.nosuch")],
		"/change": {"kind": "revert"},
	})
}

# The control: with an entry of its own the field is known, and it was the entry.
test_an_entry_makes_it_known if {
	table := json.patch(data.bronzeward.oracle, [{"op": "add", "path": ["1.13", "fields", "machine.nosuch"], "value": "live"}])
	sample.codes(config.deny) == {"BW-CONFIG-004"} with input as field("machine.nosuch") with data.bronzeward.oracle as table
}

missing := {
	"no tables at all": {},
	"none for this minor": {"1.12": data.bronzeward.oracle["1.13"]},
	"an empty one": {"1.13": {"fields": {}, "kinds": {}}},
	"a word nobody knows": {"1.13": {"fields": {"machine.nodeLabels": "Live"}, "kinds": {"ResolverConfig": true}}},
	"no table but a word": {"1.13": "live"},
}

test_without_a_table_every_effect_is_unknown[name] if {
	some name, tables in missing
	"BW-CONFIG-046" in sample.codes(config.deny) with input as sample.apply with data.bronzeward.oracle as tables
	"BW-CONFIG-046" in sample.codes(config.deny) with input as document("ResolverConfig") with data.bronzeward.oracle as tables
}

test_without_evidence_every_effect_is_unknown if {
	some found in config.deny with input as sample.patched({"/evidence": null})
	found.code == "BW-CONFIG-046"
	startswith(found.message, "whether this needs a reboot is not known for Talos of this machine")
}

test_an_adoption_sends_nothing_that_could_do_anything if {
	items := [sample.change("VolumeConfig/EPHEMERAL", "x", "x"), sample.change("LinkConfig/eth0", "mtu", "mtu"), sample.change("v1alpha1", "machine.nosuch", "machine.nosuch")]
	effects_said(sample.patched({"/config/changes": items, "/change": {"kind": "adopt"}})) == {}
}

test_a_revert_takes_back_what_lies_inert if {
	items := [sample.change("VolumeConfig/EPHEMERAL", "x", "x"), sample.change("LinkConfig/eth0", "mtu", "mtu")]
	object.keys(effects_said(sample.patched({"/config/changes": items, "/change": {"kind": "revert"}}))) == {"BW-CONFIG-048"}
}

test_the_shipped_tables_say_one_of_three_words if {
	every table in data.bronzeward.oracle {
		every effect in table.fields {
			effect in {"live", "inert", "disruptive"}
		}
		every effect in table.kinds {
			effect in {"live", "inert", "disruptive"}
		}
	}
}

test_every_minor_that_is_supported_has_its_table if {
	every name in data.bronzeward.supported.minors {
		count(data.bronzeward.oracle[name].fields) > 0
	}
}
