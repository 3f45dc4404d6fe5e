package ask

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"bronzeward/cmd/bronzeward/cli"
)

// Passing is true for a fault of the network that may be over at the next try.
func Passing(err error) bool {
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

// Peer is a server that a command asks, in the words that tell a person about it.
type Peer struct {
	// Where is its address.
	Where string
	// Trust says how its CA is given, address what to look at when the address may be wrong.
	Trust, Address string
	// shown is the credential it was shown; empty for none.
	shown string
	// tries is how often it was asked.
	tries int
}

// Explain says why the gateway could not be asked, and what to do.
func (s *Asker) Explain(err error) error {
	return Peer{
		Where: s.Settings.Server, Trust: fmt.Sprintf("--server-ca FILE, BRONZEWARD_SERVER_CA or `server_ca` in %s", s.clientFile()),
		Address: "is that the gateway's http_listen address?", shown: s.Settings.shown(), tries: MostTries,
	}.Explain(err)
}

// Explain says why a server could not be asked, and what to do.
func (p Peer) Explain(err error) error {
	var (
		usage     cli.UsageError
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
		return cli.Usage(fmt.Errorf("the certificate of %s is signed by nobody that is trusted here (%s): give the CA that signed it with %s",
			p.Where, issuerOf(authority.Cert), p.Trust))
	case errors.As(err, &host):
		return cli.Usage(fmt.Errorf("the certificate of %s is for another name (%s): name it as its certificate does", p.Where, names(host.Certificate)))
	case errors.As(err, &invalid):
		return cli.Unavailable(fmt.Errorf("the certificate of %s is not good: %w", p.Where, err))
	case errors.As(err, &plain), spokePlainly(err):
		return cli.Usage(fmt.Errorf("%s does not speak TLS: %s", p.Where, p.Address))
	case refusedByPeer(err):
		said := fmt.Errorf("%s refused the connection in the TLS handshake (%w)", p.Where, errors.Unwrap(opError(err)))
		if p.shown != "" {
			said = fmt.Errorf("%w; you showed %s", said, p.shown)
		}
		return cli.Denied(said)
	case errors.As(err, &name) && name.IsNotFound:
		return cli.Usage(fmt.Errorf("the name in %s is not known: %w", p.Where, name))
	case errors.Is(err, syscall.ECONNREFUSED):
		tries := ""
		if p.tries > 1 {
			tries = fmt.Sprintf(" (%d tries)", p.tries)
		}
		return cli.Unavailable(fmt.Errorf("nothing listens at %s%s: is it up, and %s", p.Where, tries, p.Address))
	}
	return cli.Unavailable(fmt.Errorf("asking %s: %w", p.Where, err))
}

func (s *Asker) clientFile() string {
	if s.Settings.File == "" {
		return "client.yaml"
	}
	return s.Settings.File
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
