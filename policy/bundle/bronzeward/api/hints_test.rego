package bronzeward.api_test

import data.bronzeward.api
import data.bronzeward.lib.sample_test as sample

refusals(facts, certificates) := out if {
	out := api.decision.reasons with data.bronzeward.role_bindings as object.union(sample.role_bindings, {"reviewers": ["approver"]})
		with data.bronzeward.quorum as quorum
		with data.bronzeward.api.certificates as certificates
		with input as facts
}

refused_acts := array.concat(
	[c["in"] | some c in changes],
	[
		act("machines.melt", ["operators"], "human"), act("identities.revoke", ["recovery-admins"], "automation"), issue(["viewers"], "certificate"),
		json.patch(act("machines.read", ["viewers"], "human"), [{"op": "replace", "path": "/caller/revoked", "value": true}]),
		json.patch(act("machines.read", ["viewers"], "human"), [{"op": "replace", "path": "/caller/proof_ends", "value": "2026-03-02T09:00:00Z"}]),
	],
)

said := {reason | some facts in refused_acts; some reason in refusals(facts, {"hours": 8})} | {reason | some reason in refusals(issue(["viewers"], "token"), {})}

all_codes := {sprintf("BW-ACT-%03d", [i]) | some i in numbers.range(1, 9)} | {"BW-APPROVAL-006", "BW-APPROVAL-007", "BW-APPROVAL-008"}

test_every_refusal_of_an_act_says_what_to_do if {
	{reason.code | some reason in said} == all_codes
	every reason in said {
		reason.hint != ""
		not contains(reason.hint, "{")
	}
}

test_a_hint_names_the_change_and_who_approves if {
	some reason in refusals(on("changes.approve", ["approvers"], sample.waiting), {})
	reason.hint == "somebody else of approvers or leads approves it: bronzeward changes approve chg_1"
}
