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
	case errors.Is(cause, errProofEnded), errors.Is(cause, errUntrusted):
		const code = "BW-CREDENTIAL-004"
		return refusal(codes.Unauthenticated, c.turnedAway(audit.Refused, policy.Deny(code, cause.Error(), "")), code, cause.Error())
	case errors.Is(cause, errRevoked):
		d := policy.Deny("BW-IDENTITY-001", errRevoked.Error(), "")
		return denial(c.turnedAway(audit.Denied, d), d)
	case errors.Is(cause, errRetired):
		const code = "BW-HOLDS-009"
		return refusal(codes.PermissionDenied, c.firstDecided(), code, errRetired.Error(), "bronzeward machines list")
	case errors.Is(cause, errUnconfirmed):
		return refusal(codes.Unavailable, c.firstDecided(), "BW-AUTHORITY-001", errUnconfirmed.Error())
	case errors.Is(cause, errStopping):
		return refusal(codes.Unavailable, c.firstDecided(), "BW-GATEWAY-001", errStopping.Error())
	}
	return err
}

// lastEntryWithin bounds the writing of the entry of a call whose own time is over.
const lastEntryWithin = 5 * time.Second

// firstDecided is the receipt of the first decision about this call; zero when there is none.
func (c *call) firstDecided() audit.Receipt {
	if len(c.decided) == 0 {
		return audit.Receipt{}
	}
	return c.decided[0]
}

// turnedAway writes down why a call was ended, unless something was decided about it before, and gives the receipt of its first
// decision. The call ends whether that can be written or not.
func (c *call) turnedAway(verdict audit.Verdict, d policy.Decision) audit.Receipt {
	if len(c.decided) > 0 {
		return c.firstDecided()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), lastEntryWithin)
	defer cancel()
	var t *target
	if len(c.targets) == 1 {
		t = &c.targets[0]
	}
	e := c.entry(t, d)
	e.Verdict = verdict
	receipt, err := c.g.write(ctx, e)
	if err != nil {
		c.note(slog.Any("book", err))
		return audit.Receipt{}
	}
	c.decided = append(c.decided, receipt)
	return receipt
}
