package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// RoleImpersonator is the organization the gateway's client certificate must carry.
const RoleImpersonator = "os:impersonator"

// Credential is what the gateway shows to the machines of one cluster, and what they must
// prove themselves with. Printing or logging it tells its version and nothing else.
type Credential struct {
	// Certificate is the os:impersonator client certificate with its private key.
	Certificate tls.Certificate
	// CAs are what the machines' certificates must chain to; two during a rotation.
	CAs []*x509.Certificate
	// Version is the version of the KV secret it is; zero for files.
	Version int64
}

// String says which version it is.
func (c Credential) String() string { return fmt.Sprintf("Talos credential, version %d", c.Version) }

// Format hides the private key from every verb.
func (c Credential) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, c.String()) }

// LogValue hides the private key from logs.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON hides the private key from encoders.
func (c Credential) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// CredentialSource holds the credentials. It is asked for every call, so it must answer
// from memory: whatever fetches a credential from elsewhere does it beforehand. It must be
// safe for concurrent use.
type CredentialSource interface {
	// Credential gives the present credential for the machines of a cluster. A new one is
	// used from the next call on. The error says why there is none that may be used: it may
	// implement interface{ ReasonClass() string }, one word for what is wrong (ReasonNone
	// when none is held for this cluster), and interface{ ForCaller() string }, a sentence
	// without secrets or causes that callers are told.
	Credential(ctx context.Context, cluster string) (Credential, error)
	// Clusters are those a credential is held for, sorted; the one name "" stands for any.
	Clusters() []string
}

// credential is one checked answer of a CredentialSource, ready to dial with.
type credential struct {
	Credential
	pool         *x509.CertPool
	begins, ends time.Time
}

// same tells whether a connection made with c may stay when the source gives got.
func (c *credential) same(got Credential) bool {
	return c.Version == got.Version && slices.EqualFunc(c.Certificate.Certificate, got.Certificate.Certificate, bytes.Equal) &&
		slices.EqualFunc(c.CAs, got.CAs, (*x509.Certificate).Equal)
}

// newCredential checks what a source gave.
func newCredential(got Credential, now time.Time) (*credential, error) {
	if err := CheckCredential(got.Certificate, got.CAs, now); err != nil {
		return nil, err
	}

	leaf, err := leafOf(got.Certificate)
	if err != nil {
		return nil, err
	}

	c := &credential{Credential: got, pool: x509.NewCertPool(), begins: leaf.NotBefore, ends: leaf.NotAfter}
	for _, ca := range got.CAs {
		c.pool.AddCert(ca)
	}

	return c, nil
}

// credential gives the present credential of a cluster, checked. What was checked before is
// not checked again but for its time. Errors are *Error of ClassCredential or
// ClassNoCredential, with a *CredentialError inside.
func (p *Pool) credential(ctx context.Context, cluster string) (*credential, error) {
	now := time.Now()

	got, err := p.cfg.Credential.Credential(ctx, cluster)
	if err != nil {
		return nil, noCredential(cluster, 0, err)
	}

	p.credMu.Lock()
	defer p.credMu.Unlock()

	held := p.creds[cluster]
	if held == nil || !held.same(got) {
		if held, err = newCredential(got, now); err != nil {
			return nil, noCredential(cluster, got.Version, err)
		}

		p.creds[cluster] = held
	}

	if err := inTime(held.begins, held.ends, now); err != nil {
		return nil, noCredential(cluster, got.Version, err)
	}

	return held, nil
}

// CredentialState is how the credential of one cluster stands.
type CredentialState struct {
	// Cluster is "" when one credential is for any cluster.
	Cluster string
	Version int64
	// Begins and Ends bound the certificate's life; zero with Err.
	Begins, Ends time.Time
	// Err is an *Error that says why there is no usable one; nil when there is.
	Err error
}

// NearEnd is true once less than a third of the certificate's life is left: time to put a
// new one in its place.
func (s CredentialState) NearEnd(now time.Time) bool {
	return s.Err == nil && s.Ends.Sub(now) < s.Ends.Sub(s.Begins)/3
}

// Credentials tells how the credential of each cluster stands: of those the source holds one
// for and of those named, sorted. Where one credential is for any cluster there is one state.
func (p *Pool) Credentials(ctx context.Context, clusters ...string) []CredentialState {
	held := p.cfg.Credential.Clusters()
	if slices.Contains(held, "") {
		held = []string{""}
	} else {
		held = append(slices.Clone(held), clusters...)
		slices.Sort(held)
		held = slices.Compact(held)
	}

	states := make([]CredentialState, 0, len(held))

	for _, cluster := range held {
		s := CredentialState{Cluster: cluster}

		if c, err := p.credential(ctx, cluster); err != nil {
			s.Err = err
			s.Version = versionIn(err)
		} else {
			s.Version, s.Begins, s.Ends = c.Version, c.begins, c.ends
		}

		states = append(states, s)
	}

	return states
}
