package bronzeward.rules.config_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.config

changing(items) := sample.patched({"/config/changes": items})

field(path) := changing([sample.change("v1alpha1", path, path)])

document(name) := changing([sample.change(name, "x", "x")])

# Stances of these tests' own, so that the house's may change: which they are is held by the case files.
stances := {
	"allowed": ["ordinary", "labels", "annotations", "taints", "sysctls", "sysfs", "kubelet-args"],
	"approvals": {"network": 2, "not-compared": 2},
}

places := {
	"debug": {"BW-CONFIG-029"},
	"machine.type": {"BW-CONFIG-025", "BW-CONFIG-047"},
	"machine.token": {"BW-CONFIG-026", "BW-CONFIG-047"},
	"machine.ca.crt": {"BW-CONFIG-010"},
	"machine.acceptedCAs": {"BW-CONFIG-010"},
	"machine.certSANs": {"BW-CONFIG-016"},
	"machine.controlPlane.scheduler.disabled": {"BW-CONFIG-034"},
	"machine.kubelet.image": {"BW-CONFIG-022"},
	"machine.kubelet.extraConfig": {"BW-CONFIG-037"},
	"machine.kubelet.extraMounts.source": {"BW-CONFIG-012"},
	"machine.kubelet.defaultRuntimeSeccompProfileEnabled": {"BW-CONFIG-035"},
	"machine.network.interfaces.addresses": {"BW-CONFIG-014", "BW-CONFIG-048"},
	"machine.network.nameservers": {"BW-CONFIG-017"},
	"machine.network.kubespan.enabled": {"BW-CONFIG-033", "BW-CONFIG-048"},
	"machine.disks.device": {"BW-CONFIG-020", "BW-CONFIG-047"},
	"machine.install.wipe": {"BW-CONFIG-021"},
	"machine.files.content": {"BW-CONFIG-030", "BW-CONFIG-047"},
	"machine.env": {"BW-CONFIG-024", "BW-CONFIG-047"},
	"machine.time.disabled": {"BW-CONFIG-018"},
	"machine.registries.mirrors.endpoints": {"BW-CONFIG-022"},
	"machine.features.rbac": {"BW-CONFIG-028", "BW-CONFIG-047"},
	"machine.features.kubernetesTalosAPIAccess.enabled": {"BW-CONFIG-011"},
	"machine.logging.destinations.endpoint": {"BW-CONFIG-023"},
	"machine.kernel.modules.name": {"BW-CONFIG-031"},
	"machine.udev.rules": {"BW-CONFIG-012", "BW-CONFIG-047"},
	"cluster.controlPlane.endpoint": {"BW-CONFIG-027"},
	"cluster.apiServer.image": {"BW-CONFIG-034"},
	"cluster.inlineManifests.contents": {"BW-CONFIG-012"},
	"machine": {"BW-CONFIG-004", "BW-CONFIG-046"},
	"machine.features": {"BW-CONFIG-004", "BW-CONFIG-046"},
	"machine.nosuch": {"BW-CONFIG-004", "BW-CONFIG-046"},
	"": {"BW-CONFIG-004", "BW-CONFIG-046"},
}

test_fields[path] if {
	some path, codes in places
	sample.codes(config.deny) == codes with input as field(path)
		with data.bronzeward.config.allowed as stances.allowed
		with data.bronzeward.config.approvals as stances.approvals
}

kinds := {
	"NetworkRuleConfig/ingress": {"BW-CONFIG-013", "BW-CONFIG-048"},
	"NetworkDefaultActionConfig": {"BW-CONFIG-013", "BW-CONFIG-048"},
	"LinkConfig/eth0": {"BW-CONFIG-014", "BW-CONFIG-048"},
	"HostnameConfig": {"BW-CONFIG-016", "BW-CONFIG-048"},
	"ResolverConfig": {"BW-CONFIG-017"},
	"TimeSyncConfig": {"BW-CONFIG-018"},
	"WatchdogTimerConfig": {"BW-CONFIG-019", "BW-CONFIG-048"},
	"OOMConfig": {"BW-CONFIG-019", "BW-CONFIG-048"},
	"UserVolumeConfig/data": {"BW-CONFIG-020", "BW-CONFIG-048"},
	"ImageVerificationConfig": {"BW-CONFIG-022"},
	"KmsgLogConfig/k": {"BW-CONFIG-023"},
	"EnvironmentConfig": {"BW-CONFIG-024", "BW-CONFIG-047"},
	"TrustedRootsConfig/r": {"BW-CONFIG-010"},
	"SideroLinkConfig": {"BW-CONFIG-011"},
	"ExtensionServiceConfig/frr": {"BW-CONFIG-012", "BW-CONFIG-048"},
	"PCIDriverRebindConfig/0": {"BW-CONFIG-031", "BW-CONFIG-048"},
	"KubeSpanConfig": {"BW-CONFIG-033", "BW-CONFIG-048"},
	"KubeAPIServerCAConfig": {"BW-CONFIG-004", "BW-CONFIG-046"},
	"v1alpha1/x": {"BW-CONFIG-004", "BW-CONFIG-046"},
}

