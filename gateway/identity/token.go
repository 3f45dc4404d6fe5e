package identity

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxToken bounds a token's compact form. Tokens with 200 groups take 8 KiB.
const maxToken = 16 << 10

// provenToken is a token whose signature and claims are good, apart from the times, which are judged at each use.
type provenToken struct {
	caller                Caller
	hasGroups             bool
	issuer                *issuer
	keys                  *keySet
	issued, begins, ended time.Time // without skew; begins is zero without nbf
}

// header is what is read of a token's protected header.
type header struct{ alg, kid string }

// verifyToken proves a token that is not in the cache. The order is: form, issuer, key, signature, claims, times,
// lifetime; nothing that the signature covers is told to the caller before it verified, apart from the issuer being unknown.
func (a *Authenticator) verifyToken(ctx context.Context, token string, now time.Time) (*provenToken, *Refusal) {
	parts := strings.Split(token, ".")
	switch {
	case len(parts) == 5:
		return nil, malformed("the token is encrypted; a signed one is needed")
	case len(parts) != 3:
		return nil, malformed("the credential is not a token (three parts divided by dots)")
	}
	head, refusal := parseHeader(parts[0])
	if refusal != nil {
		return nil, refusal
	}
	payload, err := decodePart(parts[1])
	if err != nil {
		return nil, malformed("the token's claims are not base64url")
	}
	object, err := strictObject(payload)
	if err != nil {
		return nil, malformed("the token's claims: the text " + err.Error())
	}
	said := claims(object)
	name, refusal := said.mustText("iss")
	if refusal != nil {
		return nil, refusal
	}
	from, ok := a.issuers[name]
	if !ok {
		return nil, refuse(ClassUnknownIssuer, "the token's issuer is not one this gateway trusts", unknownIssuerCause(name))
	}
	if !slices.Contains(from.cfg.Algorithms, head.alg) {
		return nil, refuse(ClassAlgorithm, "the token's signature algorithm is not allowed for its issuer", nil)
	}
	set, keys, refusal := from.keysFor(ctx, head.kid)
	if refusal != nil {
		return nil, refusal
	}
	verified, fits := verify(keys, head.alg, token)
	switch {
	case !fits:
		return nil, refuse(ClassAlgorithm, "the token's signature algorithm does not fit its issuer's key", nil)
	case !verified:
		return nil, refuse(ClassBadSignature, "the token's signature does not verify",
			fmt.Errorf("verifying a token with the keys of %s", from.cfg.Issuer))
	}
	proven := &provenToken{issuer: from, keys: set}
	if refusal := proven.read(said, from.cfg); refusal != nil {
		return nil, refusal
	}
	if refusal := proven.judgeTimes(now, a.cfg.ClockSkew); refusal != nil {
		return nil, refusal
	}
	if life := proven.ended.Sub(proven.issued); life > a.cfg.MaxLifetime {
		return nil, refuse(ClassLifetime,
			fmt.Sprintf("the token lives %v, longer than identity.max_token_lifetime (%v)", life, a.cfg.MaxLifetime), nil)
	}
	proven.caller.ProofEnds, proven.caller.ProofIssued = proven.ended.Add(a.cfg.ClockSkew), proven.issued
	return proven, nil
}

