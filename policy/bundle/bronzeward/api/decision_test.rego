package bronzeward.api_test

import data.bronzeward.api
import data.bronzeward.lib.sample_test as sample

act(name, groups, kind) := {
	"version": 1,
	"act": name,
	"caller": object.union(sample.caller, {"groups": groups, "kind": kind}),
	"subject": "worker-1",
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
