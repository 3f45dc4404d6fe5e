package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/policy"
)

// endedBy words the end of a call that we ended ourselves. One that was turned away before
// anything was decided about it leaves an entry all the same.
func (c *call) endedBy(cause, err error) error {
	switch {
	case len(c.decided) > 0:
	case errors.Is(cause, errRevoked):
		c.turnedAway(audit.Denied, "BW-IDENTITY-001", errRevoked)
	case errors.Is(cause, errProofEnded), errors.Is(cause, errUntrusted):
		c.turnedAway(audit.Refused, "BW-CREDENTIAL-004", cause)
	}
	var entry audit.Receipt
	if len(c.decided) > 0 {
		entry = c.decided[0]
	}
	switch {
	case errors.Is(cause, errProofEnded):
		return refusal(codes.Unauthenticated, entry, "BW-CREDENTIAL-004", errProofEnded.Error())
	case errors.Is(cause, errUntrusted):
		return refusal(codes.Unauthenticated, entry, "BW-CREDENTIAL-004", errUntrusted.Error())
	case errors.Is(cause, errRevoked):
		return denial(entry, policy.Deny("BW-IDENTITY-001", errRevoked.Error(), ""))
	case errors.Is(cause, errUnconfirmed):
		return refusal(codes.Unavailable, entry, "BW-AUTHORITY-001", errUnconfirmed.Error())
	case errors.Is(cause, errStopping):
		return refusal(codes.Unavailable, entry, "BW-GATEWAY-001", errStopping.Error())
	}
	return err
}

// lastEntryWithin bounds the writing of the entry of a call whose own time is over.
const lastEntryWithin = 5 * time.Second

// turnedAway writes down why a call was ended. The call ends whether that can be written or not.
func (c *call) turnedAway(verdict audit.Verdict, code string, why error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), lastEntryWithin)
	defer cancel()
	var t *target
	if len(c.targets) == 1 {
		t = &c.targets[0]
	}
	e := c.entry(t, policy.Deny(code, why.Error(), ""))
	e.Verdict = verdict
	receipt, err := c.g.write(ctx, e)
	if err != nil {
		c.note(slog.Any("book", err))
		return
	}
	c.decided = append(c.decided, receipt)
}