// read takes the identity and the times out of verified claims.
func (p *provenToken) read(said claims, cfg IssuerConfig) (refusal *Refusal) {
	audience, ok, refusal := said.texts("aud")
	if refusal != nil {
		return refusal
	}
	if !ok || !slices.ContainsFunc(audience, func(one string) bool { return slices.Contains(cfg.Audience, one) }) {
		return refuse(ClassWrongAudience, "the token is meant for another audience than this gateway", nil)
	}
	// A token bound to a key is only good with a proof of that key, which is not asked for here.
	if _, bound := said["cnf"]; bound {
		return malformed("the token is bound to a key (cnf), which cannot be checked here; get a plain bearer token")
	}
	p.caller = Caller{Issuer: cfg.Issuer, Name: said.name(cfg), Proof: ProofToken}
	if p.caller.Subject, refusal = said.mustText("sub"); refusal != nil {
		return refusal
	}
	if _, ok := said["jti"]; ok {
		if p.caller.TokenID, refusal = said.mustText("jti"); refusal != nil {
			return refusal
		}
	}
	if p.caller.Kind, refusal = said.kind(cfg); refusal != nil {
		return refusal
	}
	if p.caller.Groups, p.hasGroups, refusal = said.groups(cfg); refusal != nil {
		return refusal
	}
	if p.ended, refusal = said.date("exp", true); refusal != nil {
		return refusal
	}
	if p.issued, refusal = said.date("iat", true); refusal != nil {
		return refusal
	}
	if p.begins, refusal = said.date("nbf", false); refusal != nil {
		return refusal
	}
	if !p.issued.Before(p.ended) {
		return malformed("the token ends before it is issued")
	}
	return nil
}

// judgeTimes compares the token's times with now, granting the issuer's clock the skew both ways: accepted while
// now < exp+skew, now >= nbf-skew and now >= iat-skew.
func (p *provenToken) judgeTimes(now time.Time, skew time.Duration) *Refusal {
	if late := now.Sub(p.ended); late >= skew {
		return refuse(ClassExpired, fmt.Sprintf("the token expired %v ago; log in again", late.Round(time.Second)), nil)
	}
	begins := p.begins
	if p.issued.After(begins) {
		begins = p.issued
	}
	if early := begins.Sub(now); early > skew {
		return refuse(ClassNotYetValid, fmt.Sprintf("the token begins in %v; compare the clocks", early.Round(time.Second)), nil)
	}
	return nil
}

// parseHeader reads the protected header. Headers that would bring their own key, or that must be understood, are
// refused rather than ignored.
func parseHeader(part string) (header, *Refusal) {
	raw, err := decodePart(part)
	if err != nil {
		return header{}, malformed("the token's header is not base64url")
	}
	object, err := strictObject(raw)
	if err != nil {
		return header{}, malformed("the token's header: the text " + err.Error())
	}
	for _, name := range []string{"crit", "b64", "zip", "jwk", "jku", "x5u"} {
		if _, ok := object[name]; ok {
			return header{}, malformed("the token's header has a parameter that is not accepted: " + name)
		}
	}
	fields := claims(object)
	typ, ok, refusal := fields.text("typ")
	if refusal != nil {
		return header{}, refusal
	}
	if ok && !slices.Contains([]string{"jwt", "at+jwt", "application/at+jwt"}, strings.ToLower(typ)) {
		return header{}, malformed("the token is of another type than an ID token or access token")
	}
	alg, _, refusal := fields.text("alg")
	if refusal != nil {
		return header{}, refusal
	}
	if !slices.Contains(asymmetricAlgorithms(), alg) {
		return header{}, refuse(ClassAlgorithm, "the token's signature algorithm is not an accepted asymmetric one", nil)
	}
	kid, ok, refusal := fields.text("kid")
	if refusal != nil {
		return header{}, refusal
	}
	if ok {
		if err := checkText(kid); err != nil {
			return header{}, malformed("the token's kid " + err.Error())
		}
	}
	return header{alg: alg, kid: kid}, nil
}

// decodePart decodes one part of a compact token. The strict decoder refuses stray bits; line breaks, which it would
// skip, were refused with every other strange byte before.
func decodePart(part string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(part)
}

// unknownIssuerCause names the issuer in the log when it is a plain URL; anything else could be a secret pasted into the
// wrong place.
func unknownIssuerCause(name string) error {
	u, err := url.Parse(name)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(name) > 200 ||
		(u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("looking up issuer: not a plain URL (%d bytes)", len(name))
	}
	return fmt.Errorf("looking up issuer %q: not configured", name)
}
