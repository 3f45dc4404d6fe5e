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
	"an apply over something staged is refused": {"facts": {"/evidence/staged": true}, "want": {"BW-MODE-008"}},
	"an approved apply over something staged passes": {
		"facts": {"/evidence/staged": true, "/change": {"epoch_current": true, "approvals": [{}]}},
		"want": set(),
	},
	"other calls have no mode": {"facts": {"/call/class": "read", "/call/mode": "", "/call/mode_given": false}, "want": set()},
}

test_mode[name] if {
	some name, c in cases
	sample.codes(mode.deny) == c.want with input as sample.patched(c.facts)
}

test_every_refusal_says_what_to_type if {
	every m in ["reboot", "auto", "staged", "turbo"] {
		some found in mode.deny with input as sample.patched({"/call/mode": m})
		found.hint == "talosctl -n worker-1 apply-config --mode=no-reboot -f FILE"
	}
}
