package identity

import "errors"

// Class says why a credential was refused. The strings are stable: they go into entries, metrics and
// the answer to the caller.
type Class string

// The classes of refusal.
const (
	// ClassNoCredential: neither a certificate nor a token was shown.
	ClassNoCredential Class = "no-credential"
	// ClassSeveralCredentials: more than one authorization value was shown.
	ClassSeveralCredentials Class = "several-credentials"
	// ClassMalformed: a token that is not what a token must be: size, form, JSON, a claim's type or text.
	ClassMalformed Class = "malformed"
	// ClassAlgorithm: the token's algorithm is not asymmetric, not allowed, or does not fit the key.
	ClassAlgorithm Class = "algorithm"
	// ClassUnknownIssuer: the token's issuer is not configured.
	ClassUnknownIssuer Class = "unknown-issuer"
	// ClassUnknownKey: the issuer answered, and does not publish the key the token names.
	ClassUnknownKey Class = "unknown-key"
	// ClassBadSignature: the signature does not verify.
	ClassBadSignature Class = "bad-signature"
	// ClassExpired: the token or certificate has ended.
	ClassExpired Class = "expired"
	// ClassNotYetValid: the token or certificate has not begun.
	ClassNotYetValid Class = "not-yet-valid"
	// ClassLifetime: the token lives longer than allowed.
	ClassLifetime Class = "lifetime"
	// ClassWrongAudience: the token is meant for somebody else.
	ClassWrongAudience Class = "wrong-audience"
	// ClassUnknownCertificate: the certificate does not chain to the gateway's own authority.
	ClassUnknownCertificate Class = "unknown-certificate"
	// ClassForbiddenCA: the certificate is one of Talos's own.
	ClassForbiddenCA Class = "forbidden-ca"
	// ClassMalformedCertificate: ours, but not made for a person: usage, key or identity names.
	ClassMalformedCertificate Class = "malformed-certificate"
	// ClassConflictingIdentities: certificate and token do not name the same person and kind.
	ClassConflictingIdentities Class = "conflicting-identities"
	// ClassDenyListed: proven, and on the configured deny list.
	ClassDenyListed Class = "deny-listed"
	// ClassKeysUnavailable: the issuer's keys cannot be had; our fault, not the caller's.
	ClassKeysUnavailable Class = "keys-unavailable"
)

// Unavailable reports whether the refusal is the house's fault and says nothing about the credential: the
// answer is Unavailable, never Unauthenticated.
func (c Class) Unavailable() bool { return c == ClassKeysUnavailable }

// Denied reports whether the person is known and not wanted: the answer is PermissionDenied.
func (c Class) Denied() bool { return c == ClassDenyListed }

// LogIn is the command that gets a person another credential; empty when that would not help.
func (c Class) LogIn() string {
	switch c {
	case ClassNoCredential, ClassExpired, ClassUnknownCertificate, ClassForbiddenCA:
		return "bronzeward login"
	}
	return ""
}

// Refusal is the only error type Identify returns.
//
// It has two readers. Class and Message are for the caller: Message is one short lower-case sentence
// that holds no byte of any credential. The cause, reached by errors.Unwrap, is for the operator's log;
// it holds no token bytes either, save the issuer's URL of a token from an unknown issuer.
type Refusal struct {
	Class   Class
	Message string
	cause   error
}

// Error is the class and the message, without the cause.
func (r *Refusal) Error() string { return string(r.Class) + ": " + r.Message }

// Unwrap returns the cause for the log; it may be nil.
func (r *Refusal) Unwrap() error { return r.cause }

func refuse(class Class, message string, cause error) *Refusal {
	return &Refusal{Class: class, Message: message, cause: cause}
}

// malformed is the refusal of a token whose form is wrong.
func malformed(message string) *Refusal {
	return refuse(ClassMalformed, message, nil)
}

// errClosed is the cause of a refusal that needed keys after Close.
var errClosed = errors.New("authenticator is closed")
