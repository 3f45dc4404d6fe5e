package bronzeward.rules.approvals_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.approvals

olga := {"issuer": "https://idp.example", "subject": "olga"}

vera := {"issuer": "https://idp.example", "subject": "vera"}

anna := sample.approval("anna")

bert := sample.approval("bert")

approved(approvals_) := {"/change": object.union(sample.waiting, {"state": "approved", "approvals": approvals_})}

but(fields) := approved([object.union(anna, fields)])

waiting(fields) := {"/change": object.union(sample.waiting, fields)}

two_needed := {"/config/changes": [sample.change("LinkConfig/eth0", "mtu", "mtu")]}

cases := {
	"no change is not approved": {"facts": {}, "want": {"BW-APPROVAL-001"}},
	"one approval is enough for one": {"facts": approved([anna]), "want": set()},
	"a change that waits by the book, and has what it needs, passes": {"facts": waiting({"approvals": [anna]}), "want": set()},
	"none is not": {"facts": approved([]), "want": {"BW-APPROVAL-001"}},
	"the same person twice is one": {"facts": object.union(approved([anna, object.union(anna, {"groups": ["approvers", "x"]})]), two_needed), "want": {"BW-APPROVAL-001"}},
	"a revoked approval does not count": {"facts": but({"revoked": true}), "want": {"BW-APPROVAL-001"}},
	"one of another epoch does not count": {"facts": but({"epoch_current": false}), "want": {"BW-APPROVAL-001"}},
	"automation does not approve": {"facts": but({"kind": "automation"}), "want": {"BW-APPROVAL-001"}},
	"another group does not count": {"facts": but({"groups": ["viewers"]}), "want": {"BW-APPROVAL-001"}},
	"no group does not count": {"facts": but({"groups": null}), "want": {"BW-APPROVAL-001"}},
	"who left the group has approved nevertheless": {"facts": but({"groups_now": ["viewers"]}), "want": set()},
	"who is still in the group counts": {"facts": but({"groups_now": ["approvers"]}), "want": set()},
	"the requester does not approve their own": {"facts": but({"approver": olga}), "want": {"BW-APPROVAL-001"}},
	"nor where somebody else applies it": {
		"facts": {"/change": object.union(sample.waiting, {"requester": vera, "approvals": [object.union(anna, {"approver": vera})]})},
		"want": {"BW-APPROVAL-001"},
	},
	"the spender does not approve what they apply": {
		"facts": {"/change": object.union(sample.waiting, {"spender": vera, "approvals": [object.union(anna, {"approver": vera})]})},
		"want": {"BW-APPROVAL-001"},
	},
	"the same name at another issuer is somebody else": {"facts": but({"approver": {"issuer": "https://other.example", "subject": "olga"}}), "want": set()},
	"a change of another epoch authorizes nothing": {
		"facts": waiting({"approvals": [anna], "epoch_current": false}),
		"want": {"BW-APPROVAL-001", "BW-APPROVAL-002"},
	},
	"a dry run needs none": {"facts": {"/call/dry_run": true}, "want": set()},
	"the early judgement does not count": {"facts": {"/phase": "early"}, "want": set()},
	"a change of the network needs two": {"facts": object.union(approved([anna]), two_needed), "want": {"BW-APPROVAL-001"}},
	"and takes two": {"facts": object.union(approved([anna, bert]), two_needed), "want": set()},
	"a change without a state is not live": {"facts": {"/change": object.remove(approved([anna])["/change"], ["state"])}, "want": {"BW-APPROVAL-009"}},
}

one_approval := {"required": 1, "groups": ["approvers"], "self_approval": false, "still_member": false}

# METADATA
# title: said
# description: What the approvals say of some facts under a quorum.
said(facts, quorum) := found if {
	found := approvals.deny with input as sample.patched(facts) with data.bronzeward.quorum as quorum
}

test_approvals[name] if {
	some name, c in cases
	sample.codes(said(c.facts, one_approval)) == c.want
}

test_only_a_live_change_is_applied[state] if {
	some state in ["spent", "superseded", "cancelled", "rejected", "expired", "revoked", "", "unheard-of"]
	sample.codes(said(waiting({"state": state, "approvals": [anna]}), one_approval)) == {"BW-APPROVAL-009"}
}

test_none_required_needs_none if {
	count(said({}, object.union(one_approval, {"required": 0}))) == 0
}

test_none_required_still_needs_a_live_change if {
	sample.codes(said(waiting({"state": "spent"}), object.union(one_approval, {"required": 0}))) == {"BW-APPROVAL-009"}
}