test_kinds[name] if {
	some name, codes in kinds
	sample.codes(config.deny) == codes with input as document(name)
		with data.bronzeward.config.allowed as stances.allowed
		with data.bronzeward.config.approvals as stances.approvals
}

test_entries_of_separate_documents_are_counted_by_kind if {
	items := [sample.change("LinkConfig/eth0", sprintf("addresses[%d].address", [i]), "addresses.address") | some i in numbers.range(1, 501)]
	"BW-CONFIG-005" in sample.codes(config.deny) with input as sample.patched({
		"/config/changes": items,
		"/config/collections": [{"document": "LinkConfig", "field": "addresses.address", "entries": 501}],
	})
}

many(n) := [sample.change("v1alpha1", sprintf("machine.nodeAnnotations.k%d", [i]), "machine.nodeAnnotations") | some i in numbers.range(1, n)]

test_five_hundred_new_entries_pass if {
	count(config.deny) == 0 with input as changing(many(500))
}

test_more_would_stop_the_node if {
	some found in config.deny with input as sample.patched({
		"/config/changes": many(501),
		"/config/collections": [{"document": "v1alpha1", "field": "machine.nodeAnnotations", "entries": 501}],
	})
	found.code == "BW-CONFIG-005"
	startswith(found.message, "machine.nodeAnnotations gains 501 entries")
}

test_old_entries_are_not_counted if {
	old := [object.union(item, {"before": "fp:2"}) | some item in many(600)]
	count(config.deny) == 0 with input as sample.patched({
		"/config/changes": old,
		"/config/collections": [{"document": "v1alpha1", "field": "machine.nodeAnnotations", "entries": 600}],
	})
}

test_many_new_entries_in_many_places_are_refused if {
	sample.codes(config.deny) == {"BW-CONFIG-009"} with input as changing(many(6)) with data.bronzeward.config.limits.new_total as 5
}

test_more_than_can_be_shown_is_refused if {
	sample.codes(config.deny) == {"BW-CONFIG-007"} with input as changing(many(5)) with data.bronzeward.config.limits.changes as 5
}

others := {
	"not read": {"facts": {"/config": null}, "want": {"BW-CONFIG-001"}},
	"no base": {"facts": {"/config/base": ""}, "want": {"BW-CONFIG-001"}},
	"early": {"facts": {"/config": null, "/phase": "early"}, "want": set()},
	"a problem with a line": {"facts": {"/config/problems": [{"kind": "syntax", "line": 3, "message": "m"}]}, "want": {"BW-CONFIG-002"}},
	"a problem without": {"facts": {"/config/problems": [{"kind": "missing", "line": 0, "message": "m"}]}, "want": {"BW-CONFIG-002"}},
	"an unknown document": {
		"facts": {"/config/documents": [{"api_version": "v1alpha1", "kind": "NosuchConfig", "name": ""}]},
		"want": {"BW-CONFIG-003"},
	},
	"many documents that stay as they are": {
		"facts": {"/config/documents": [{"api_version": "v1alpha1", "kind": "LinkConfig", "name": sprintf("l%d", [i])} | some i in numbers.range(1, 501)]},
		"want": set(),
	},
	"a reboot": {
		"facts": {"/config/changes": [object.union(sample.change("v1alpha1", "machine.nodeLabels.a", "machine.nodeLabels"), {"reboot": true})]},
		"want": {"BW-CONFIG-032"},
	},
	"nothing": {"facts": {"/config/changes": [], "/config/identical": true}, "want": {"BW-CONFIG-036"}},
}

