package bronzeward.rules.identity_test

import data.bronzeward.lib.sample_test as sample
import data.bronzeward.rules.identity

cases := {
	"an operator passes": {"facts": {}, "want": set()},
	"a revoked caller is refused": {"facts": {"/caller/revoked": true}, "want": {"BW-IDENTITY-001"}},
	"a caller not known to be unrevoked is refused": {"facts": {"/caller/revoked": null}, "want": {"BW-IDENTITY-001"}},
	"a caller in no group is refused": {"facts": {"/caller/groups": []}, "want": {"BW-IDENTITY-002"}},
	"a caller without groups is refused": {"facts": {"/caller/groups": null}, "want": {"BW-IDENTITY-002"}},
	"a caller in a group without a role is refused": {"facts": {"/caller/groups": ["guests"]}, "want": {"BW-IDENTITY-002"}},
	"a proof that has ended is refused": {"facts": {"/caller/proof_ends": "2026-03-02T10:00:00Z"}, "want": {"BW-IDENTITY-003"}},
	"a proof without an end is refused": {"facts": {"/caller/proof_ends": "0001-01-01T00:00:00Z"}, "want": {"BW-IDENTITY-003"}},
	"a caller without a subject is refused": {"facts": {"/caller/subject": ""}, "want": {"BW-IDENTITY-004"}},
	"a caller without an issuer is refused": {"facts": {"/caller/issuer": ""}, "want": {"BW-IDENTITY-004"}},
	"a caller of an unknown kind is refused": {"facts": {"/caller/kind": "robot"}, "want": {"BW-IDENTITY-004"}},
}

test_identity[name] if {
	some name, c in cases
	sample.codes(identity.deny) == c.want with data.bronzeward.role_bindings as sample.role_bindings with input as sample.patched(c.facts)
}
