package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// denial is a policy's refusal of an act; its entry is written.
type denial interface {
	error
	Denial() (d policy.Decision, entry audit.Receipt)
}

// refusal is an act's own refusal that is no policy's verdict. Its entry is written when the
// id is set.
type refusal interface {
	error
	Refusal() (c codes.Code, entry audit.Receipt, code, message string, hints []string)
}

// problemOf says how an error is answered. What it does not know is a fault of ours: its
// text goes to the log and never to the client.
func problemOf(err error) *problem {
	var (
		done     *problem
		denied   denial
		refused  refusal
		change   *control.ChangeError
		unknown  *control.CommitUnknownError
		busy     *control.BusyError
		flying   *control.InFlightError
		guard    *control.GuardError
		own      *control.RefusedError
		recovery *control.RecoveryError
	)
	switch {
	case errors.As(err, &done):
		return done
	case errors.As(err, &denied):
		return deniedProblem(denied)
	case errors.As(err, &refused):
		return refusedProblem(refused, err)
	case errors.As(err, &change):
		return &problem{status: changeStatus(change.Code), code: change.Code, detail: change.Message, hint: change.Hint, cause: err}
	case errors.As(err, &recovery):
		return conflict(recovery.Code, recovery.Message, recovery.Hint)
	case errors.As(err, &unknown):
		return &problem{
			status: http.StatusServiceUnavailable, code: "BW-BOOK-001", entry: audit.Receipt{ID: unknown.EntryID}, cause: err,
			detail: "the decision may not have been written down", hint: "look before trying again",
		}
	case errors.Is(err, control.ErrUnavailable), errors.Is(err, control.ErrClosed):
		return &problem{
			status: http.StatusServiceUnavailable, code: "BW-BOOK-001", cause: err, header: retryAfter(1),
			detail: "the control database is unavailable, so nothing was decided", hint: "try again",
		}
	case errors.Is(err, control.ErrKeyReused):
		return &problem{
			status: http.StatusUnprocessableEntity, code: "BW-HTTP-422", detail: "this Idempotency-Key came before with another request",
			hint: "use a new key for a new request",
		}
	case errors.As(err, &busy):
		return conflict("BW-HOLDS-001", busy.Error(), "bronzeward attempts show "+busy.Holder.String())
	case errors.As(err, &flying):
		return conflict("BW-ATTEMPT-001", flying.Error(), "bronzeward attempts show "+flying.AttemptID.String())
	case errors.As(err, &guard):
		p := conflict("BW-INVARIANT-016", fmt.Sprintf("a rule that no policy can waive refuses this (%s)", guard.Guard), "")
		p.cause = err
		return p
	case errors.As(err, &own):
		return &problem{status: http.StatusForbidden, code: "BW-POLICY-001", detail: "no rule allows this", entry: own.Receipt}
	}
	return plainProblem(err)
}

// plainProblem is for errors that are told apart by what they are and carry no more. Their
// texts are the store's own sentences.
func plainProblem(err error) *problem {
	detail, hint := advised(err)
	switch {
	case errors.Is(err, control.ErrInvalid):
		return &problem{status: http.StatusBadRequest, code: "BW-HTTP-400", detail: detail, hint: hint}
	case errors.Is(err, control.ErrNotFound):
		return &problem{status: http.StatusNotFound, code: "BW-HTTP-404", detail: detail, hint: hint}
	case errors.Is(err, control.ErrRetired):
		return conflict("BW-HOLDS-009", err.Error(), "bronzeward machines list --all")
	case errors.Is(err, control.ErrTooEarly):
		p := conflict("BW-HTTP-409", err.Error(), "")
		p.header = retryAfter(tooEarlyWait)
		return p
	case errors.Is(err, control.ErrConflict), errors.Is(err, control.ErrNoObservation),
		errors.Is(err, control.ErrFrozen), errors.Is(err, control.ErrNotFrozen),
		errors.Is(err, control.ErrContradicted), errors.Is(err, control.ErrNotOwner), errors.Is(err, control.ErrMoved):
		return conflict("BW-HTTP-409", detail, hint)
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{status: http.StatusGatewayTimeout, code: "BW-HTTP-504", detail: "this took too long", cause: err}
	case errors.Is(err, context.Canceled):
		return &problem{
			status: http.StatusServiceUnavailable, code: "BW-HTTP-503", detail: "the request ended before it was answered", cause: err,
		}
	}
	return &problem{
		status: http.StatusInternalServerError, code: "BW-HTTP-500", detail: "the gateway failed inside this request; its log says where", cause: err,
	}
}

// advised parts an error's sentence from what to do next.
func advised(err error) (detail, hint string) {
	var worded *control.WordedError
	if errors.As(err, &worded) && worded.Hint != "" {
		return strings.TrimSuffix(err.Error(), ": "+worded.Hint), worded.Hint
	}
	return err.Error(), ""
}

// tooEarlyWait is after how many seconds a judgement that came before the settle floor is worth
// another try: that of the shortest floor.
const tooEarlyWait = int(control.MinSettleFloor / time.Second)

// deniedProblem gives the first reason, and the others beside it.
func deniedProblem(denied denial) *problem {
	d, entry := denied.Denial()
	reasons := d.Told()
	if len(reasons) == 0 {
		reasons = policy.Deny("BW-POLICY-001", "no rule allows this", "").Reasons
	}
	p := &problem{status: http.StatusForbidden, code: reasons[0].Code, detail: reasons[0].Message, hint: reasons[0].Hint, entry: entry}
	for _, r := range reasons[1:] {
		p.also = append(p.also, api.Finding{Code: r.Code, Message: r.Message})
	}
	return p
}

func refusedProblem(refused refusal, err error) *problem {
	c, entry, code, message, hints := refused.Refusal()
	p := &problem{status: statusOf(c), code: code, detail: message, entry: entry, cause: err}
	for _, h := range hints {
		if h != "" {
			p.hint = h
			break
		}
	}
	return p
}

// statusOf is the HTTP status of a gRPC code, as the gRPC door's refusals carry it.
func statusOf(c codes.Code) int {
	switch c {
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Aborted, codes.FailedPrecondition, codes.AlreadyExists:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// changeStatus is the status of what is wrong with a change or approval.
func changeStatus(code string) int {
	switch code {
	case "BW-CHANGE-001", "BW-DRIFT-001":
		return http.StatusNotFound
	case "BW-CHANGE-004":
		return http.StatusTooManyRequests
	case "BW-CHANGE-005":
		return http.StatusServiceUnavailable
	case "BW-CHANGE-006":
		return http.StatusInternalServerError
	default: // 002, 003, 007: it is not as the act needs it
		return http.StatusConflict
	}
}

func conflict(code, detail, hint string) *problem {
	return &problem{status: http.StatusConflict, code: code, detail: detail, hint: hint}
}
