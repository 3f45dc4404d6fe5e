package control

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Errors a caller acts on. All others are faults of ours or of the database.
var (
	// ErrMoved means that what was judged is no longer so (the machine's serial, the live
	// revision): gather evidence again and come back.
	ErrMoved = errors.New("what was judged has moved")
	// ErrUnavailable means that nothing was decided and nothing may be sent: the database is
	// away, or stayed in conflict for three attempts.
	ErrUnavailable = errors.New("the control database is unavailable")
	// ErrNotOwner means that the attempt is no longer this process's to close: another
	// generation or epoch, or a state it was moved to by somebody else.
	ErrNotOwner = errors.New("the attempt is not this owner's to move")
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that a row with that name, address or id exists already.
	ErrConflict = errors.New("already exists")
	// ErrTooEarly means that the settle floor has not passed.
	ErrTooEarly = errors.New("the settle floor has not passed")
	// ErrNoObservation means that no observation of the machine begins after the settle floor.
	ErrNoObservation = errors.New("no fresh observation of the machine")
	// ErrContradicted means that the evidence says the opposite of what was claimed.
	ErrContradicted = errors.New("the evidence says otherwise")
	// ErrInvalid means that the input is not acceptable; the text says why, all problems joined.
	ErrInvalid = errors.New("invalid input")
	// ErrClosed means that the Store has been closed.
	ErrClosed = errors.New("the store is closed")
	// ErrSchema means that this binary does not serve the schema found.
	ErrSchema = errors.New("the database schema is not one this binary serves")
	// ErrUnsafeDatabase means that the server's settings or its proxy cannot keep what
	// Bronzeward promises.
	ErrUnsafeDatabase = errors.New("the database cannot be relied on as it is set up")
)

// WordedError is a sentence for people about an error that a caller acts on: errors.Is finds
// what it is, and the text is the sentence alone.
type WordedError struct {
	What error
	Text string
	// Hint is what to do next; empty when Text says it.
	Hint string
}

// Worded makes one.
func Worded(is error, format string, args ...any) error {
	return &WordedError{What: is, Text: fmt.Sprintf(format, args...)}
}

// Advised is a sentence with what to do next.
func Advised(is error, hint, format string, args ...any) error {
	return &WordedError{What: is, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Error is the sentence, and what to do.
func (e *WordedError) Error() string {
	if e.Hint == "" {
		return e.Text
	}
	return e.Text + ": " + e.Hint
}

// Unwrap gives what it is.
func (e *WordedError) Unwrap() error { return e.What }

// named says which thing there is none of, where that is the error.
func named(err error, text string) error {
	if errors.Is(err, ErrNotFound) {
		return Worded(ErrNotFound, "%s", text)
	}
	return err
}

// BusyError says which attempt holds the machine or the cluster's last rollout slot.
type BusyError struct {
	// Holder is the attempt that holds.
	Holder uuid.UUID
	// Machine is the held machine's id, which differs from the one asked for when the
	// cluster's rollout limit is what refuses.
	Machine uuid.UUID
	State   State
	Person  policy.Person
	Since   time.Time
	// Scope is "machine" or "cluster".
	Scope string
}

// Error names the holder.
func (e *BusyError) Error() string {
	return fmt.Sprintf("the %s is held by attempt %s (%s) of %s since %s",
		e.Scope, e.Holder, e.State, e.Person.Subject, e.Since.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrBusy) hold.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// ErrBusy matches every *BusyError.
var ErrBusy = errors.New("held by another attempt")

// InFlightError says that the very same request is being carried out already.
type InFlightError struct {
	// AttemptID and EntryID are the first request's.
	AttemptID uuid.UUID
	EntryID   uuid.UUID
}

// Error names the first attempt.
func (e *InFlightError) Error() string {
	return fmt.Sprintf("the same request is in flight as attempt %s", e.AttemptID)
}

// Is makes errors.Is(err, ErrInFlight) hold.
func (e *InFlightError) Is(target error) bool { return target == ErrInFlight }

// ErrInFlight matches every *InFlightError.
var ErrInFlight = errors.New("the same request is in flight")

// CommitUnknownError says that COMMIT gave no answer. Whatever Recorded says, nothing is
// sent: an attempt that was recorded stays open until its lease ends and it is settled.
type CommitUnknownError struct {
	EntryID   uuid.UUID
	AttemptID uuid.UUID // zero when none was wanted
	// Recorded is what a new connection found: nil when it could not be found out.
	Recorded *bool
	Cause    error
}

// Error says what is known.
func (e *CommitUnknownError) Error() string {
	known := "could not be found out"
	if e.Recorded != nil {
		known = map[bool]string{true: "was recorded", false: "was not recorded"}[*e.Recorded]
	}
	return fmt.Sprintf("committing entry %s: no answer; it %s: %v", e.EntryID, known, e.Cause)
}

// Unwrap gives the cause and ErrUnavailable, so that it is refused as an outage.
func (e *CommitUnknownError) Unwrap() []error { return []error{ErrUnavailable, e.Cause} }

// GuardError says that an invariant no policy can waive refused, although the judge allowed.
// Nothing was recorded; the caller records the refusal.
type GuardError struct {
	// Guard names the constraint, such as "attempts_expected_identity".
	Guard   string
	Message string
}

// Error says which guard refused, and why.
func (e *GuardError) Error() string { return fmt.Sprintf("refused by %s: %s", e.Guard, e.Message) }

// RefusedError says that the act's own entry did not allow it. The entry is recorded and
// nothing else was done.
type RefusedError struct {
	Receipt audit.Receipt
}

// Error names the entry.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the act was refused and recorded as %s", e.Receipt.ID)
}

// ChangeError says why a change or approval is not what the act needs. Nothing was recorded.
type ChangeError struct {
	// Code is stable: BW-CHANGE-001 to -007, BW-DRIFT-001 to -004.
	Code    string
	Message string
	// Hint is what helps; empty when nothing does.
	Hint string
}

// Error is the message.
func (e *ChangeError) Error() string { return e.Message }

func noChange(id ChangeID) error {
	return &ChangeError{Code: "BW-CHANGE-001", Message: "there is no change " + id.String(), Hint: "bronzeward changes list"}
}

// NotLive says what a change has become instead.
func NotLive(c *Change) error {
	e := &ChangeError{Code: "BW-CHANGE-002", Message: fmt.Sprintf("change %s is %s", c.ID, c.State), Hint: "bronzeward changes show " + c.ID.String()}
	switch c.State {
	case ChangeSuperseded:
		e.Message += ": " + c.Reason
		if c.OvertakenBy != "" {
			e.Message += "; it has " + c.OvertakenBy
		}
		if c.Kind != KindApply {
			e.Hint = "bronzeward drift show " + c.Drift.String()
		}
	case ChangeSpent:
		if c.AttemptID == uuid.Nil {
			e.Message += ": it adopted drift " + c.Drift.String()
			e.Hint = "bronzeward drift show " + c.Drift.String()
			break
		}
		e.Message += fmt.Sprintf(": attempt %s spent it", c.AttemptID)
		e.Hint = "bronzeward attempts show " + c.AttemptID.String()
	default:
		if c.Reason != "" {
			e.Message += ": " + c.Reason
		}
	}
	return e
}
