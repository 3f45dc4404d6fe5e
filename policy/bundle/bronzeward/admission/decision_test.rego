package bronzeward.admission_test

import data.bronzeward.admission
import data.bronzeward.lib.sample_test as sample

no_quorum := {"required": 0, "groups": ["approvers"], "self_approval": false}

shipped_quorum := {"required": 1, "groups": ["approvers"], "self_approval": false}

test_an_ordinary_apply_is_allowed if {
	admission.decision == {
		"allow": true,
		"reasons": set(),
		"approvals": no_quorum,
		"upstream_roles": {"os:admin"},
		"redact": true,
	} with data.bronzeward.role_bindings as sample.role_bindings with input as sample.apply with data.bronzeward.quorum as no_quorum
}

test_as_shipped_it_needs_an_approval if {
	not admission.decision.allow with data.bronzeward.role_bindings as sample.role_bindings with input as sample.apply with data.bronzeward.quorum as shipped_quorum
	admission.decision.approvals.required == 1 with data.bronzeward.role_bindings as sample.role_bindings with input as sample.apply with data.bronzeward.quorum as shipped_quorum
}

test_the_highest_quorum_counts if {
	call := sample.patched({"/config/changes": [sample.change("LinkConfig/eth0", "mtu", "mtu")]})
	admission.decision.approvals.required == 2 with data.bronzeward.role_bindings as sample.role_bindings with input as call with data.bronzeward.quorum as shipped_quorum
}

test_a_read_needs_none if {
	call := sample.patched({"/call/class": "read"})
	admission.decision.approvals.required == 0 with data.bronzeward.role_bindings as sample.role_bindings with input as call
	admission.decision.allow with data.bronzeward.role_bindings as sample.role_bindings with input as call
}

test_nothing_at_all_is_refused if {
	not admission.decision.allow with data.bronzeward.role_bindings as sample.role_bindings with input as {}
}

refused := sample.patched({"/call/mode": "staged"})

approved := sample.patched({"/change": object.union(sample.waiting, {"approvals": [sample.approval("anna")]})})

test_with_it_it_goes_through if {
	admission.decision == {
		"allow": true,
		"reasons": set(),
		"approvals": shipped_quorum,
		"upstream_roles": {"os:admin"},
		"redact": true,
	} with data.bronzeward.role_bindings as sample.role_bindings with input as approved with data.bronzeward.quorum as object.union(shipped_quorum, {"still_member": false})
}

test_what_data_put_on_warn_is_told_and_passes if {
	call := json.patch(approved, [
		{"op": "replace", "path": "/evidence/staged", "value": true},
		{"op": "replace", "path": "/change/approvals/0/approver/subject", "value": "olga"},
	])
	decision := admission.decision with data.bronzeward.role_bindings as sample.role_bindings with input as call
		with data.bronzeward.quorum as {"required": 1, "groups": ["approvers"], "self_approval": true, "still_member": false}
		with data.bronzeward.ladder as {"BW-APPROVAL-005": "warn", "BW-MODE-009": "warn"}
	decision.allow
	{[reason.code, reason.severity] | some reason in decision.reasons} == {["BW-APPROVAL-005", "warn"], ["BW-MODE-009", "warn"]}
}

severity(step) := found if {
	found := {reason.severity | some reason in admission.decision.reasons} with data.bronzeward.role_bindings as sample.role_bindings with input as refused
		with data.bronzeward.ladder as {"BW-MODE-004": step}
		with data.bronzeward.quorum as no_quorum
}

test_the_ladder[step] if {
	some step in ["shadow", "warn", "deny"]
	severity(step) == {step}
}

test_a_step_nobody_knows_denies if severity("off") == {"deny"}

test_a_rule_on_a_lower_step_does_not_refuse if {
	admission.decision.allow with data.bronzeward.role_bindings as sample.role_bindings with input as refused with data.bronzeward.ladder as {"BW-MODE-004": "warn"} with data.bronzeward.quorum as no_quorum
}

test_a_reason_names_its_area if {
	some reason in admission.decision.reasons with data.bronzeward.role_bindings as sample.role_bindings with input as refused
	reason.code == "BW-MODE-004"
	reason.rule == "data.bronzeward.rules.mode"
}

test_secrets_are_shown_by_data_only if {
	permissions := object.union(data.bronzeward.permissions, {"operator": {"classes": ["apply"], "methods": [], "see_secrets": true}})
	admission.decision.redact == false with data.bronzeward.role_bindings as sample.role_bindings with input as sample.apply with data.bronzeward.permissions as permissions
}
