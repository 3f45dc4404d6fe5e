package identity

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"slices"
)

// AuthoritySource gives authorities that may change while the process runs, besides those of Config. It answers from memory,
// because it is asked at every call that shows a certificate, and is safe for concurrent use. A slice it gave is not changed
// any more.
type AuthoritySource interface {
	// People are the authorities for people: at most two, the second for a rotation. Of more than two none is trusted.
	People() []*x509.Certificate
	// Forbidden are authorities whose certificates get a refusal of their own.
	Forbidden() []*x509.Certificate
}

// mostPeopleCAs is how many authorities for people one list may hold: the current one, and another during a rotation.
const mostPeopleCAs = 2

// authorities is one set of authorities. It is not changed any more; what a certificate was proven by is the very set.
type authorities struct {
	// people and forbidden are what the source gave, for telling whether it gives something else now.
	people, forbidden []*x509.Certificate
	// refused are all forbidden ones, and the pools what certificates are verified against.
	refused                   []*x509.Certificate
	peoplePool, forbiddenPool *x509.CertPool
}

// authorities is the set that holds now. A certificate that is remembered is good only under the set that proved it.
func (a *Authenticator) authorities() *authorities {
	if a.cfg.Authorities == nil {
		return a.known.Load()
	}
	people, forbidden := a.cfg.Authorities.People(), a.cfg.Authorities.Forbidden()
	last := a.known.Load()
	if last != nil && sameCertificates(last.people, people) && sameCertificates(last.forbidden, forbidden) {
		return last
	}
	next := a.assemble(people, forbidden)
	// Whoever loses this race has judged by what the source said when it was asked, and the next call asks again.
	a.known.Store(next)
	return next
}

// assemble makes a set of the configuration's lists and the source's. Whatever of the source is no authority that may speak
// for people is left out, and a key that is forbidden speaks for nobody, whichever list it stands in.
func (a *Authenticator) assemble(people, forbidden []*x509.Certificate) *authorities {
	set := &authorities{
		people: slices.Clone(people), forbidden: slices.Clone(forbidden),
		peoplePool: x509.NewCertPool(), forbiddenPool: x509.NewCertPool(),
	}
	for _, ca := range slices.Concat(a.cfg.ForbiddenCAs, forbidden) {
		if ca != nil {
			set.refused = append(set.refused, ca)
			set.forbiddenPool.AddCert(ca)
		}
	}
	trusted, left := slices.Clone(a.cfg.PeopleCAs), 0
	if len(people) > mostPeopleCAs {
		left, people = len(people), nil
	}
	trusted = append(trusted, people...)
	for _, ca := range trusted {
		if ca == nil || !ca.BasicConstraintsValid || !ca.IsCA || set.isRefusedKey(ca) {
			left++
			continue
		}
		set.peoplePool.AddCert(ca)
	}
	if a.cfg.Authorities != nil {
		a.cfg.Logger.Info("the authorities for certificates are others now", slog.Int("people", len(trusted)), slog.Int("forbidden", len(set.refused)))
	}
	if left > 0 {
		a.cfg.Logger.Warn("an authority for people is not trusted: it is forbidden too, is no authority, or is one of more than two", slog.Int("authorities", left))
	}
	return set
}

// isRefusedKey is whether a forbidden authority has the same key.
func (s *authorities) isRefusedKey(ca *x509.Certificate) bool {
	return slices.ContainsFunc(s.refused, func(one *x509.Certificate) bool {
		return bytes.Equal(one.RawSubjectPublicKeyInfo, ca.RawSubjectPublicKeyInfo)
	})
}

// sameCertificates compares what two lists hold, in order.
func sameCertificates(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, func(x, y *x509.Certificate) bool { return x.Equal(y) })
}
