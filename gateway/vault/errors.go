package vault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openbao/openbao/api/v2"
)

// The classes of Error, for errors.Is. The package's documentation says when each is given.
var (
	// ErrUnavailable means that the keys cannot be asked now, and may be later.
	ErrUnavailable = errors.New("the keys cannot be asked now")
	// ErrRefused means that the holder of the keys answered and will not do it.
	ErrRefused = errors.New("refused")
	// ErrAltered means that the bytes are not what was sealed with that associated data.
	ErrAltered = errors.New("the bytes are not what was sealed")
)

// Kind is the reason class of an Error, one word for entries, logs and answers.
type Kind string

// The reason classes. The first five are outages, the others need a person.
const (
	KindSealed      Kind = "sealed"
	KindUnreachable Kind = "unreachable"
	KindSlow        Kind = "slow"
	KindFailing     Kind = "failing"
	KindGone        Kind = "cancelled"

	KindForbidden    Kind = "forbidden"
	KindMissing      Kind = "missing"
	KindKeyMissing   Kind = "key_missing"
	KindKeyRecreated Kind = "key_recreated"
	KindKeyTooOld    Kind = "key_version_below_minimum"
	KindKeyUnknown   Kind = "key_version_unknown"
	KindMoved        Kind = "moved"
	KindOtherEpoch   Kind = "other_epoch"
	KindForked       Kind = "forked"
	KindOlder        Kind = "older"
	KindLatched      Kind = "rolled_back"
	KindMalformed    Kind = "malformed"
	KindAltered      Kind = "altered"
)

// Error says why OpenBao, or the sealer of development, did not do what was asked. It holds no
// key, no token, no plaintext and no byte of an envelope but the version of the key it names,
// so all of it may be logged and shown.
type Error struct {
	// Doing is what was under way, such as "sealing" or "opening sealed bytes".
	Doing string
	// Class is one of ErrUnavailable, ErrRefused and ErrAltered.
	Class error
	// Kind is the reason class; empty for the development sealer's refusals.
	Kind Kind
	// KeyVersion is the key that is meant, such as "k2" or "bronzeward-seal v3"; empty when none is.
	KeyVersion string
	// Reason is one short sentence for people, with what to do where there is something.
	Reason string
	// Where is for operators: the address or path, and what happened there. It is part of the text
	// and not of ForCaller; empty when there is nothing to add.
	Where string
	// Cause is what lies below; nil when there is nothing to add. It is not part of the text.
	Cause error
}

// Error is the whole of it on one line.
func (e *Error) Error() string {
	text := e.Doing + ": " + e.Class.Error()
	switch {
	case e.Kind != "":
		text = e.Doing + ": " + e.ForCaller()
	case e.KeyVersion != "":
		text += " (key " + e.KeyVersion + "): " + e.Reason
	case e.Reason != "":
		text += ": " + e.Reason
	}
	if e.Where != "" {
		text += ": " + e.Where
	}
	return text
}

// Unwrap gives the class and the cause, past other Errors: an error has one class, whatever
// brought it about.
func (e *Error) Unwrap() []error {
	cause := e.Cause
	for below := (*Error)(nil); errors.As(cause, &below); {
		cause = below.Cause
	}
	if cause == nil {
		return []error{e.Class}
	}
	return []error{e.Class, cause}
}

// Altered is true when the bytes are not what was sealed.
func (e *Error) Altered() bool { return errors.Is(e.Class, ErrAltered) }

// ReasonClass is the reason class as a word.
func (e *Error) ReasonClass() string { return string(e.Kind) }

// ForCaller is the sentence for whoever asked: what is the matter with OpenBao or its key,
// without what was being done.
func (e *Error) ForCaller() string {
	text := e.Reason
	if text == "" {
		text = e.Class.Error()
	}
	if e.KeyVersion != "" {
		text += " (key " + e.KeyVersion + ")"
	}
	return text
}

// unavailable and refused begin errors of their class.
func unavailable(doing string, kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Doing: doing, Class: ErrUnavailable, Kind: kind, Reason: fmt.Sprintf(format, args...), Cause: cause}
}

func refused(doing string, kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Doing: doing, Class: ErrRefused, Kind: kind, Reason: fmt.Sprintf(format, args...), Cause: cause}
}

// classify words what the client's library gave for one question. within is how long it had.
// OpenBao's own words are kept as the cause only: they may quote a path with a cluster's name,
// and never go to a caller.
func classify(ctx context.Context, doing string, within time.Duration, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var (
		answered   *api.ResponseError
		unreadable *unreadableError
		untrusted  *tls.CertificateVerificationError
		unsent     *url.Error
	)
	switch {
	case errors.As(err, &answered):
		return classifyAnswer(doing, answered)
	case errors.As(err, &unreadable):
		return unavailable(doing, KindFailing, err, "%s", unreadable.reason)
	case errors.Is(err, api.ErrSecretNotFound):
		return refused(doing, KindMissing, err, "OpenBao has nothing there")
	case errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled):
		return unavailable(doing, KindGone, err, "whoever asked is gone")
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return unavailable(doing, KindSlow, err, "OpenBao did not answer within %s", within)
	case errors.As(err, &untrusted):
		return unavailable(doing, KindUnreachable, err, "what answers at openbao.address does not have OpenBao's certificate: see openbao.ca")
	case errors.As(err, &unsent):
		return unavailable(doing, KindUnreachable, err, "OpenBao cannot be reached")
	}
	return unavailable(doing, KindFailing, err, "the answer is none of OpenBao's: see openbao.address")
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func classifyAnswer(doing string, answered *api.ResponseError) *Error {
	switch words := strings.ToLower(strings.Join(answered.Errors, "; ")); {
	case answered.StatusCode == http.StatusServiceUnavailable && strings.Contains(words, "sealed"):
		return unavailable(doing, KindSealed, answered, "OpenBao is sealed")
	case answered.StatusCode == http.StatusForbidden:
		return refused(doing, KindForbidden, answered, "OpenBao does not allow this login to do it (403); bronzeward openbao setup --check says what is missing")
	case answered.StatusCode == http.StatusNotFound:
		return refused(doing, KindMissing, answered, "OpenBao has nothing there (404); bronzeward openbao setup --check says what is missing")
	case upgrading(answered):
		return unavailable(doing, KindFailing, answered, "OpenBao is turning its KV engine to version 2")
	case strings.Contains(words, "check-and-set parameter did not match"):
		return refused(doing, KindMoved, answered, "somebody else has written it in between")
	case answered.StatusCode == http.StatusTooManyRequests, answered.StatusCode >= http.StatusInternalServerError:
		return unavailable(doing, KindFailing, answered, "OpenBao answers with status %d", answered.StatusCode)
	}
	return refused(doing, KindMalformed, answered, "OpenBao did not take the question (status %d)", answered.StatusCode)
}
