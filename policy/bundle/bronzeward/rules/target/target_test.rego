package bronzeward.rules.target_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.target

cases := {
	"a pinned worker passes": {"facts": {}, "want": set()},
	"an unknown machine is refused": {"facts": {"/machine": null, "/call/class": "read"}, "want": {"BW-TARGET-002"}},
	"two machines are refused": {"facts": {"/call/targets": 2}, "want": {"BW-TARGET-003"}},
	"no machine is refused": {"facts": {"/call/targets": 0}, "want": {"BW-TARGET-003"}},
	"two machines are refused to any class that may change something": {
		"facts": {"/call/targets": 2, "/call/class": "unheard-of"},
		"want": {"BW-TARGET-003"},
	},
	"reads fan out": {"facts": {"/call/targets": 9, "/call/class": "read"}, "want": set()},
	"a control plane is refused": {"facts": {"/machine/role": "controlplane"}, "want": {"BW-TARGET-004"}},
	"a mutation of a control plane is refused": {"facts": {"/machine/role": "controlplane", "/call/class": "mutate"}, "want": {"BW-TARGET-004"}},
	"a control plane answers reads": {"facts": {"/machine/role": "controlplane", "/call/class": "read"}, "want": set()},
	"a control plane's configuration is given to nobody": {
		"facts": {"/machine/role": "controlplane", "/call/class": "config-read"},
		"want": {"BW-TARGET-005"},
	},
	"a machine that is not pinned is refused": {"facts": {"/machine/pinned": false}, "want": {"BW-TARGET-006"}},
	"an apply without evidence is refused": {"facts": {"/evidence": null}, "want": {"BW-TARGET-007"}},
	"the early judgement needs no evidence": {"facts": {"/evidence": null, "/phase": "early"}, "want": set()},
	"another machine is refused": {"facts": {"/evidence/identity_matches": false}, "want": {"BW-TARGET-008"}},
	"a control plane is adopted, as nothing is sent": {
		"facts": {"/machine/role": "controlplane", "/evidence/type": "controlplane", "/change": {"kind": "adopt"}},
		"want": set(),
	},
	"a control plane is not reverted": {
		"facts": {"/machine/role": "controlplane", "/evidence/type": "controlplane", "/change": {"kind": "revert"}},
		"want": {"BW-TARGET-004", "BW-TARGET-009"},
	},
	"an adoption of another machine is refused": {"facts": {"/evidence/identity_matches": false, "/change": {"kind": "adopt"}}, "want": {"BW-TARGET-008"}},
	"a live control plane is refused": {"facts": {"/evidence/type": "controlplane"}, "want": {"BW-TARGET-009"}},
	"maintenance is refused": {"facts": {"/evidence/stage": "maintenance"}, "want": {"BW-TARGET-010"}},
	"an unknown stage is refused": {"facts": {"/evidence/stage": ""}, "want": {"BW-TARGET-010"}},
	"Talos's own word for shutting down is refused": {"facts": {"/evidence/stage": "shutting down"}, "want": {"BW-TARGET-010"}},
	"rebooting is refused": {"facts": {"/evidence/stage": "rebooting"}, "want": {"BW-TARGET-010"}},
	"a stage nobody knows is refused": {"facts": {"/evidence/stage": "hibernating"}, "want": {"BW-TARGET-010"}},
	"another case is another stage": {"facts": {"/evidence/stage": "Running"}, "want": {"BW-TARGET-010"}},
	"booting passes, containers stay there": {"facts": {"/evidence/stage": "booting"}, "want": set()},
	"another minor is refused": {"facts": {"/evidence/minor": "1.14"}, "want": {"BW-TARGET-011"}},
	"another cluster's context is refused": {"facts": {"/call/cluster": "prod"}, "want": {"BW-TARGET-012"}},
	"no context passes": {"facts": {"/call/cluster": ""}, "want": set()},
}

test_target[name] if {
	some name, c in cases
	sample.codes(target.deny) == c.want with input as sample.patched(c.facts)
}

test_no_stage_at_all_is_refused if {
	sample.codes(target.deny) == {"BW-TARGET-010"} with input as json.remove(sample.apply, ["evidence/stage"])
}

# The control: with the word among those that pass, the machine on its way down takes an apply.
test_the_list_is_what_refuses_a_machine_going_down if {
	going := sample.patched({"/evidence/stage": "shutting down"})
	count(target.deny) == 0 with input as going with data.bronzeward.supported.stages as ["running", "shutting down"]
}

# A minor that data supports and no table knows is refused all the same.
test_a_minor_without_a_table_is_refused if {
	later := sample.patched({"/evidence/minor": "1.14", "/evidence/version": "v1.14.0"})
	every tables in [{}, {"1.14": {}}, {"1.14": {"fields": {"debug": "live"}, "kinds": {}}}, {"1.14": "live"}] {
		sample.codes(target.deny) == {"BW-TARGET-013"} with input as later with data.bronzeward.supported.minors as ["1.13", "1.14"] with data.bronzeward.oracle as tables
	}
}

# The control: what refuses it is the table that is missing.
test_with_a_table_the_minor_passes if {
	later := sample.patched({"/evidence/minor": "1.14", "/evidence/version": "v1.14.0"})
	tables := {"1.14": data.bronzeward.oracle["1.13"]}
	count(target.deny) == 0 with input as later with data.bronzeward.supported.minors as ["1.13", "1.14"] with data.bronzeward.oracle as tables
}
