package vault

import "errors"

// The classes of Error, for errors.Is. The package's documentation says when each is given.
var (
	// ErrUnavailable means that it cannot be sealed or opened now, and may be later.
	ErrUnavailable = errors.New("the keys cannot be asked now")
	// ErrRefused means that the holder of the keys will not open this envelope.
	ErrRefused = errors.New("the keys do not open this")
	// ErrAltered means that the bytes are not what was sealed with that associated data.
	ErrAltered = errors.New("the bytes are not what was sealed")
)

// Error says why bytes could not be sealed or opened. It holds no key, no plaintext and no
// byte of the envelope but the version of the key it names, so all of it may be logged and
// shown.
type Error struct {
	// Doing is "sealing" or "opening sealed bytes".
	Doing string
	// Class is one of ErrUnavailable, ErrRefused and ErrAltered.
	Class error
	// KeyVersion is the key the envelope names, such as "k2"; empty when it names none.
	KeyVersion string
	// Reason is one short sentence for people, with what to do where there is something.
	Reason string
	// Cause is what lies below; nil when there is nothing to add.
	Cause error
}

// Error is the whole of it on one line.
func (e *Error) Error() string {
	text := e.Doing + ": " + e.Class.Error()
	if e.KeyVersion != "" {
		text += " (key " + e.KeyVersion + ")"
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unwrap gives the class and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Cause}
}

// Altered is true when the bytes are not what was sealed.
func (e *Error) Altered() bool { return errors.Is(e.Class, ErrAltered) }
