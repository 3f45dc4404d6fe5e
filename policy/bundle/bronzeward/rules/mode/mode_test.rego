package bronzeward.rules.mode_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.mode

cases := {
	"no-reboot passes": {"facts": {}, "want": set()},
	"an absent mode is refused": {"facts": {"/call/mode_given": false, "/call/mode": "reboot"}, "want": {"BW-MODE-001"}},
	"reboot is refused": {"facts": {"/call/mode": "reboot"}, "want": {"BW-MODE-002"}},
	"reboot is refused as a dry run": {"facts": {"/call/mode": "reboot", "/call/dry_run": true}, "want": {"BW-MODE-002"}},
	"auto is refused": {"facts": {"/call/mode": "auto"}, "want": {"BW-MODE-003"}},
	"auto passes as a dry run": {"facts": {"/call/mode": "auto", "/call/dry_run": true}, "want": set()},
	"staged is refused": {"facts": {"/call/mode": "staged"}, "want": {"BW-MODE-004"}},
	"try is refused": {"facts": {"/call/mode": "try"}, "want": {"BW-MODE-005"}},
	"a later mode is refused": {"facts": {"/call/mode": "turbo"}, "want": {"BW-MODE-007"}},
	"a dry run over something staged is refused": {"facts": {"/call/dry_run": true, "/evidence/staged": true}, "want": {"BW-MODE-006"}},
	"a dry run without evidence waits": {"facts": {"/call/dry_run": true, "/evidence": null, "/phase": "early"}, "want": set()},
	"an apply over something staged passes with a warning, as its approval says what is lost": {"facts": {"/evidence/staged": true}, "want": {"BW-MODE-009"}},
	"an adoption discards nothing": {"facts": {"/evidence/staged": true, "/change": {"kind": "adopt"}}, "want": set()},
	"a revert says what is lost": {"facts": {"/evidence/staged": true, "/change": {"kind": "revert"}}, "want": {"BW-MODE-009"}},
	"what is not known to be staged or not is refused": {"facts": {"/evidence": null}, "want": {"BW-MODE-008"}},
	"an early judgement knows nothing staged": {"facts": {"/evidence": null, "/phase": "early"}, "want": set()},
	"other calls have no mode": {"facts": {"/call/class": "read", "/call/mode": "", "/call/mode_given": false}, "want": set()},
}

quorum(required) := {"required": required, "groups": ["approvers"], "self_approval": false, "still_member": false}

test_mode[name] if {
	some name, c in cases
	sample.codes(mode.deny) == c.want with input as sample.patched(c.facts) with data.bronzeward.quorum as quorum(1)
}

staged := sample.patched({"/evidence/staged": true, "/change": sample.waiting})

# Who approves is shown what is lost; where nobody needs to, nobody was.
test_nothing_staged_is_discarded_without_an_approval if {
	sample.codes(mode.deny) == {"BW-MODE-008"} with input as staged with data.bronzeward.quorum as quorum(0)
}

test_nothing_staged_is_discarded_where_the_quorum_is_not_known if {
	sample.codes(mode.deny) == {"BW-MODE-008"} with input as staged with data.bronzeward.quorum as {"groups": ["approvers"]}
}

# The count may come from any area: a change of the network asks for two by itself.
test_another_area_may_ask_for_the_approval if {
	call := json.patch(staged, [{"op": "replace", "path": "/config/changes", "value": [sample.change("LinkConfig/eth0", "mtu", "mtu")]}])
	sample.codes(mode.deny) == {"BW-MODE-009"} with input as call with data.bronzeward.quorum as quorum(0) with data.bronzeward.config.approvals as {"network": 2}
}

test_what_is_discarded_is_told if {
	mode.deny == {{
		"code": "BW-MODE-009",
		"message": "what is staged or on trial on worker-1 is discarded by this",
		"hint": "bronzeward changes show chg_1",
	}} with input as staged with data.bronzeward.quorum as quorum(1)
}

test_every_refusal_says_what_to_type if {
	every m in ["reboot", "auto", "staged", "turbo"] {
		some found in mode.deny with input as sample.patched({"/call/mode": m})
		found.hint == "talosctl -n worker-1 apply-config --mode=no-reboot -f FILE"
	}
}
