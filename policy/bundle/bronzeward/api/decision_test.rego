package bronzeward.api_test

import data.bronzeward.api
import data.bronzeward.lib.sample_test as sample

act(name, groups, kind) := {
	"version": 1,
	"act": name,
	"caller": object.union(sample.caller, {"groups": groups, "kind": kind}),
	"subject": "worker-1",
	"change": null,
	"now": "2026-03-02T10:00:00Z",
}

codes := {reason.code | some reason in api.decision.reasons}

test_an_operator_adds_machines if {
	api.decision == {
		"allow": true,
		"reasons": [],
		"approvals": {"required": 0, "groups": ["policy-admins"], "self_approval": false},
	} with data.bronzeward.role_bindings as sample.role_bindings with input as act("machines.add", ["operators"], "human")
}

test_a_viewer_does_not if {
	codes == {"BW-ACT-003"} with data.bronzeward.role_bindings as sample.role_bindings with input as act("machines.add", ["viewers"], "human")
	not api.decision.allow with data.bronzeward.role_bindings as sample.role_bindings with input as act("machines.add", ["viewers"], "human")
}

test_an_unknown_act_is_refused if {
	codes == {"BW-ACT-002"} with data.bronzeward.role_bindings as sample.role_bindings with input as act("machines.melt", ["operators"], "human")
}

test_automation_does_not_revoke if {
	codes == {"BW-ACT-004"} with data.bronzeward.role_bindings as sample.role_bindings with input as act("identities.revoke", ["recovery-admins"], "automation")
}

test_a_revoked_caller_does_nothing if {
	codes == {"BW-ACT-001"} with data.bronzeward.role_bindings as sample.role_bindings with input as json.patch(act("machines.read", ["viewers"], "human"), [{"op": "replace", "path": "/caller/revoked", "value": true}])
}

test_a_proof_that_has_ended_proves_nothing[ends] if {
	some ends in ["2026-03-02T09:00:00Z", "0001-01-01T00:00:00Z"]
	codes == {"BW-ACT-005"} with data.bronzeward.role_bindings as sample.role_bindings with input as json.patch(act("machines.read", ["viewers"], "human"), [{"op": "replace", "path": "/caller/proof_ends", "value": ends}])
}

test_a_second_policy_admin_by_data if {
	api.decision.approvals.required == 1 with data.bronzeward.role_bindings as sample.role_bindings with input as act("policy.activate", ["policy-admins"], "human") with data.bronzeward.api.policy_approvals as 1
}

issue(groups, proof) := json.patch(act("certificates.issue", groups, "human"), [{"op": "replace", "path": "/caller/proof", "value": proof}])

test_whoever_has_a_role_gets_a_certificate_on_a_token[name] if {
	some name, c in {
		"a viewer": {"in": issue(["viewers"], "token"), "want": set()},
		"with a certificate beside it": {"in": issue(["viewers"], "certificate+token"), "want": set()},
		"a certificate does not renew itself": {"in": issue(["viewers"], "certificate"), "want": {"BW-ACT-009"}},
		"nor does no proof": {"in": issue(["viewers"], ""), "want": {"BW-ACT-009"}},
		"nor one that is not told": {"in": json.remove(issue(["viewers"], ""), ["/caller/proof"]), "want": {"BW-ACT-009"}},
		"nobody without a role": {"in": issue(["gardeners"], "token"), "want": {"BW-ACT-003"}},
		"automation too": {"in": object.union(issue(["automation"], "token"), {"caller": {"kind": "automation"}}), "want": set()},
	}
	codes == c.want with data.bronzeward.role_bindings as sample.role_bindings with input as c["in"]
}

test_a_certificate_lasts_as_long_as_data_says[hours] if {
	some hours in [1, 8, 24]
	api.decision.certificate_hours == hours with data.bronzeward.role_bindings as sample.role_bindings
		with data.bronzeward.api.certificates as {"hours": hours}
		with input as issue(["viewers"], "token")
}

test_no_lifetime_no_certificate[i] if {
	some i, certificates in [{}, {"hours": 0}, {"hours": -1}, {"hours": 25}, {"hours": 1.5}, {"hours": "8"}, {"hours": true}, {"hours": null}, {"hours": [8]}, {"hour": 8}, null, 8]
	codes == {"BW-ACT-008"} with data.bronzeward.role_bindings as sample.role_bindings
		with data.bronzeward.api.certificates as certificates
		with input as issue(["viewers"], "token")
	not "certificate_hours" in object.keys(api.decision) with data.bronzeward.role_bindings as sample.role_bindings
		with data.bronzeward.api.certificates as certificates
		with input as issue(["viewers"], "token")
}

test_hours_are_of_certificates_alone if {
	not "certificate_hours" in object.keys(api.decision) with data.bronzeward.role_bindings as sample.role_bindings with input as act("machines.add", ["operators"], "human")
}

vera := {"issuer": "https://idp.example", "subject": "vera"}

hers := object.union(sample.waiting, {"requester": vera})

