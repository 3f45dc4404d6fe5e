# METADATA
# title: change
# description: What a call would change, by its class and phase.
package bronzeward.lib.change

# OPA keeps the answer of a rule for the rest of a decision only where there is one. Hence the
# defaults: what is asked by many rules and does not hold is found out once.

# METADATA
# scope: document
# title: final
# description: The judgement that counts. Any phase but "early" is final.
default final := false

final if input.phase != "early"

# METADATA
# scope: document
# title: applying
# description: A real apply in its final judgement.
default applying := false

applying if {
	input.call.class == "apply"
	not dry_run
	final
}

# METADATA
# title: dry run
# description: Only an explicit dry run is one.
dry_run if input.call.dry_run == true

# METADATA
# scope: document
# title: mutating
# description: |
#   Everything that is not known to leave the machine as it is, dry runs of an apply
#   aside. A class nobody knows is among them.
default mutating := false

mutating if {
	not input.call.class in {"read", "config-read", "secret-read", "sensitive-read", "egress", "apply"}
	final
}

mutating if applying
