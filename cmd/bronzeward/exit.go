package main

import (
	"errors"

	"bronzeward/audit"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
	"bronzeward/gateway/vault"
)

// Exit codes: what a script may rely on.
const (
	exitOK = 0
	// exitFailed: the command was understood and could not be done.
	exitFailed = 1
	// exitUsage: flags, arguments or the configuration are wrong.
	exitUsage = 2
	// exitChanged: the question was answered and the answer is "not the same" or "problems found".
	exitChanged = 3
	// exitDenied: policy or identity refused.
	exitDenied = 4
	// exitUnavailable: the database or another part is away; try again.
	exitUnavailable = 5
	// exitNotYet: something else comes first, an approval, another act on the machine or fewer
	// requests at a time; try again later.
	exitNotYet = 6
)

// usageError is the caller's to mend.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// deniedError carries a refusal of policy or identity.
type deniedError struct{ error }

func (e deniedError) Unwrap() error { return e.error }

// unavailableError says that a part the command needs is away.
type unavailableError struct{ error }

func (e unavailableError) Unwrap() error { return e.error }

// notYetError says what has to happen first.
type notYetError struct{ error }

func (e notYetError) Unwrap() error { return e.error }

// errChanged ends with exitChanged; its words were printed already.
var errChanged = errors.New("problems found")

// changedError says that what somebody looked at is not what there is now.
type changedError struct{ error }

func (e changedError) Unwrap() error { return e.error }

// exitCode is the code a command ends with for its error.
func exitCode(err error) int {
	var usage usageError
	var denied deniedError
	var refused *control.RefusedError
	var act *gateway.DeniedAct
	var away unavailableError
	var problem *problemError
	var early notYetError
	var changed changedError
	var keys *vault.Error
	switch {
	case errors.As(err, &problem):
		return problem.exit()
	case errors.As(err, &early):
		return exitNotYet
	case errors.As(err, &usage), errors.Is(err, control.ErrInvalid):
		return exitUsage
	case errors.Is(err, errChanged), errors.As(err, &changed):
		return exitChanged
	case errors.Is(err, gateway.ErrLockOut), errors.As(err, &denied), errors.As(err, &refused), errors.As(err, &act),
		errors.As(err, &keys) && keys.Kind == vault.KindForbidden:
		return exitDenied
	case errors.As(err, &away), upstream.ClassOf(err) == upstream.ClassUnreachable,
		errors.Is(err, control.ErrUnavailable), errors.Is(err, audit.ErrUnavailable), errors.Is(err, vault.ErrUnavailable):
		return exitUnavailable
	}
	return exitFailed
}
