package upstream

import (
	"errors"
	"fmt"
)

// What may be wrong with a credential. Errors of a CredentialSource may say other words.
const (
	ReasonNone          = "none"           // none is held for the cluster
	ReasonExpired       = "expired"        // its certificate has ended
	ReasonNotYetValid   = "not-yet-valid"  // its certificate is for later
	ReasonRoles         = "roles"          // its certificate has other roles than os:impersonator
	ReasonUsage         = "usage"          // its certificate is not for clients alone
	ReasonForeignKey    = "foreign-key"    // a key is there that must not be: a CA's
	ReasonKeyMismatch   = "key-mismatch"   // key and certificate do not belong together
	ReasonNoCertificate = "no-certificate" // there is no certificate
	ReasonNoCA          = "no-ca"          // the nodes' CA is missing, or is none
	ReasonMalformed     = "malformed"      // it cannot be parsed
)

// CredentialError says why there is no Talos credential to connect with. Its text is for the
// log; callers are told ForCaller.
type CredentialError struct {
	// Reason is one of the constants above, or a word of the source's.
	Reason string
	// Cluster is "" where it is not known, or where one credential is for any.
	Cluster string
	// Version is the KV version that is no good; zero for files and when it is not known.
	Version int64
	// Say is what callers are told; when it is empty, it is made of the rest.
	Say string
	Err error
}

// Error says cluster, reason and cause.
func (e *CredentialError) Error() string {
	s := "Talos credential" + ofCluster(e.Cluster)
	if e.Version != 0 {
		s += fmt.Sprintf(" version %d", e.Version)
	}

	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}

	if e.Err != nil {
		s += ": " + e.Err.Error()
	}

	return s
}

// Unwrap gives the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// ReasonClass is the one word for what is wrong.
func (e *CredentialError) ReasonClass() string { return e.Reason }

// ForCaller is a sentence without causes: which credential, what is wrong, what to do.
func (e *CredentialError) ForCaller() string {
	what := map[string]string{
		ReasonExpired:       "its certificate has ended",
		ReasonNotYetValid:   "its certificate is not valid yet",
		ReasonRoles:         "its certificate has other roles than " + RoleImpersonator,
		ReasonUsage:         "its certificate is not for clients alone",
		ReasonForeignKey:    "a key is with it that must not be there",
		ReasonKeyMismatch:   "its key is not the certificate's",
		ReasonNoCertificate: "its certificate is missing",
		ReasonNoCA:          "the nodes' CA is missing from it",
		ReasonMalformed:     "it cannot be read",
	}[e.Reason]

	switch {
	case e.Say != "":
		return e.Say
	case e.Reason == ReasonNone:
		return "there is no Talos credential" + ofCluster(e.Cluster) + "; " + e.remedy()
	case what != "":
		return "the Talos credential" + ofCluster(e.Cluster) + " cannot be used: " + what + "; " + e.remedy()
	case e.Reason != "":
		return "the Talos credential" + ofCluster(e.Cluster) + " cannot be had now (" + e.Reason + "); the gateway's log says why"
	default:
		return "the Talos credential" + ofCluster(e.Cluster) + " cannot be had now; the gateway's log says why"
	}
}

// remedy is what to do about a credential that is missing or no good.
func (e *CredentialError) remedy() string {
	if e.Version == 0 && e.Reason != ReasonNone { // files
		return "put a good one into the files of talos.certificate, talos.key and talos.ca"
	}

	return "put a good one in: bronzeward openbao put-credential --cluster " + e.Cluster
}

func ofCluster(cluster string) string {
	if cluster == "" {
		return ""
	}

	return " of cluster " + cluster
}

// noCredential gives an error about a credential its class, cluster and version, and keeps the
// source's own words for callers. What somebody's error said already stays.
func noCredential(cluster string, version int64, cause error) *Error {
	var e CredentialError

	if ours, ok := cause.(*CredentialError); ok { //nolint:errorlint // one that is wrapped is the source's matter
		e = *ours // of a check, or of a source that need not know the cluster or the version
	} else {
		var (
			reason   interface{ ReasonClass() string }
			sentence interface{ ForCaller() string }
		)

		e.Err = cause
		if errors.As(cause, &reason) {
			e.Reason = reason.ReasonClass()
		}

		if errors.As(cause, &sentence) {
			e.Say = sentence.ForCaller()
		}
	}

	if e.Cluster == "" {
		e.Cluster = cluster
	}

	if e.Version == 0 {
		e.Version = version
	}

	class := ClassCredential
	if e.Reason == ReasonNone {
		class = ClassNoCredential
	}

	return &Error{Class: class, Err: &e}
}

// versionIn is the KV version an error is about; zero when it does not say.
func versionIn(err error) int64 {
	var e *CredentialError
	if errors.As(err, &e) {
		return e.Version
	}

	return 0
}
