# METADATA
# title: change
# description: What a call would change, by its class and phase.
package bronzeward.lib.change

# METADATA
# title: final
# description: The judgement that counts. Any phase but "early" is final.
final if input.phase != "early"

# METADATA
# title: applying
# description: A real apply in its final judgement.
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
mutating if {
	not input.call.class in {"read", "config-read", "secret-read", "sensitive-read", "egress", "apply"}
	final
}

mutating if applying