test_others[name] if {
	some name, c in others
	sample.codes(config.deny) == c.want with input as sample.patched(c.facts)
}

test_the_network_is_refused_once_data_gives_it_no_quorum if {
	sample.codes(config.deny) == {"BW-CONFIG-015", "BW-CONFIG-048"} with input as document("LinkConfig/eth0") with data.bronzeward.config.approvals as {}
}

test_a_meaning_passes_once_data_allows_it if {
	count(config.deny) == 0 with input as document("ResolverConfig") with data.bronzeward.config.allowed as ["resolving"]
}

test_no_meaning_passes_without_the_list_of_those_that_do if {
	config_ := object.remove(data.bronzeward.config, ["allowed"])
	sample.codes(config.deny) == {"BW-CONFIG-017"} with input as document("ResolverConfig") with data.bronzeward.config as config_
}

test_the_refusal_names_where if {
	some found in config.deny with input as changing([sample.change("NetworkRuleConfig/in", "ingress", "ingress"), sample.change("NetworkRuleConfig/out", "", "")])
	endswith(found.message, ": NetworkRuleConfig/in, NetworkRuleConfig/out")
}

test_the_refusal_names_three_and_counts_the_rest if {
	items := [sample.change(sprintf("VolumeConfig/v%d", [i]), "x", "x") | some i in numbers.range(1, 5)]
	some found in config.deny with input as changing(items)
	contains(found.message, "and 2 more")
}

test_missing_limits_let_nothing_through if {
	found := sample.codes(config.deny) with input as sample.apply with data.bronzeward.config.limits as {}
	{"BW-CONFIG-006", "BW-CONFIG-007"} - found == set()
}

# What a drift may not have changed can be taken back, and is not adopted.
test_a_revert_goes_back_from_what_is_refused if {
	forbidden := sample.change("TrustedRootsConfig/r", "certificates", "certificates")
	sample.codes(config.deny) == {"BW-CONFIG-010"} with input as sample.patched({"/config/changes": [forbidden], "/change": {"kind": "adopt"}})
	sample.codes(config.deny) == {"BW-CONFIG-010"} with input as sample.patched({"/config/changes": [forbidden], "/change": {"kind": "apply"}})
	count(config.deny) == 0 with input as sample.patched({"/config/changes": [forbidden], "/change": {"kind": "revert"}})
}

test_a_revert_needs_as_many_approvals_as_its_meanings_ask_for if {
	forbidden := sample.change("TrustedRootsConfig/r", "certificates", "certificates")
	meaning := config.by_kind("TrustedRootsConfig")
	config.quorum == {3} with input as sample.patched({"/config/changes": [forbidden], "/change": {"kind": "revert"}}) with data.bronzeward.config.approvals as {meaning: 3}
}

test_an_adoption_needs_no_reboot_and_may_change_nothing if {
	rebooting := object.union(sample.change("v1alpha1", "machine.nodeLabels.a", "machine.nodeLabels"), {"reboot": true})
	"BW-CONFIG-032" in sample.codes(config.deny) with input as sample.patched({"/config/changes": [rebooting]})
	not "BW-CONFIG-032" in sample.codes(config.deny) with input as sample.patched({"/config/changes": [rebooting], "/change": {"kind": "adopt"}})
	"BW-CONFIG-032" in sample.codes(config.deny) with input as sample.patched({"/config/changes": [rebooting], "/change": {"kind": "revert"}})
	not "BW-CONFIG-036" in sample.codes(config.deny) with input as sample.patched({"/config/identical": true, "/change": {"kind": "adopt"}})
}

small := {"new_entries": 2, "new_total": 4, "changes": 100}

# Keys and counts have no meaning of their own; data gives them a stance by their code.
dangers := {
	"BW-CONFIG-005": sample.patched({
		"/config/changes": many(3),
		"/config/collections": [{"document": "v1alpha1", "field": "machine.nodeAnnotations", "entries": 3}],
	}),
	"BW-CONFIG-006": changing([object.union(sample.change(sprintf("ZswapConfig/l%d", [i]), "x", "x"), {"before": 1}) | some i in numbers.range(1, 3)]),
	"BW-CONFIG-009": changing(many(5)),
	"BW-CONFIG-040": sysctl("kernel.panic", "1"),
	"BW-CONFIG-041": kubelet("v", "10"),
	"BW-CONFIG-042": label("node-role.kubernetes.io/master"),
	"BW-CONFIG-043": annotation("k8s.io/x"),
	"BW-CONFIG-044": taint("v:NoExecute"),
}

