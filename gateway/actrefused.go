package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// recordWithin bounds writing down what became of an act whose client may have gone away.
const recordWithin = 10 * time.Second

// reasonClass is what an error has that tells which of the ways a part can be away it is: sealed, unreachable, slow, forbidden
// and so on. Its text holds no secret.
type reasonClass interface {
	error
	ReasonClass() string
}

// classOf is the reason class of an error; empty when it has none.
func classOf(err error) string {
	var known reasonClass
	if !errors.As(err, &known) {
		return ""
	}
	return cut(oneLine(known.ReasonClass()), mostClass)
}

// mostClass is the longest reason class shown, in bytes.
const mostClass = 64

// refusedAct writes down that an act failed for what is no policy's verdict, and answers with it; cause is for the log. When it
// cannot be written down either, that is the answer.
func (a *Acts) refusedAct(ctx context.Context, by Actor, name, subject string, status codes.Code, code, message string, cause error, hints ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	receipt, err := a.recorded(ctx, by, name, subject, policy.Deny(code, message, ""), audit.Refused)
	if err != nil {
		return fmt.Errorf("%w: %w", control.ErrUnavailable, errors.Join(err, cause))
	}
	return fmt.Errorf("%w: %w", refusal(status, receipt, code, message, hints...), cause)
}
