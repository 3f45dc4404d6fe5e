# METADATA
# title: identity
# description: Who may be heard at all.
package bronzeward.rules.identity

import data.bronzeward.lib.caller
import data.bronzeward.lib.finding

# METADATA
# title: the caller is revoked
# description: A revocation is for good; what is not known to be unrevoked counts as revoked.
# custom:
#   code: BW-IDENTITY-001
#   hint: "a revocation has no undo: somebody else does this"
deny contains finding.because(rego.metadata.rule(), sprintf("you, %s, are revoked, for good", [caller.named])) if {
	not input.caller.revoked == false
}

# METADATA
# title: the caller has no role
# description: None of the caller's groups stands in role_bindings.
# custom:
#   code: BW-IDENTITY-002
#   hint: "ask who keeps the groups of {caller} for one that role_bindings gives a role, then log in again"
deny contains found if {
	caller.roles == set()
	found := finding.because(rego.metadata.rule(), sprintf("%s is in no group that has a role here", [caller.named]))
}

# METADATA
# title: the proof has ended
# description: A credential that has ended, or whose end is not known, proves nothing.
# custom:
#   code: BW-IDENTITY-003
#   hint: bronzeward login
deny contains finding.because(rego.metadata.rule(), "the proof of this caller has ended; log in again") if {
	not proof_lasts
}

proof_lasts if {
	not startswith(input.caller.proof_ends, "0001-")
	time.parse_rfc3339_ns(input.caller.proof_ends) > time.parse_rfc3339_ns(input.now)
}

# METADATA
# title: the caller is nobody
# description: A subject and a known kind are the least a caller has.
# custom:
#   code: BW-IDENTITY-004
#   hint: "log in with a credential that names a person or a service: bronzeward login"
deny contains finding.because(rego.metadata.rule(), "this caller has no subject, or is neither human nor automation") if {
	not somebody
}

somebody if {
	input.caller.subject != ""
	input.caller.issuer != ""
	input.caller.kind in {"human", "automation"}
}
