package upstream

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ParseCredential makes a credential of PEM texts: the client certificate (with its chain,
// leaf first), its private key, and the CA certificates of the nodes. The key may stand beside
// the certificate; any other private key, wherever it stands, is refused, because the one that
// is put there by mistake is the CA's. It checks no times and no roles; CheckCredential does.
// Errors are *CredentialError and quote nothing of the texts.
func ParseCredential(cert, key, ca []byte) (Credential, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return Credential{}, pairError(cert, key, err)
	}

	for _, where := range []struct {
		name string
		text []byte
	}{{"the certificate", cert}, {"the key", key}} {
		if err := onlyItsKey(where.name, where.text, cert); err != nil {
			return Credential{}, err
		}
	}

	cas, err := parseCAs(ca)
	if err != nil {
		return Credential{}, err
	}

	return Credential{Certificate: pair, CAs: cas}, nil
}

// pairError tells a key that is another certificate's from texts that cannot be read.
func pairError(cert, key []byte, cause error) error {
	if !bytes.Contains(cert, []byte("-----BEGIN CERTIFICATE-----")) {
		return &CredentialError{Reason: ReasonNoCertificate, Err: errors.New("there is no certificate in PEM form")}
	}

	if !bytes.Contains(key, []byte("PRIVATE KEY-----")) {
		return &CredentialError{Reason: ReasonMalformed, Err: errors.New("there is no private key in PEM form")}
	}

	// crypto/tls has no error type for it; its texts quote neither key nor certificate.
	if strings.Contains(cause.Error(), "does not match") {
		return &CredentialError{Reason: ReasonKeyMismatch, Err: cause}
	}

	return &CredentialError{Reason: ReasonMalformed, Err: cause}
}

// onlyItsKey refuses a private key that is not the certificate's own.
func onlyItsKey(name string, text, cert []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}

		if _, err := tls.X509KeyPair(cert, pem.EncodeToMemory(block)); err != nil {
			return &CredentialError{Reason: ReasonForeignKey, Err: fmt.Errorf("beside %s stands a private key that is not the certificate's own; a CA's key must never be here", name)}
		}
	}

	return nil
}

func parseCAs(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate

	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil, &CredentialError{Reason: ReasonForeignKey, Err: errors.New("beside the CA certificates stands a private key; the CA's key must never be here")}
		case block.Type != "CERTIFICATE":
			return nil, &CredentialError{Reason: ReasonMalformed, Err: errors.New("beside the CA certificates stands something else; only certificates belong there")}
		}

		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &CredentialError{Reason: ReasonMalformed, Err: fmt.Errorf("reading a CA certificate: %w", err)}
		}

		out = append(out, ca)
	}

	if len(out) == 0 {
		return nil, &CredentialError{Reason: ReasonNoCA, Err: errors.New("there is no CA certificate in PEM form")}
	}

	return out, nil
}

// CheckCredential refuses what is not fit to be shown to machines at now: a certificate that
// Talos would not let speak for others, so that the cause is ours to read and not a bare "not
// authorized" from the node; and one that can do more than speak for others, because the
// gateway must not be able to. Errors are *CredentialError.
func CheckCredential(cert tls.Certificate, cas []*x509.Certificate, now time.Time) error {
	leaf, err := leafOf(cert)
	if err != nil {
		return err
	}

	refuse := func(reason, format string, args ...any) error {
		return &CredentialError{Reason: reason, Err: fmt.Errorf(format, args...)}
	}

	signer, ok := cert.PrivateKey.(crypto.Signer)

	switch {
	case len(cas) == 0:
		return refuse(ReasonNoCA, "there is no Talos CA")
	case !ok || !sameKey(signer.Public(), leaf.PublicKey):
		return refuse(ReasonKeyMismatch, "the private key is not the client certificate's")
	case leaf.IsCA:
		return refuse(ReasonForeignKey, "the client certificate is a CA's: with its key the gateway could mint certificates")
	case !slices.Equal(leaf.Subject.Organization, []string{RoleImpersonator}):
		return refuse(ReasonRoles, "the client certificate has the organizations %q, where %s alone is allowed", leaf.Subject.Organization, RoleImpersonator)
	case len(leaf.UnknownExtKeyUsage) != 0 || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}):
		return refuse(ReasonUsage, "the client certificate must have clientAuth as its only extended key usage")
	}

	for _, ca := range cas {
		switch {
		case ca == nil || !ca.IsCA:
			return refuse(ReasonNoCA, "one of the certificates of the nodes' CA is no CA's")
		case sameKey(signer.Public(), ca.PublicKey):
			return refuse(ReasonForeignKey, "the private key is the CA's own; it must never be here")
		}
	}

	return inTime(leaf.NotBefore, leaf.NotAfter, now)
}

// inTime refuses a certificate outside of its life.
func inTime(begins, ends, now time.Time) error {
	reason := ""

	switch {
	case now.Before(begins):
		reason = ReasonNotYetValid
	case now.After(ends):
		reason = ReasonExpired
	default:
		return nil
	}

	return &CredentialError{Reason: reason, Err: fmt.Errorf("client certificate is valid from %s to %s",
		begins.UTC().Format(time.RFC3339), ends.UTC().Format(time.RFC3339))}
}

// leafOf returns the parsed leaf of cert.
func leafOf(cert tls.Certificate) (*x509.Certificate, error) {
	if cert.Leaf != nil {
		return cert.Leaf, nil
	}

	if len(cert.Certificate) == 0 {
		return nil, &CredentialError{Reason: ReasonNoCertificate, Err: errors.New("there is no certificate")}
	}

	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return nil, &CredentialError{Reason: ReasonMalformed, Err: fmt.Errorf("reading the client certificate: %w", err)}
	}

	return leaf, nil
}

// sameKey compares public keys; all of the standard library's have Equal.
func sameKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })

	return ok && k.Equal(b)
}
