package gateway

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Every status the gateway makes itself is made in this file. Its first line is what
// talosctl prints behind "rpc error: code = … desc = " and what `talosctl edit` shows
// as a comment; hints follow on at most three short lines.

// maxHints bounds what follows the first line.
const maxHints = 3

// denial is a policy's refusal: PermissionDenied, with the first reason, how many more
// there are, and what would make it pass.
func denial(entry audit.Receipt, d policy.Decision) error {
	return &deniedError{entry: entry, decision: d}
}

// deniedError is a denial with all that was said, for the door that shows more than a line.
type deniedError struct {
	entry    audit.Receipt
	decision policy.Decision
}

// Error is what a denied person reads.
func (e *deniedError) Error() string { return denialText(e.entry.ID, e.decision) }

// GRPCStatus makes it the status talosctl gets.
func (e *deniedError) GRPCStatus() *status.Status {
	return status.New(codes.PermissionDenied, e.Error())
}

// Denial gives the decision and the receipt of its entry.
func (e *deniedError) Denial() (policy.Decision, audit.Receipt) { return e.decision, e.entry }

// refusedError is a refusal that is no policy's verdict.
type refusedError struct {
	status  codes.Code
	entry   audit.Receipt
	code    string
	message string
	hints   []string
	class   string // of its entry, where it has one; not shown
}

// Error is what the refused caller reads.
func (e *refusedError) Error() string {
	first := fmt.Sprintf("REFUSED %s: %s", e.code, oneLine(e.message))
	if e.entry.ID != uuid.Nil {
		first += fmt.Sprintf(" (decision %s)", e.entry.ID)
	}
	lines := []string{first}
	for _, h := range e.hints {
		if h != "" && len(lines) <= maxHints {
			lines = append(lines, oneLine(h))
		}
	}
	return strings.Join(lines, "\n")
}

// GRPCStatus makes it the status talosctl gets.
func (e *refusedError) GRPCStatus() *status.Status { return status.New(e.status, e.Error()) }

// Refusal gives its parts; the receipt is zero when it has no entry.
func (e *refusedError) Refusal() (c codes.Code, entry audit.Receipt, code, message string, hints []string) {
	return e.status, e.entry, e.code, e.message, e.hints
}

// denialText is what a denied person reads, of a call or of an act.
func denialText(id uuid.UUID, d policy.Decision) string {
	reasons := d.Told()
	if len(reasons) == 0 {
		reasons = policy.Deny("BW-POLICY-001", "no rule allows this call", "").Reasons
	}
	first := reasons[0]
	lines := []string{fmt.Sprintf("DENIED %s: %s", first.Code, oneLine(first.Message))}
	if id != uuid.Nil { // a call that is ended before it was judged has none
		lines[0] += fmt.Sprintf(" (decision %s)", id)
	}
	for _, r := range reasons[1:] {
		if len(lines) > maxHints-1 {
			break
		}
		lines = append(lines, fmt.Sprintf("also %s: %s", r.Code, oneLine(r.Message)))
	}
	if left := len(reasons) - len(lines); left > 0 {
		lines[len(lines)-1] += fmt.Sprintf(" (and %d more: bronzeward decisions show %s)", left, id)
	}
	if first.Hint != "" && len(lines) <= maxHints {
		lines = append(lines, "try: "+oneLine(first.Hint))
	}
	return strings.Join(lines, "\n")
}

// refusal is everything that is no policy's verdict: a bad credential, a malformed
// request, an outage. code tells them apart; policy's PermissionDenied is never used.
func refusal(code codes.Code, entry audit.Receipt, reasonCode, message string, hints ...string) error {
	return &refusedError{status: code, entry: entry, code: reasonCode, message: message, hints: hints}
}

// sentNothing is the hint of an outage of ours.
const sentNothing = "nothing was sent to the machine; try again"

// unavailable says that we, not the caller, are the reason: nothing was forwarded.
func unavailable(entry audit.Receipt, reasonCode, message string) error {
	return refusal(codes.Unavailable, entry, reasonCode, message, sentNothing)
}

// cut shortens a text to at most so many bytes, never inside a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// oneLine keeps a sentence on one line and free of control characters, whatever a
// policy or a node put into it.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' ' // controls, and what turns the reading direction or cannot be seen
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))), " ")
}