messages := {
	"without a change": {"facts": {}, "quorum": {}, "message": "this needs 1 approval from approvers", "hint": ""},
	"one": {
		"facts": waiting({}),
		"quorum": {},
		"message": "change chg_1 needs 1 approval from approvers",
		"hint": "bronzeward changes show chg_1, and once it is approved: bronzeward changes apply chg_1",
	},
	"some given": {
		"facts": waiting({"approvals": [anna]}),
		"quorum": {"required": 2, "groups": ["approvers", "leads"]},
		"message": "change chg_1 needs 2 approvals from approvers or leads, 1 given",
		"hint": "bronzeward changes show chg_1, and once it is approved: bronzeward changes apply chg_1",
	},
	"given by nobody who counts": {
		"facts": but({"revoked": true}),
		"quorum": {},
		"message": "change chg_1 needs 1 approval from approvers",
		"hint": "bronzeward changes show chg_1, and once it is approved: bronzeward changes apply chg_1",
	},
	"data without groups": {"facts": {}, "quorum": {"groups": []}, "message": "this needs 1 approval from no group at all", "hint": ""},
}

test_the_refusal_says_what_is_needed_and_what_to_type[name] if {
	some name, c in messages
	said(c.facts, object.union(one_approval, c.quorum)) == {{"code": "BW-APPROVAL-001", "message": c.message, "hint": c.hint}}
}

test_a_past_change_is_named_with_its_state if {
	some found in said(waiting({"state": "superseded", "approvals": [anna]}), one_approval)
	found.message == "change chg_1 is superseded"
}

still := object.union(one_approval, {"still_member": true})

members := {
	"still in the group": {"now": ["approvers", "x"], "want": set()},
	"in another one by now": {"now": ["viewers"], "want": {"BW-APPROVAL-001"}},
	"in none by now": {"now": [], "want": {"BW-APPROVAL-001"}},
	"seen by nobody since": {"now": null, "want": {"BW-APPROVAL-001"}},
}

test_data_may_ask_that_approvers_are_still_members[name] if {
	some name, c in members
	sample.codes(said(but({"groups_now": c.now}), still)) == c.want
}

test_what_data_do_not_say_is_the_stricter if {
	left := but({"groups_now": ["viewers"]})
	sample.codes(said(left, object.remove(one_approval, ["still_member"]))) == {"BW-APPROVAL-001"}
	sample.codes(said(left, object.union(one_approval, {"still_member": "no"}))) == {"BW-APPROVAL-001"}
	sample.codes(said(but({"approver": olga}), object.union(one_approval, {"self_approval": "yes"}))) == {"BW-APPROVAL-001"}
}

own := object.union(one_approval, {"self_approval": true})

of(approver, requester, spender) := {"/change": object.union(sample.waiting, {"requester": requester, "spender": spender, "approvals": [object.union(anna, {"approver": approver})]})}

selves := {
	"the requester": {"facts": of(olga, olga, vera), "want": {"self-approved: olga is the requester"}},
	"the spender": {"facts": of(vera, olga, vera), "want": {"self-approved: vera is the spender"}},
	"both": {"facts": of(olga, olga, olga), "want": {"self-approved: olga is the requester and the spender"}},
	"neither": {"facts": of(anna.approver, olga, vera), "want": set()},
	"the requester by an approval that does not count": {
		"facts": {"/change": object.union(sample.waiting, {"approvals": [object.union(anna, {"approver": olga, "revoked": true}), anna]})},
		"want": set(),
	},
	"one of two": {
		"facts": {"/change": object.union(sample.waiting, {"approvals": [object.union(anna, {"approver": olga}), anna]})},
		"want": {"self-approved: olga is the requester and the spender"},
	},
}

test_a_self_approval_by_data_counts_and_is_marked[name] if {
	some name, c in selves
	found := said(c.facts, own)
	{f.message | some f in found} == c.want
	sample.codes(found) & {"BW-APPROVAL-001"} == set()
}

test_an_unknown_quorum_is_never_met if {
	sample.codes(said(approved([]), {"groups": []})) == {"BW-APPROVAL-003"}
}

test_a_quorum_that_is_no_number_is_never_met if {
	sample.codes(said(approved([anna]), object.union(one_approval, {"required": "one"}))) == {"BW-APPROVAL-001", "BW-APPROVAL-003"}
}

message(facts) := found.message if {
	some found in approvals.deny with input as sample.patched(facts) with data.bronzeward.quorum as one_approval
	found.code == "BW-APPROVAL-001"
}

test_who_approved_is_told_why_it_is_not_enough if {
	by_spender := approved([object.union(anna, {"approver": olga})])
	contains(message(by_spender), "yours does not count when you apply it yourself")
	not contains(message(approved([])), "yours does not count")
}

test_what_the_machine_runs_already_is_said if {
	contains(message({"/config/identical": true}), "the machine runs exactly this already")
	not contains(message({}), "runs exactly this already")
	other := [{"kind": "unresolved-attempt", "scope": "cluster"}]
	contains(message({"/config/identical": true, "/holds": other}), "the machine runs exactly this already")
	every kind in ["open-attempt", "unresolved-attempt"] {
		own := [{"kind": kind, "scope": "machine"}]
		not contains(message({"/config/identical": true, "/holds": own}), "runs exactly this already")
	}
}
