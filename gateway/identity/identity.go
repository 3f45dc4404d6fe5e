package identity

import (
	"crypto/tls"
	"time"
)

// Kind tells people from machines that act by themselves. Approvals are for people only.
type Kind string

// The kinds a Caller can have. There is no zero Kind in a proven Caller.
const (
	KindHuman      Kind = "human"
	KindAutomation Kind = "automation"
)

// Proof names what a Caller was proven by.
type Proof string

// The proofs a Caller can have.
const (
	ProofCertificate Proof = "certificate"
	ProofToken       Proof = "token"
	ProofBoth        Proof = "certificate+token"
)

// Caller is a proven identity. Issuer and Subject together are the person; everything that decides
// compares both, byte for byte. A Caller is a value: its slices belong to whoever received it.
type Caller struct {
	// Issuer is the issuer of the identity: a token's `iss`, or the issuer a certificate names.
	Issuer string
	// Subject is the issuer's stable name for the person: valid, printable UTF-8, 1 to 1000 bytes.
	Subject string
	// Name is for display only (preferred_username, email or common name) and may be empty, shared by
	// two people, or change. Nothing may be decided on it.
	Name string
	// Kind is human unless the certificate, the token or the issuer's configuration says automation.
	Kind Kind
	// Groups are sorted and free of duplicates. With both proofs they are the token's when it has the
	// groups claim, else the certificate's; never the union.
	Groups []string
	// CertificateGroups is true when a token was shown beside a certificate, has no groups claim, and Groups are therefore
	// the certificate's.
	CertificateGroups bool
	// Proof says which credentials were shown; all of them were found good.
	Proof Proof
	// ProofEnds is the instant at which Identify stops accepting the same credentials: the earliest
	// NotAfter of the certificate chain, a token's `exp` plus the clock skew, or the earlier of both.
	ProofEnds time.Time
	// ProofIssued is a token's `iat`; the zero time without a token.
	ProofIssued time.Time
	// CertificateSerial is the certificate's serial number in lower-case hex, empty without one.
	CertificateSerial string
	// SPKI is the lower-case hex SHA-256 of the certificate's SubjectPublicKeyInfo, empty without one.
	SPKI string
	// TokenID is the token's `jti`, empty without one.
	TokenID string
}

// Request is what a connection and a call show of who is calling.
type Request struct {
	// TLS is the state of the finished handshake; nil means that no certificate was shown. The listener
	// must request client certificates without verifying them (tls.RequestClientCert): the handshake
	// proves possession of the key, Identify judges the certificate.
	TLS *tls.ConnectionState
	// Authorization holds the raw values of the `authorization` header or metadata key, in order.
	Authorization []string
}
