package cli

import "errors"

// Exit codes: what a script may rely on.
const (
	ExitOK = 0
	// ExitFailed: the command was understood and could not be done.
	ExitFailed = 1
	// ExitUsage: flags, arguments or the configuration are wrong.
	ExitUsage = 2
	// ExitChanged: the question was answered and the answer is "not the same" or "problems found".
	ExitChanged = 3
	// ExitDenied: policy or identity refused.
	ExitDenied = 4
	// ExitUnavailable: the database or another part is away; try again.
	ExitUnavailable = 5
	// ExitNotYet: something else comes first, an approval, another act on the machine or fewer
	// requests at a time; try again later.
	ExitNotYet = 6
	// ExitNotWhole: the book, a checkpoint or a proof does not hold: it was tampered with, or is
	// not what the public key signed.
	ExitNotWhole = 7
	// ExitOtherEpoch: recovery was entered at another gateway; serve is to be started again.
	ExitOtherEpoch = 8
)

// UsageError is the caller's to mend.
type UsageError struct{ err error }

func (e UsageError) Error() string { return e.err.Error() }

func (e UsageError) Unwrap() error { return e.err }

// Usage says that err is the caller's to mend: a flag, an argument or the configuration.
func Usage(err error) error { return UsageError{err} }

// DeniedError carries a refusal of policy or identity.
type DeniedError struct{ err error }

func (e DeniedError) Error() string { return e.err.Error() }

func (e DeniedError) Unwrap() error { return e.err }

// Denied says that err is a refusal of policy or identity.
func Denied(err error) error { return DeniedError{err} }

// UnavailableError says that a part the command needs is away.
type UnavailableError struct{ err error }

func (e UnavailableError) Error() string { return e.err.Error() }

func (e UnavailableError) Unwrap() error { return e.err }

// Unavailable says that a part which the command needs is away, as err tells.
func Unavailable(err error) error { return UnavailableError{err} }

// IsUnavailable is true for an error that says so.
func IsUnavailable(err error) bool {
	var e UnavailableError
	return errors.As(err, &e)
}

// NotYetError says what has to happen first.
type NotYetError struct{ err error }

func (e NotYetError) Error() string { return e.err.Error() }

func (e NotYetError) Unwrap() error { return e.err }

// NotYet says that something else comes first, as err tells.
func NotYet(err error) error { return NotYetError{err} }

// NotWholeError says that the book, a checkpoint or a proof does not hold.
type NotWholeError struct{ err error }

func (e NotWholeError) Error() string { return e.err.Error() }

func (e NotWholeError) Unwrap() error { return e.err }

// NotWhole says that the book, a checkpoint or a proof does not hold, as err tells.
func NotWhole(err error) error { return NotWholeError{err} }

// OtherEpochError says that the epoch which a process served has ended.
type OtherEpochError struct{ err error }

func (e OtherEpochError) Error() string { return e.err.Error() }

func (e OtherEpochError) Unwrap() error { return e.err }

// OtherEpoch says that the epoch which a process served has ended, as err tells.
func OtherEpoch(err error) error { return OtherEpochError{err} }

// ErrChanged ends with ExitChanged; its words were printed already.
var ErrChanged = errors.New("problems found")

// ChangedError says that what somebody looked at is not what there is now.
type ChangedError struct{ err error }

func (e ChangedError) Error() string { return e.err.Error() }

func (e ChangedError) Unwrap() error { return e.err }

// Changed says that what somebody looked at is not what there is now.
func Changed(err error) error { return ChangedError{err} }
