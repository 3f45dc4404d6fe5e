package bronzeward.rules.holds_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.holds

hold(kind, scope) := {"kind": kind, "id": "h1", "holder": {"issuer": "i", "subject": "frida"}, "since": "2026-03-02T09:00:00Z", "scope": scope}

cases := {
	"a machine without holds passes": {"facts": {}, "want": set()},
	"an open attempt holds": {"facts": {"/holds": [hold("open-attempt", "machine")]}, "want": {"BW-HOLDS-001"}},
	"an open attempt holds a dry run": {"facts": {"/holds": [hold("open-attempt", "machine")], "/call/dry_run": true}, "want": {"BW-HOLDS-001"}},
	"an unresolved attempt holds": {"facts": {"/holds": [hold("unresolved-attempt", "machine")]}, "want": {"BW-HOLDS-002"}},
	"an unresolved attempt holds a dry run": {
		"facts": {"/holds": [hold("unresolved-attempt", "machine")], "/call/dry_run": true},
		"want": {"BW-HOLDS-002"},
	},
	"another machine's attempt lets a dry run through": {
		"facts": {"/holds": [hold("unresolved-attempt", "cluster")], "/call/dry_run": true},
		"want": set(),
	},
	"drift lets a dry run through": {"facts": {"/holds": [hold("drift", "machine")], "/call/dry_run": true}, "want": set()},
	"recovery holds a dry run": {"facts": {"/holds": [hold("recovery", "machine")], "/call/dry_run": true}, "want": {"BW-HOLDS-005"}},
	"an unknown hold holds a dry run": {"facts": {"/holds": [hold("whim", "machine")], "/call/dry_run": true}, "want": {"BW-HOLDS-006"}},
	"a retired machine takes no dry run": {"facts": {"/holds": [hold("retired", "machine")], "/call/dry_run": true}, "want": {"BW-HOLDS-009"}},
	"a freeze holds": {"facts": {"/holds": [hold("freeze", "machine")]}, "want": {"BW-HOLDS-003"}},
	"a freeze of the cluster holds": {"facts": {"/holds": [hold("freeze", "cluster")]}, "want": {"BW-HOLDS-003"}},
	"a freeze lets through what only adopts": {"facts": {"/holds": [hold("freeze", "machine")], "/change": {"kind": "adopt"}}, "want": set()},
	"a freeze holds a revert": {"facts": {"/holds": [hold("freeze", "machine")], "/change": {"kind": "revert", "drift": "h1"}}, "want": {"BW-HOLDS-003"}},
	"a freeze lets a dry run through": {"facts": {"/holds": [hold("freeze", "machine")], "/call/dry_run": true}, "want": set()},
	"a freeze that says nothing holds": {"facts": {"/holds": [{"kind": "freeze"}]}, "want": {"BW-HOLDS-003"}},
	"a retired machine is held": {"facts": {"/holds": [hold("retired", "machine")]}, "want": {"BW-HOLDS-009"}},
	"a retired machine is held for whatever adopts": {"facts": {"/holds": [hold("retired", "machine")], "/change": {"kind": "adopt"}}, "want": {"BW-HOLDS-009"}},
	"drift holds": {"facts": {"/holds": [hold("drift", "machine")]}, "want": {"BW-HOLDS-004"}},
	"drift holds that is not open yet": {"facts": {"/holds": [{"kind": "drift", "id": "", "scope": "machine"}], "/change": {"kind": "apply", "drift": ""}}, "want": {"BW-HOLDS-004"}},
	"drift holds that says nothing": {"facts": {"/holds": [{"kind": "drift"}]}, "want": {"BW-HOLDS-004"}},
	"drift that is not open yet holds an adoption of none": {"facts": {"/holds": [{"kind": "drift", "id": "", "scope": "machine"}], "/change": {"kind": "adopt", "drift": ""}}, "want": {"BW-HOLDS-004"}},
	"drift lets through the revert that names it": {"facts": {"/holds": [hold("drift", "machine")], "/change": {"kind": "revert", "drift": "h1"}}, "want": set()},
	"drift lets through the adoption that names it": {"facts": {"/holds": [hold("drift", "machine")], "/change": {"kind": "adopt", "drift": "h1"}}, "want": set()},
	"drift holds a revert of another": {"facts": {"/holds": [hold("drift", "machine")], "/change": {"kind": "revert", "drift": "h2"}}, "want": {"BW-HOLDS-004"}},
	"drift holds a revert of none": {"facts": {"/holds": [hold("drift", "machine")], "/change": {"kind": "revert"}}, "want": {"BW-HOLDS-004"}},
	"drift holds an apply that names it": {"facts": {"/holds": [hold("drift", "machine")], "/change": {"kind": "apply", "drift": "h1"}}, "want": {"BW-HOLDS-004"}},
	"a freeze lets an adoption through": {"facts": {"/holds": [hold("freeze", "machine")], "/change": {"kind": "adopt", "drift": "h1"}}, "want": set()},
	"drift holds an ordinary change": {"facts": {"/holds": [hold("drift", "machine")], "/change": {"kind": "apply"}}, "want": {"BW-HOLDS-004"}},
	"recovery holds": {"facts": {"/holds": [hold("recovery", "machine")]}, "want": {"BW-HOLDS-005"}},
	"an unknown hold holds": {"facts": {"/holds": [hold("whim", "machine")]}, "want": {"BW-HOLDS-006"}},
	"a taken slot holds": {"facts": {"/holds": [hold("open-attempt", "cluster")]}, "want": {"BW-HOLDS-007"}},
	"other mutations are held too": {"facts": {"/holds": [hold("open-attempt", "machine")], "/call/class": "mutate"}, "want": {"BW-HOLDS-001"}},
	"reads are not held": {"facts": {"/holds": [hold("recovery", "machine")], "/call/class": "read"}, "want": set()},
	"the early judgement does not look": {"facts": {"/holds": [hold("recovery", "machine")], "/phase": "early"}, "want": set()},
	"holds that are not known hold": {"facts": {"/holds": null}, "want": {"BW-HOLDS-008"}},
}

