package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// passing is true for a fault of the network that may be over at the next try.
func passing(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var name *net.DNSError
	switch {
	case errors.As(err, &untrusted), errors.As(err, &plain), refusedByPeer(err), spokePlainly(err):
		return false
	case errors.As(err, &name):
		return !name.IsNotFound
	}
	return true
}

// refusedByPeer is true when the other side ended the handshake: it did not like the
// certificate it was shown, or there was none.
func refusedByPeer(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// spokePlainly is true when a server without TLS answered; net/http has no type for it.
func spokePlainly(err error) bool {
	return strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// explain says why the gateway could not be asked, and what to do.
func (s *asker) explain(err error) error {
	where := s.settings.server
	var (
		usage     usageError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		name      *net.DNSError
	)
	switch {
	case errors.As(err, &usage):
		return err
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &authority):
		return usageError{fmt.Errorf("the certificate of %s is signed by nobody that is trusted here (%s): give the CA that signed it with --server-ca FILE, BRONZEWARD_SERVER_CA or `server_ca` in %s",
			where, issuerOf(authority.Cert), s.clientFile())}
	case errors.As(err, &host):
		return usageError{fmt.Errorf("the certificate of %s is for another name (%s): name the gateway as its certificate does", where, names(host.Certificate))}
	case errors.As(err, &invalid):
		return unavailableError{fmt.Errorf("the certificate of %s is not good: %w", where, err)}
	case errors.As(err, &plain), spokePlainly(err):
		return usageError{fmt.Errorf("%s does not speak TLS: is that the gateway's http_listen address?", where)}
	case refusedByPeer(err):
		return deniedError{fmt.Errorf("%s refused the connection in the TLS handshake (%w); you showed %s", where, errors.Unwrap(opError(err)), s.settings.shown())}
	case errors.As(err, &name) && name.IsNotFound:
		return usageError{fmt.Errorf("the name in %s is not known: %w", where, name)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return unavailableError{fmt.Errorf("nothing listens at %s (%d tries): is the gateway up, and is that its http_listen address?", where, mostTries)}
	}
	return unavailableError{fmt.Errorf("asking %s: %w", where, err)}
}

func (s *asker) clientFile() string {
	if s.settings.file == "" {
		return "client.yaml"
	}
	return s.settings.file
}

func opError(err error) *net.OpError {
	var op *net.OpError
	_ = errors.As(err, &op) // the caller has looked
	return op
}

func issuerOf(cert *x509.Certificate) string {
	if cert == nil {
		return "its issuer is not known"
	}
	return "its issuer is " + cert.Issuer.String()
}

// names are what a certificate is for.
func names(cert *x509.Certificate) string {
	out := cert.DNSNames
	for _, ip := range cert.IPAddresses {
		out = append(out, ip.String())
	}
	if len(out) == 0 {
		return "it has none"
	}
	return strings.Join(out, ", ")
}
