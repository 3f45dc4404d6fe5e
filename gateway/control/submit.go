package control

import "bronzeward/audit"

// Submission is a change proposed without talosctl.
type Submission struct {
	// Machine is its name.
	Machine string
	// Text is the exact configuration.
	Text []byte
	// Mode is "no-reboot".
	Mode string
	// Set groups changes of several machines; empty without.
	Set string
}

// Applied is what became of a change that was applied by id.
type Applied struct {
	Attempt Attempt
	// Receipt is of the entry that allowed it.
	Receipt audit.Receipt
	// Message is the node's answer, redacted; Warnings are the node's and the law's.
	Message  string
	Warnings []string
}
