package identity

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxChain bounds the certificates a client may send: a leaf and a few intermediates.
const maxChain = 4

// provenCertificate is a certificate whose chain, usage and names are good, apart from the times, which are judged at
// each use.
type provenCertificate struct {
	by           *authorities
	caller       Caller
	begins, ends time.Time // of the whole chain: valid from begins until before ends
}

// verifyCertificate proves a certificate that is not in the cache.
func (s *authorities) verifyCertificate(chain []*x509.Certificate, now time.Time) (*provenCertificate, *Refusal) {
	if len(chain) > maxChain {
		return nil, refuse(ClassMalformedCertificate, "more than four certificates were sent", nil)
	}
	leaf := chain[0]
	intermediates := x509.NewCertPool()
	for _, one := range chain[1:] {
		intermediates.AddCert(one)
	}
	// The chain is judged inside the leaf's own time, so that an expired certificate of ours is told apart from a
	// stranger's; whether now is inside it is judged after, by judgeTimes.
	at := now
	if at.Before(leaf.NotBefore) {
		at = leaf.NotBefore
	}
	if at.After(leaf.NotAfter) {
		at = leaf.NotAfter
	}
	forbidden := x509.VerifyOptions{
		Roots: s.forbiddenPool, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	if s.isForbidden(leaf, forbidden) {
		return nil, refuse(ClassForbiddenCA, "the client certificate is one of Talos's own; the gateway takes only its own", nil)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: s.peoplePool, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, refuseChain(err)
	}
	if err := checkLeaf(leaf); err != nil {
		return nil, refuse(ClassMalformedCertificate, "the client certificate is not one for a person: "+err.Error(), nil)
	}
	names, err := readURIs(leaf.URIs)
	if err != nil {
		return nil, refuse(ClassMalformedCertificate, "the client certificate does not name a person: "+err.Error(), nil)
	}
	spki := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	proven := &provenCertificate{by: s, caller: Caller{
		Issuer: names.issuer, Subject: names.subject, Name: displayName(leaf.Subject.CommonName),
		Kind: names.kind, Groups: names.groups, Proof: ProofCertificate,
		CertificateSerial: leaf.SerialNumber.Text(16), SPKI: hex.EncodeToString(spki[:]),
	}}
	proven.begins, proven.ends = spanOf(chains)
	proven.caller.ProofEnds = proven.ends
	return proven, nil
}

// isForbidden reports whether the certificate is a forbidden authority, is signed by one, or chains to one. The first two
// hold whatever the times and constraints are.
func (s *authorities) isForbidden(leaf *x509.Certificate, options x509.VerifyOptions) bool {
	for _, ca := range s.refused {
		if leaf.Equal(ca) || leaf.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	if len(s.refused) == 0 {
		return false
	}
	_, err := leaf.Verify(options)
	return err == nil
}

// refuseChain words why the chain does not verify. The cause has the library's words: they name certificates.
func refuseChain(err error) *Refusal {
	cause := fmt.Errorf("verifying client certificate: %w", err)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) {
		switch invalid.Reason {
		case x509.Expired:
			return refuse(ClassExpired, "an authority in the client certificate's chain is not valid now", cause)
		case x509.IncompatibleUsage:
			return refuse(ClassMalformedCertificate, "the client certificate is not for client authentication", cause)
		}
	}
	return refuse(ClassUnknownCertificate, "the client certificate is not from the gateway's own authority", cause)
}

// checkLeaf holds what a person's certificate must be beyond its chain.
func checkLeaf(leaf *x509.Certificate) error {
	if leaf.IsCA {
		return errors.New("it is an authority")
	}
	// An absent list or "any" satisfies the library's check.
	if !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return errors.New("its extended key usage must be clientAuth")
	}
	if leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return errors.New("its key usage lacks digital signatures")
	}
	if key, ok := leaf.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < minRSABits {
		return errors.New("its RSA key is shorter than 2048 bits")
	}
	return nil
}

// spanOf returns the time during which every certificate of a chain is valid; of several chains the one that ends last.
func spanOf(chains [][]*x509.Certificate) (begins, ends time.Time) {
	for _, chain := range chains {
		from, until := chain[0].NotBefore, chain[0].NotAfter
		for _, one := range chain[1:] {
			if one.NotBefore.After(from) {
				from = one.NotBefore
			}
			if one.NotAfter.Before(until) {
				until = one.NotAfter
			}
		}
		if until.After(ends) {
			begins, ends = from, until
		}
	}
	return begins, ends
}

// judgeTimes compares the chain's times with now, without skew.
func (p *provenCertificate) judgeTimes(now time.Time) *Refusal {
	if !now.Before(p.ends) {
		return refuse(ClassExpired, fmt.Sprintf("the client certificate expired %v ago; log in again", now.Sub(p.ends).Round(time.Second)), nil)
	}
	if now.Before(p.begins) {
		return refuse(ClassNotYetValid, fmt.Sprintf("the client certificate begins in %v; compare the clocks", p.begins.Sub(now).Round(time.Second)), nil)
	}
	return nil
}