namesake := object.union(sample.waiting, {"requester": {"issuer": "https://other.example", "subject": "olga"}})

on(name, groups, change) := object.union(act(name, groups, "human"), {"change": change})

quorum := {"required": 1, "groups": ["approvers", "leads"], "self_approval": false, "still_member": false}

# olga asks, who is the caller of every act here.
changes := {
	"an approver approves another's change": {"in": on("changes.approve", ["approvers"], hers), "want": set()},
	"nobody approves their own": {"in": on("changes.approve", ["approvers"], sample.waiting), "want": {"BW-APPROVAL-007"}},
	"the same name at another issuer is somebody else": {"in": on("changes.approve", ["approvers"], namesake), "want": set()},
	"also to take a change back": {"in": on("changes.cancel-own", ["operators"], namesake), "want": {"BW-ACT-006"}},
	"an approver of other changes is not asked": {"in": on("changes.approve", ["reviewers"], hers), "want": {"BW-APPROVAL-006"}},
	"nor is who shows no group": {"in": object.remove(on("changes.approve", ["approvers"], hers), ["caller"]), "want": {"BW-ACT-001", "BW-ACT-003", "BW-ACT-005", "BW-APPROVAL-006", "BW-APPROVAL-008"}},
	"a group alone is not the role": {"in": on("changes.approve", ["leads"], hers), "want": {"BW-ACT-003"}},
	"automation does not approve": {"in": object.union(on("changes.approve", ["approvers"], hers), {"caller": {"kind": "automation"}}), "want": {"BW-ACT-004", "BW-APPROVAL-008"}},
	"an approver rejects any": {"in": on("changes.reject", ["approvers"], sample.waiting), "want": set()},
	"an approver cancels any": {"in": on("changes.cancel", ["approvers"], hers), "want": set()},
	"an operator cancels their own": {"in": on("changes.cancel-own", ["operators"], sample.waiting), "want": set()},
	"and nobody else's": {"in": on("changes.cancel-own", ["operators"], hers), "want": {"BW-ACT-006"}},
	"whoever applies applies any": {"in": on("changes.apply", ["operators"], hers), "want": set()},
	"no change is not approved": {"in": on("changes.approve", ["approvers"], null), "want": {"BW-ACT-007"}},
	"no change is not rejected": {"in": on("changes.reject", ["approvers"], null), "want": {"BW-ACT-007"}},
	"no change is not cancelled": {"in": on("changes.cancel", ["approvers"], null), "want": {"BW-ACT-007"}},
	"no change is not taken back": {"in": on("changes.cancel-own", ["operators"], null), "want": {"BW-ACT-007"}},
	"no change is not applied": {"in": on("changes.apply", ["operators"], null), "want": {"BW-ACT-007"}},
	"a change without an id is none": {"in": on("changes.apply", ["operators"], object.union(hers, {"id": ""})), "want": {"BW-ACT-007"}},
	"submitting has no change yet": {"in": on("changes.submit", ["operators"], null), "want": set()},
	"reading needs none": {"in": on("changes.read", ["viewers"], null), "want": set()},
}

test_acts_on_a_change[name] if {
	some name, c in changes
	codes == c.want with data.bronzeward.role_bindings as object.union(sample.role_bindings, {"reviewers": ["approver"]}) with data.bronzeward.quorum as quorum with input as c["in"]
}

test_only_people_approve_whatever_the_table_says if {
	codes == {"BW-APPROVAL-008"} with data.bronzeward.role_bindings as sample.role_bindings with data.bronzeward.quorum as quorum
		with input as changes["automation does not approve"]["in"]
		with data.bronzeward.api.acts as {"changes.approve": {"roles": ["approver"], "human": false}}
}

test_ones_own_by_data if {
	count(codes) == 0 with data.bronzeward.role_bindings as sample.role_bindings with data.bronzeward.quorum as object.union(quorum, {"self_approval": true})
		with input as on("changes.approve", ["approvers"], sample.waiting)
}

messages := {
	"BW-ACT-006": {"in": on("changes.cancel-own", ["operators"], hers), "message": "change chg_1 was proposed by somebody else; its requester or an approver cancels it"},
	"BW-ACT-007": {"in": on("changes.apply", ["operators"], null), "message": "changes.apply names no change that is known"},
	"BW-APPROVAL-006": {"in": on("changes.approve", ["reviewers"], hers), "message": "change chg_1 needs approval from approvers or leads, and olga is in none of these groups"},
	"BW-APPROVAL-007": {"in": on("changes.approve", ["approvers"], sample.waiting), "message": "change chg_1 was proposed by olga, and nobody approves their own"},
}

test_the_refusal_says_why[code] if {
	some code, c in messages
	{reason.message | some reason in api.decision.reasons; reason.code == code} == {c.message} with data.bronzeward.role_bindings as object.union(sample.role_bindings, {"reviewers": ["approver"]})
		with data.bronzeward.quorum as quorum
		with input as c["in"]
}
