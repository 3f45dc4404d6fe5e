# METADATA
# title: mode
# description: |
#   An apply runs in no-reboot mode and in no other. Talos reads an absent mode as
#   "reboot", a staged configuration is set off by whoever reboots next, and any request
#   cancels the rollback of a trial.
package bronzeward.rules.mode

import data.bronzeward.lib.change
import data.bronzeward.lib.finding
import data.bronzeward.lib.quorum

# METADATA
# title: the mode is absent
# description: Talos reads an absent mode as reboot.
# custom:
#   code: BW-MODE-001
#   hint: talosctl -n {machine} apply-config --mode=no-reboot -f FILE
deny contains finding.because(rego.metadata.rule(), "mode reboot (an apply without a mode is the same to Talos) restarts the machine; only no-reboot is forwarded") if {
	input.call.class == "apply"
	not input.call.mode_given == true
}

# METADATA
# title: reboot
# description: It would restart the machine without draining it.
# custom:
#   code: BW-MODE-002
#   hint: talosctl -n {machine} apply-config --mode=no-reboot -f FILE
deny contains finding.because(rego.metadata.rule(), "mode reboot restarts the machine; only no-reboot is forwarded") if {
	input.call.class == "apply"
	input.call.mode == "reboot"
	input.call.mode_given == true
}

# METADATA
# title: auto
# description: Talos 1.13 turns it into reboot when it sees fit. A dry run is harmless.
# custom:
#   code: BW-MODE-003
#   hint: talosctl -n {machine} apply-config --mode=no-reboot -f FILE
deny contains finding.because(rego.metadata.rule(), "mode auto may become a reboot; it is forwarded as a dry run only") if {
	input.call.class == "apply"
	input.call.mode == "auto"
	not change.dry_run
}

# METADATA
# title: staged
# description: It lies on the disk until anyone reboots.
# custom:
#   code: BW-MODE-004
#   hint: talosctl -n {machine} apply-config --mode=no-reboot -f FILE
deny contains finding.because(rego.metadata.rule(), "mode staged leaves a configuration that the next reboot sets off; only no-reboot is forwarded") if {
	input.call.class == "apply"
	input.call.mode == "staged"
}

# METADATA
# title: try
# description: Any later request, a dry run even, cancels its rollback.
# custom:
#   code: BW-MODE-005
#   hint: talosctl -n {machine} apply-config --mode=no-reboot --dry-run -f FILE
deny contains finding.because(rego.metadata.rule(), "mode try is not safe, any later request cancels its rollback; only no-reboot is forwarded") if {
	input.call.class == "apply"
	input.call.mode == "try"
}

# METADATA
# title: dry run over something staged
# description: While the active and the persistent configuration differ, a dry run may cancel a trial's rollback.
# custom:
#   code: BW-MODE-006
#   hint: bronzeward machines show {machine}
deny contains finding.because(rego.metadata.rule(), "something is staged or on trial on this machine, and a dry run would cancel its rollback") if {
	input.call.class == "apply"
	input.call.dry_run == true
	change.final
	not input.evidence.staged == false
}

# METADATA
# title: the mode is unknown
# description: A mode of a later Talos.
# custom:
#   code: BW-MODE-007
#   hint: talosctl -n {machine} apply-config --mode=no-reboot -f FILE
deny contains finding.because(rego.metadata.rule(), "this mode is unknown; only no-reboot is forwarded") if {
	input.call.class == "apply"
	input.call.mode_given == true
	not input.call.mode in {"no-reboot", "reboot", "auto", "staged", "try"}
}

# METADATA
# title: apply over something staged
# description: |
#   What is staged or on trial would be discarded without a word. A change that somebody
#   approves shows what it discards; where nobody needs to approve, nobody has seen it.
# custom:
#   code: BW-MODE-008
#   hint: bronzeward machines show {machine}
deny contains finding.because(rego.metadata.rule(), "something is staged or on trial on this machine, and this apply would discard it; only a change that somebody approves may do that, and the policy asks for no approval") if {
	input.call.class == "apply"
	change.applying
	not input.evidence.staged == false
	not adopts
	not approving
}

# METADATA
# title: what is staged is discarded
# description: Said to whoever approves the change, and again to whoever applies it.
# custom:
#   code: BW-MODE-009
#   hint: bronzeward changes show {change}
deny contains found if {
	input.call.class == "apply"
	input.evidence.staged == true
	change.applying
	not adopts
	approving
	found := finding.because(rego.metadata.rule(), sprintf("what is staged or on trial on %s is discarded by this", [finding.machine]))
}

# Something is known to be staged, and the change goes nowhere before somebody approves it.
approving if {
	input.evidence.staged == true
	quorum.required > 0
}

# An adoption sends nothing, and so discards nothing.
adopts if input.change.kind == "adopt"