test_a_danger_passes_with_the_approvals_data_asks_for[code] if {
	some code, facts in dangers
	sample.codes(config.deny) == {code} with input as facts with data.bronzeward.config.limits as small with data.bronzeward.config.approvals as {}
	sample.codes(config.deny) == {"BW-CONFIG-014"} with input as facts with data.bronzeward.config.limits as small with data.bronzeward.config.approvals as {code: 3}
	config.quorum == {3} with input as facts with data.bronzeward.config.limits as small with data.bronzeward.config.approvals as {code: 3}
}

test_the_warning_says_which_danger if {
	some found in config.deny with input as sysctl("kernel.panic", "1") with data.bronzeward.config.approvals as {"BW-CONFIG-040": 2}
	found.message == "machine.sysctls kernel.panic is not among those that are safe to change, or not to such a value (BW-CONFIG-040), needing 2 approvals"
}

test_no_approvals_are_no_stance if {
	every n in [0, -1, false, null] {
		sample.codes(config.deny) == {"BW-CONFIG-017"} with input as document("ResolverConfig") with data.bronzeward.config.approvals as {"resolving": n}
		config.quorum == set() with input as document("ResolverConfig") with data.bronzeward.config.approvals as {"resolving": n}
		sample.codes(config.deny) == {"BW-CONFIG-040"} with input as sysctl("kernel.panic", "1") with data.bronzeward.config.approvals as {"BW-CONFIG-040": n}
	}
}

# What no one may agree to: it is no danger but nothing anybody could judge.
test_no_number_of_approvals_lets_through_what_was_not_read if {
	sample.codes(config.deny) == {"BW-CONFIG-001"} with input as sample.patched({"/config": null}) with data.bronzeward.config.approvals as {"BW-CONFIG-001": 1}
	"BW-CONFIG-046" in sample.codes(config.deny) with input as field("machine.nosuch") with data.bronzeward.config.approvals as {"BW-CONFIG-046": 1}
}

test_one_approval_is_one if {
	some found in config.deny with input as document("LinkConfig/eth0") with data.bronzeward.config.approvals as {"network": 1}
	contains(found.message, "needing 1 approval: ")
}

unseen := sample.patched({"/config/changes": [], "/config/changes_known": false, "/change": {"kind": "adopt"}})

test_an_adoption_whose_differences_are_not_known_needs_as_many_as_the_strictest if {
	sample.codes(config.deny) == {"BW-CONFIG-014"} with input as unseen
	max(config.quorum) == 2 with input as unseen
	max(config.quorum) == 3 with input as unseen with data.bronzeward.config.approvals as {"network": 3, "not-compared": 2}
}

test_facts_that_do_not_say_whether_they_are_known_are_not if {
	old := object.remove(unseen.config, ["changes_known"])
	max(config.quorum) == 2 with input as object.union(object.remove(unseen, ["config"]), {"config": old})
}

test_such_an_adoption_is_refused_once_data_gives_it_no_quorum if {
	sample.codes(config.deny) == {"BW-CONFIG-038"} with input as unseen with data.bronzeward.config.approvals as {"network": 2}
}

test_such_an_adoption_is_ordinary_once_data_says_so if {
	allowed := array.concat(data.bronzeward.config.allowed, ["not-compared"])
	count(config.quorum) == 0 with input as unseen with data.bronzeward.config.allowed as allowed with data.bronzeward.config.approvals as {"network": 2}
}

test_where_the_differences_are_known_nothing_more_is_asked if {
	count(config.quorum) == 0 with input as sample.patched({"/change": {"kind": "adopt"}})
	count(config.quorum) == 0 with input as sample.patched({"/config/changes_known": false, "/change": {"kind": "apply"}})
	count(config.quorum) == 0 with input as sample.patched({"/config/changes_known": false, "/change": {"kind": "revert"}})
}
