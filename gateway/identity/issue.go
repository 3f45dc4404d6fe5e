package identity

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxCertificateLifetime caps every certificate, whatever the configuration and the law say.
	MaxCertificateLifetime = 24 * time.Hour
	// MinCertificateLifetime is the shortest lifetime that is worth asking for.
	MinCertificateLifetime = time.Minute
	// backdated is how long before now a certificate begins. Certificates get no skew, and replicas know the database's clock
	// by samples that differ: without it one that was just issued is not valid yet at the next replica.
	backdated = time.Minute
	// maxCommonName is the longest common name in characters. Source: RFC 5280, appendix A.1, ub-common-name.
	maxCommonName = 64
	// maxNames bounds the names of a certificate in bytes: Go's TLS takes a certificate message of 256 KiB, others 64.
	maxNames = 48 << 10
)

// ErrNames means that what names the caller does not fit into a certificate.
var ErrNames = errors.New("the issuer, subject or groups of this caller do not fit into a certificate")

// NewSerial makes a certificate's serial: 128 random bits, never zero.
func NewSerial() (*big.Int, error) {
	most := new(big.Int).Lsh(big.NewInt(1), 128)
	n, err := rand.Int(rand.Reader, most.Sub(most, big.NewInt(1)))
	if err != nil {
		return nil, fmt.Errorf("making a serial: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}

// CertificateTemplate is what a certificate for this caller says: good for TLS clients from a minute before now until now and
// lifetime, of no use as an authority, and naming the caller so that Identify finds the same issuer, subject, kind and groups.
// The common name is for display. The caller must have been proven by a token: what a certificate proved would otherwise
// renew itself for ever.
func CertificateTemplate(c Caller, serial *big.Int, now time.Time, lifetime time.Duration) (*x509.Certificate, error) {
	if c.Proof == ProofCertificate || c.CertificateGroups {
		return nil, errors.New("making a certificate: the caller is not proven by a token")
	}
	if lifetime < MinCertificateLifetime || lifetime > MaxCertificateLifetime {
		return nil, fmt.Errorf("making a certificate: %v is no lifetime between %v and %v", lifetime, MinCertificateLifetime, MaxCertificateLifetime)
	}
	uris := []*url.URL{IdentityURI(c.Issuer, c.Subject, c.Kind)}
	size := len(uris[0].String())
	for _, group := range c.Groups {
		uri := GroupURI(group)
		if size += len(uri.String()); size > maxNames {
			return nil, ErrNames
		}
		uris = append(uris, uri)
	}
	// What is signed is read once as it will be read at every call.
	said, err := readURIs(uris)
	if err != nil || said.issuer != c.Issuer || said.subject != c.Subject || said.kind != c.Kind || !slices.Equal(said.groups, c.Groups) {
		return nil, ErrNames
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName(c)},
		NotBefore: now.Add(-backdated).UTC().Truncate(time.Second), NotAfter: now.Add(lifetime).UTC().Truncate(time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, URIs: uris,
	}, nil
}

// commonName is the display name, or the subject of somebody without one, cut.
func commonName(c Caller) string {
	name := displayName(c.Name)
	if name == "" {
		name = displayName(c.Subject)
	}
	if utf8.RuneCountInString(name) > maxCommonName {
		name = strings.TrimSpace(string([]rune(name)[:maxCommonName]))
	}
	return name
}

// Issued is a certificate that was signed for a caller.
type Issued struct {
	// PEM is the chain, leaf first.
	PEM string
	// Serial is in lower-case hex, SPKI the SHA-256 of the leaf's SubjectPublicKeyInfo, as in Caller.
	Serial, SPKI string
	// NotAfter is when the first certificate of the chain ends.
	NotAfter time.Time
}

// CheckIssued holds a chain of DER certificates, leaf first, against what was to be signed, and gives it: whoever signs is not
// asked to be believed. The leaf must say what the template says and no more, be for this key, and be signed by the next.
func CheckIssued(chain [][]byte, template *x509.Certificate, key crypto.PublicKey) (Issued, error) {
	fail := func(why string) (Issued, error) { return Issued{}, errors.New("checking a signed certificate: " + why) }
	if len(chain) == 0 || len(chain) > maxChain {
		return fail(fmt.Sprintf("%d certificates came, want 1 to %d", len(chain), maxChain))
	}
	var parsed []*x509.Certificate
	var text strings.Builder
	for _, der := range chain {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			return fail("a certificate of the chain does not parse")
		}
		parsed = append(parsed, one)
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a builder takes everything
	}
	leaf := parsed[0]
	want, err := x509.MarshalPKIXPublicKey(key)
	if err != nil || !bytes.Equal(want, leaf.RawSubjectPublicKeyInfo) {
		return fail("it is for another key")
	}
	if why := differs(leaf, template); why != "" {
		return fail(why)
	}
	if err := checkLeaf(leaf); err != nil {
		return fail(err.Error())
	}
	for i, one := range parsed[1:] {
		if err := parsed[i].CheckSignatureFrom(one); err != nil {
			return fail("it is not signed by the next certificate of its chain")
		}
	}
	spki := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	_, ends := spanOf([][]*x509.Certificate{parsed})
	return Issued{PEM: text.String(), Serial: leaf.SerialNumber.Text(16), SPKI: hex.EncodeToString(spki[:]), NotAfter: ends.UTC()}, nil
}

// differs says in what the leaf is another one than was to be signed; empty when it is the one.
func differs(leaf, template *x509.Certificate) string {
	names := func(c *x509.Certificate) (out []string) {
		for _, uri := range c.URIs {
			out = append(out, uri.String())
		}
		return out
	}
	switch {
	case leaf.SerialNumber.Cmp(template.SerialNumber) != 0:
		return "it has another serial"
	case leaf.NotBefore.Before(template.NotBefore) || leaf.NotAfter.After(template.NotAfter):
		return "it is valid for longer"
	case !slices.Equal(names(leaf), names(template)) || len(leaf.DNSNames)+len(leaf.EmailAddresses)+len(leaf.IPAddresses) > 0:
		return "it names somebody else"
	case leaf.Subject.String() != template.Subject.String():
		return "it has another subject"
	case leaf.IsCA || !leaf.BasicConstraintsValid:
		return "it may be an authority"
	case leaf.KeyUsage != template.KeyUsage || !slices.Equal(leaf.ExtKeyUsage, template.ExtKeyUsage) || len(leaf.UnknownExtKeyUsage) > 0:
		return "it is for other uses"
	}
	return ""
}