test_holds[name] if {
	some name, c in cases
	sample.codes(holds.deny) == c.want with input as sample.patched(c.facts)
}

test_a_drift_without_an_id_is_looked_up if {
	some found in holds.deny with input as sample.patched({"/holds": [{"kind": "drift", "id": "", "scope": "machine"}]})
	found.hint == "bronzeward drift list --open"
}

test_the_hint_names_the_hold if {
	some found in holds.deny with input as sample.patched({"/holds": [hold("open-attempt", "machine")]})
	found.hint == "bronzeward attempts show h1"
}

test_a_hold_without_a_machine_still_holds if {
	sample.codes(holds.deny) == {"BW-HOLDS-007"} with input as sample.patched({"/machine": null, "/holds": [hold("open-attempt", "cluster")]})
}

test_a_freeze_says_who_since_when_why_and_what_frees_it if {
	frozen := object.union(hold("freeze", "machine"), {"reason": "the disk is being looked at"})
	some found in holds.deny with input as sample.patched({"/holds": [frozen]})
	found.message == "worker-1 is frozen by frida since 2026-03-02T09:00:00Z: the disk is being looked at; an approver lifts it"
	found.hint == "an approver: bronzeward machines unfreeze worker-1 --reason TEXT"
}

test_a_used_up_limit_says_by_whom_since_when_and_where if {
	held := object.union(hold("open-attempt", "cluster"), {"reason": "on worker-2: it is under way"})
	some found in holds.deny with input as sample.patched({"/holds": [held]})
	found.message == concat(" ", [
		"the rollout limit of cluster lab is used up by attempt h1 of frida since 2026-03-02T09:00:00Z: on worker-2: it is under way;",
		"it is free when that ends, or when an approver raises the limit",
	])
	found.hint == "bronzeward attempts show h1"
}
