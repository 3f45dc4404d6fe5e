# METADATA
# title: samples
# description: The inputs that the tests of every area start from.
package bronzeward.lib.sample_test

# METADATA
# title: role_bindings
# description: |
#   The groups the tests speak of. They stand in for the data of the same name, which every
#   house fills with its own groups.
role_bindings := {
	"viewers": ["viewer"],
	"operators": ["operator"],
	"approvers": ["approver"],
	"auditors": ["auditor"],
	"recovery-admins": ["recovery-admin"],
	"policy-admins": ["policy-admin"],
	"automation": ["operator"],
}

caller := {
	"issuer": "https://idp.example",
	"subject": "olga",
	"kind": "human",
	"groups": ["operators"],
	"proof": "token",
	"proof_ends": "2026-03-02T10:10:00Z",
	"revoked": false,
}

call := {
	"method": "/machine.MachineService/ApplyConfiguration",
	"class": "apply",
	"stream": false,
	"mode": "no-reboot",
	"mode_given": true,
	"dry_run": false,
	"try_timeout_seconds": 0,
	"size": 15360,
	"resource": null,
	"path": "",
	"service": "",
	"targets": 1,
	"cluster": "lab",
}

# METADATA
# title: apply
# description: An ordinary apply of one label to a pinned worker. Nothing refuses it but a quorum.
apply := {
	"version": 1,
	"phase": "final",
	"call": call,
	"caller": caller,
	"machine": {"name": "worker-1", "cluster": "lab", "role": "worker", "labels": {}, "pinned": true},
	"evidence": {"version": "v1.13.6", "minor": "1.13", "stage": "running", "type": "worker", "identity_matches": true, "staged": false},
	"config": {
		"digest": "sha256:k0:aa",
		"base": "sha256:k0:bb",
		"persistent": "sha256:k0:bb",
		"problems": [],
		"documents": [{"api_version": "v1alpha1", "kind": "v1alpha1", "name": ""}],
		"changes": [change("v1alpha1", "machine.nodeLabels.a", "machine.nodeLabels")],
		"changes_known": true,
		"collections": [],
		"identical": false,
	},
	"change": null,
	"holds": [],
	"now": "2026-03-02T10:00:00Z",
}

# METADATA
# title: change
# description: One change, of a value that is not shown.
change(document, path, field) := {
	"document": document,
	"path": path,
	"field": field,
	"before": null,
	"after": "fp:1111",
	"reboot": false,
}

# METADATA
# title: waiting
# description: The ordinary apply as a change that the caller has proposed and nobody approved.
waiting := {
	"id": "chg_1",
	"state": "waiting",
	"kind": "apply",
	"requester": {"issuer": caller.issuer, "subject": caller.subject},
	"spender": {"issuer": caller.issuer, "subject": caller.subject},
	"approvals": [],
	"epoch_current": true,
}

# METADATA
# title: approval
# description: A good approval, by an approver of this name.
approval(subject) := {
	"approver": {"issuer": caller.issuer, "subject": subject},
	"kind": "human",
	"groups": ["approvers"],
	"groups_now": null,
	"revoked": false,
	"epoch_current": true,
}

# METADATA
# title: patched
# description: The ordinary apply with some of its facts replaced, by their paths.
patched(facts) := json.patch(apply, [{"op": "replace", "path": path, "value": value} | some path, value in facts])

# METADATA
# title: codes
# description: The codes of findings.
codes(findings) := {found.code | some found in findings}
