package bronzeward.rules.methods_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.methods

by(group, method, class) := sample.patched({"/caller/groups": [group], "/call/method": method, "/call/class": class})

groups := ["viewers", "operators", "approvers", "auditors", "recovery-admins", "policy-admins"]

cases := {
	"an unknown class": {"in": by("operators", "/x.Y/Z", "unheard-of"), "grant": set(), "want": {"BW-METHODS-001"}},
	"an upload": {"in": by("operators", "/machine.ImageService/Import", "upload"), "grant": set(), "want": {"BW-METHODS-002"}},
	"a kubeconfig": {"in": by("operators", "/machine.MachineService/Kubeconfig", "mint"), "grant": set(), "want": {"BW-METHODS-003"}},
	"a secret": {"in": by("operators", "/cosi.resource.State/Get", "secret-read"), "grant": set(), "want": {"BW-METHODS-004"}},
	"a reboot": {"in": by("operators", "/machine.MachineService/Reboot", "mutate"), "grant": set(), "want": {"BW-METHODS-005"}},
	"a file": {"in": by("operators", "/machine.MachineService/Read", "sensitive-read"), "grant": set(), "want": {"BW-METHODS-006"}},
	"a health check": {"in": by("operators", "/cluster.ClusterService/HealthCheck", "egress"), "grant": set(), "want": {"BW-METHODS-007"}},
	"a configuration for an operator": {"in": by("operators", "/cosi.resource.State/Get", "config-read"), "grant": {"os:admin"}, "want": set()},
	"a configuration for a viewer": {"in": by("viewers", "/cosi.resource.State/Get", "config-read"), "grant": set(), "want": {"BW-METHODS-008"}},
	"an apply by an operator": {"in": sample.apply, "grant": {"os:admin"}, "want": set()},
	"an apply by automation": {"in": by("automation", "/machine.MachineService/ApplyConfiguration", "apply"), "grant": {"os:admin"}, "want": set()},
	"an apply by a viewer": {"in": by("viewers", "/machine.MachineService/ApplyConfiguration", "apply"), "grant": set(), "want": {"BW-METHODS-009"}},
	"a read by nobody": {"in": by("guests", "/machine.MachineService/Version", "read"), "grant": set(), "want": {"BW-METHODS-009"}},
}

test_methods[name] if {
	some name, c in cases
	sample.codes(methods.deny) == c.want with data.bronzeward.role_bindings as sample.role_bindings with input as c["in"]
	methods.grant == c.grant with data.bronzeward.role_bindings as sample.role_bindings with input as c["in"]
}

test_everybody_reads_as_reader[group] if {
	some group in groups
	methods.grant == {"os:reader"} with data.bronzeward.role_bindings as sample.role_bindings with input as by(group, "/machine.MachineService/Version", "read")
}

test_only_operators_apply if {
	every group in groups {
		granted := methods.grant with data.bronzeward.role_bindings as sample.role_bindings with input as by(group, "/machine.MachineService/ApplyConfiguration", "apply")
		count(granted) == {true: 1, false: 0}[group == "operators"]
	}
}

boot_id := json.patch(by("operators", "/machine.MachineService/Read", "sensitive-read"), [{"op": "replace", "path": "/call/path", "value": "/proc/sys/kernel/random/boot_id"}])

test_the_boot_id_is_readable if {
	count(methods.deny) == 0 with data.bronzeward.role_bindings as sample.role_bindings with input as boot_id
	methods.grant == {"os:admin"} with data.bronzeward.role_bindings as sample.role_bindings with input as boot_id
}

test_other_files_are_named_in_the_refusal if {
	some found in methods.deny with data.bronzeward.role_bindings as sample.role_bindings with input as json.patch(boot_id, [{"op": "replace", "path": "/call/path", "value": "/etc/shadow"}])
	contains(found.message, "/etc/shadow")
}

test_the_boot_id_is_not_for_viewers if {
	count(methods.grant) == 0 with data.bronzeward.role_bindings as sample.role_bindings with input as json.patch(boot_id, [{"op": "replace", "path": "/caller/groups", "value": ["viewers"]}])
}

given(methods_) := {"operator": {"classes": ["read"], "methods": methods_, "see_secrets": false}}

test_a_role_may_get_a_mutation_by_name if {
	call := by("operators", "/machine.MachineService/ServiceRestart", "mutate")
	count(methods.deny) == 0 with data.bronzeward.role_bindings as sample.role_bindings with input as call with data.bronzeward.permissions as given([call.call.method])
	methods.grant == {"os:operator"} with data.bronzeward.role_bindings as sample.role_bindings with input as call with data.bronzeward.permissions as given([call.call.method])
}

test_no_role_gets_what_mints_or_uploads[class] if {
	some class in ["mint", "upload", "secret-read"]
	call := by("operators", "/x.Y/Z", class)
	count(methods.deny) == 1 with data.bronzeward.role_bindings as sample.role_bindings with input as call with data.bronzeward.permissions as {"operator": {"classes": [class], "methods": ["/x.Y/Z"]}}
	count(methods.grant) == 0 with data.bronzeward.role_bindings as sample.role_bindings with input as call with data.bronzeward.permissions as {"operator": {"classes": [class], "methods": ["/x.Y/Z"]}}
}

test_a_class_without_a_talos_role_is_refused if {
	sample.codes(methods.deny) == {"BW-METHODS-010"} with data.bronzeward.role_bindings as sample.role_bindings with input as sample.apply with data.bronzeward.methods.roles as {}
}

test_the_refusal_names_the_role if {
	some found in methods.deny with data.bronzeward.role_bindings as sample.role_bindings with input as by("viewers", "/cosi.resource.State/Get", "config-read")
	contains(found.message, "needs the role operator")
	startswith(found.hint, "ask an operator")
}

test_a_secret_is_named_by_type if {
	call := json.patch(by("operators", "/cosi.resource.State/Get", "secret-read"), [{"op": "replace", "path": "/call/resource", "value": {"namespace": "secrets", "type": "OSRoots.secrets.talos.dev", "id": "os"}}])
	some found in methods.deny with data.bronzeward.role_bindings as sample.role_bindings with input as call
	contains(found.message, "OSRoots.secrets.talos.dev")
}
