package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// RoleImpersonator is the organization the gateway's client certificate must carry.
const RoleImpersonator = "os:impersonator"

// CredentialSource gives the certificate the gateway shows to machines and the CA their
// certificates must chain to. It is asked at every dial and at every Pool.Conn, so it
// should answer from memory. It must be safe for concurrent use.
type CredentialSource interface {
	Certificate(ctx context.Context) (tls.Certificate, *x509.CertPool, error)
}

// FileCredential reads the credential from three PEM files and reads them again when one
// of them changes. While a changed set does not fit together (a rotation half done) the
// last good one is used, until its certificate ends. Safe for concurrent use.
type FileCredential struct {
	// Cert, Key and CA are paths. All are required. CA may hold several certificates.
	Cert, Key, CA string
	// Logger is told once of each change that could not be taken; nil discards.
	Logger *slog.Logger

	mu     sync.Mutex
	seen   [3]fileMark      // guarded by mu; of the last good read
	failed [3]fileMark      // guarded by mu; of the last bad one
	cert   *tls.Certificate // guarded by mu; nil before the first good read
	pool   *x509.CertPool   // guarded by mu
}

type fileMark struct {
	size int64
	mod  time.Time
}

var _ CredentialSource = (*FileCredential)(nil)

// Certificate returns the current credential.
func (f *FileCredential) Certificate(context.Context) (tls.Certificate, *x509.CertPool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	marks, err := f.marks()
	if err == nil && f.cert != nil && marks == f.seen {
		return *f.cert, f.pool, nil
	}

	if err == nil {
		var (
			cert tls.Certificate
			pool *x509.CertPool
		)

		if cert, pool, err = f.read(); err == nil {
			f.seen, f.cert, f.pool = marks, &cert, pool

			return cert, pool, nil
		}
	}

	if f.cert != nil {
		if f.Logger != nil && marks != f.failed {
			f.Logger.Warn("the changed Talos credential cannot be used, the one before stays", slog.Any("error", err))
		}

		f.failed = marks

		return *f.cert, f.pool, nil
	}

	return tls.Certificate{}, nil, fmt.Errorf("reading the Talos credential: %w", err)
}

func (f *FileCredential) marks() (m [3]fileMark, err error) {
	for i, path := range []string{f.Cert, f.Key, f.CA} {
		info, err := os.Stat(path)
		if err != nil {
			return m, err
		}

		m[i] = fileMark{size: info.Size(), mod: info.ModTime()}
	}

	return m, nil
}

func (f *FileCredential) read() (tls.Certificate, *x509.CertPool, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}

	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return tls.Certificate{}, nil, err
	}

	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return tls.Certificate{}, nil, errors.New("no certificate in the CA file")
	}

	return cert, pool, nil
}

// leafOf returns the parsed leaf of cert.
func leafOf(cert tls.Certificate) (*x509.Certificate, error) {
	if cert.Leaf != nil {
		return cert.Leaf, nil
	}

	if len(cert.Certificate) == 0 {
		return nil, errors.New("no certificate")
	}

	return x509.ParseCertificate(cert.Certificate[0])
}

// checkCredential refuses a certificate that Talos would not let speak for others, so
// that the cause is ours to read and not a bare "not authorized" from the node.
func checkCredential(cert tls.Certificate, pool *x509.CertPool, now time.Time) error {
	if pool == nil {
		return errors.New("no Talos CA")
	}

	leaf, err := leafOf(cert)
	if err != nil {
		return err
	}

	switch {
	case now.Before(leaf.NotBefore) || now.After(leaf.NotAfter):
		return fmt.Errorf("client certificate is valid from %s to %s", leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	case !slices.Contains(leaf.Subject.Organization, RoleImpersonator):
		return fmt.Errorf("client certificate has not the organization %s", RoleImpersonator)
	case len(leaf.UnknownExtKeyUsage) != 0 || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}):
		return errors.New("client certificate must have clientAuth as its only extended key usage")
	}

	return nil
}

// sameCredential tells whether a connection made with a may stay when the source gives b.
func sameCredential(a, b *credential) bool {
	return a.pool.Equal(b.pool) && slices.EqualFunc(a.cert.Certificate, b.cert.Certificate, bytes.Equal)
}

// credential is one answer of a CredentialSource.
type credential struct {
	cert tls.Certificate
	pool *x509.CertPool
}

func (p *Pool) credential(ctx context.Context) (*credential, error) {
	cert, pool, err := p.cfg.Credential.Certificate(ctx)
	if err == nil {
		err = checkCredential(cert, pool, time.Now())
	}

	if err != nil {
		return nil, &Error{Class: ClassCredential, Err: err}
	}

	return &credential{cert: cert, pool: pool}, nil
}

// CredentialEnds says until when the present credential is good. The error, an *Error of
// ClassCredential, says that there is none that is good now.
func (p *Pool) CredentialEnds(ctx context.Context) (time.Time, error) {
	cred, err := p.credential(ctx)
	if err != nil {
		return time.Time{}, err
	}

	leaf, err := leafOf(cred.cert)
	if err != nil {
		return time.Time{}, &Error{Class: ClassCredential, Err: err}
	}

	return leaf.NotAfter, nil
}
