// Package exitcode says with which code a command ends for its error.
package exitcode

import (
	"errors"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
	"bronzeward/gateway/vault"
)

// Of is the code a command ends with for its error.
func Of(err error) int {
	var usage cli.UsageError
	var denied cli.DeniedError
	var refused *control.RefusedError
	var act *gateway.DeniedAct
	var away cli.UnavailableError
	var problem *ask.ProblemError
	var early cli.NotYetError
	var changed cli.ChangedError
	var broken cli.NotWholeError
	var epoch cli.OtherEpochError
	var keys *vault.Error
	var untold *gateway.NotAnchoredError
	switch {
	case errors.As(err, &epoch):
		return cli.ExitOtherEpoch
	case errors.As(err, &broken):
		return cli.ExitNotWhole
	case errors.As(err, &problem):
		return problem.Exit()
	case errors.As(err, &early):
		return cli.ExitNotYet
	case errors.As(err, &usage), errors.Is(err, control.ErrInvalid):
		return cli.ExitUsage
	case errors.Is(err, cli.ErrChanged), errors.As(err, &changed):
		return cli.ExitChanged
	case errors.As(err, &untold): // whatever is the matter with OpenBao
		return cli.ExitUnavailable
	case errors.Is(err, gateway.ErrLockOut), errors.As(err, &denied), errors.As(err, &refused), errors.As(err, &act),
		errors.As(err, &keys) && keys.Kind == vault.KindForbidden:
		return cli.ExitDenied
	case errors.As(err, &away), upstream.ClassOf(err) == upstream.ClassUnreachable,
		errors.Is(err, control.ErrUnavailable), errors.Is(err, audit.ErrUnavailable), errors.Is(err, vault.ErrUnavailable):
		return cli.ExitUnavailable
	}
	return cli.ExitFailed
}
