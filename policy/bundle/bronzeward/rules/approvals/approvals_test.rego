package bronzeward.rules.approvals_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.approvals

olga := {"issuer": "https://idp.example", "subject": "olga"}

anna := {"approver": {"issuer": "i", "subject": "anna"}, "kind": "human", "groups": ["approvers"], "groups_now": null, "revoked": false, "epoch_current": true}

bert := object.union(anna, {"approver": {"issuer": "i", "subject": "bert"}})

change := {"id": "c1", "state": "approved", "kind": "apply", "requester": olga, "spender": olga, "approvals": [anna], "epoch_current": true}

approved(approvals_) := {"/change": object.union(change, {"approvals": approvals_})}

but(fields) := approved([object.union(anna, fields)])

cases := {
	"no change is not approved": {"facts": {}, "want": {"BW-APPROVAL-001"}},
	"one approval is enough for one": {"facts": approved([anna]), "want": set()},
	"none is not": {"facts": approved([]), "want": {"BW-APPROVAL-001"}},
	"the same person twice is one": {"facts": approved([anna, object.union(anna, {"groups": ["approvers", "x"]})]), "want": set()},
	"a revoked approval does not count": {"facts": but({"revoked": true}), "want": {"BW-APPROVAL-001"}},
	"one of another epoch does not count": {"facts": but({"epoch_current": false}), "want": {"BW-APPROVAL-001"}},
	"automation does not approve": {"facts": but({"kind": "automation"}), "want": {"BW-APPROVAL-001"}},
	"another group does not count": {"facts": but({"groups": ["viewers"]}), "want": {"BW-APPROVAL-001"}},
	"who left the group does not count": {"facts": but({"groups_now": ["viewers"]}), "want": {"BW-APPROVAL-001"}},
	"who is still in the group counts": {"facts": but({"groups_now": ["approvers"]}), "want": set()},
	"nobody approves their own": {"facts": but({"approver": olga}), "want": {"BW-APPROVAL-001"}},
	"a change of another epoch authorizes nothing": {
		"facts": {"/change": object.union(change, {"epoch_current": false})},
		"want": {"BW-APPROVAL-001", "BW-APPROVAL-002"},
	},
	"a dry run needs none": {"facts": {"/call/dry_run": true}, "want": set()},
	"the early judgement does not count": {"facts": {"/phase": "early"}, "want": set()},
	"a change of the network needs two": {
		"facts": object.union(approved([anna]), {"/config/changes": [sample.change("LinkConfig/eth0", "mtu", "mtu")]}),
		"want": {"BW-APPROVAL-001"},
	},
	"and takes two": {
		"facts": object.union(approved([anna, bert]), {"/config/changes": [sample.change("LinkConfig/eth0", "mtu", "mtu")]}),
		"want": set(),
	},
}

one_approval := {"required": 1, "groups": ["approvers"], "self_approval": false}

test_approvals[name] if {
	some name, c in cases
	sample.codes(approvals.deny) == c.want with input as sample.patched(c.facts) with data.bronzeward.quorum as one_approval
}

test_none_required_needs_none if {
	count(approvals.deny) == 0 with input as sample.apply with data.bronzeward.quorum as {"required": 0, "groups": ["approvers"], "self_approval": false}
}

test_self_approval_by_data if {
	count(approvals.deny) == 0 with input as sample.patched(but({"approver": olga})) with data.bronzeward.quorum as object.union(one_approval, {"self_approval": true})
}

test_an_unknown_quorum_is_never_met if {
	sample.codes(approvals.deny) == {"BW-APPROVAL-003"} with input as sample.patched(approved([])) with data.bronzeward.quorum as {"groups": []}
}
