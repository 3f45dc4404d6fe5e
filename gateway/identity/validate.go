package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// Validate returns every problem of the configuration joined, each naming its setting, or nil. It does no I/O.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if len(c.PeopleCAs) == 0 && len(c.Issuers) == 0 && c.Authorities == nil {
		problem("identity: neither people_cas nor issuers: nobody could call")
	}
	if len(c.PeopleCAs) > mostPeopleCAs {
		problem("identity.people_cas: %d certificates, at most %d (the second for a rotation)", len(c.PeopleCAs), mostPeopleCAs)
	}
	for i, ca := range c.PeopleCAs {
		errs = append(errs, c.checkPeopleCA(i, ca))
	}
	for i, ca := range c.ForbiddenCAs {
		if ca == nil {
			problem("identity.forbidden_cas[%d]: no certificate", i)
		}
	}
	bounded := func(setting string, d, low, high time.Duration) {
		if d < low || d > high {
			problem("%s: %v, must be between %v and %v", setting, d, low, high)
		}
	}
	bounded("identity.clock_skew", c.ClockSkew, 0, MaxClockSkew)
	bounded("identity.max_token_lifetime", c.MaxLifetime, time.Second, MaxMaxLifetime)
	bounded("identity.jwks_max_age", c.JWKSMaxAge, time.Minute, 30*24*time.Hour)
	bounded("identity.jwks_refresh", c.JWKSRefresh, time.Second, c.JWKSMaxAge)
	bounded("identity.unknown_kid_cooldown", c.UnknownKidCooldown, time.Second, c.JWKSMaxAge)
	if c.CacheSize < 0 {
		problem("identity.cache_size: %d, must not be negative", c.CacheSize)
	}

	seen := make(map[string]bool)
	for i, issuer := range c.Issuers {
		errs = append(errs, issuer.validate(fmt.Sprintf("identity.issuers[%d]", i)))
		if seen[issuer.Issuer] {
			problem("identity.issuers[%d].issuer: %q is listed twice", i, issuer.Issuer)
		}
		seen[issuer.Issuer] = true
	}
	for i, rule := range c.DenyList {
		errs = append(errs, rule.validate(fmt.Sprintf("identity.deny_list[%d]", i)))
	}
	return errors.Join(errs...)
}

func (c Config) checkPeopleCA(i int, ca *x509.Certificate) error {
	switch {
	case ca == nil:
		return fmt.Errorf("identity.people_cas[%d]: no certificate", i)
	case !ca.BasicConstraintsValid || !ca.IsCA:
		return fmt.Errorf("identity.people_cas[%d]: not a certificate authority", i)
	}
	for j, forbidden := range c.ForbiddenCAs {
		if forbidden != nil && bytes.Equal(ca.RawSubjectPublicKeyInfo, forbidden.RawSubjectPublicKeyInfo) {
			return fmt.Errorf("identity.people_cas[%d]: has the key of identity.forbidden_cas[%d]", i, j)
		}
	}
	return nil
}

func (c IssuerConfig) validate(at string) error {
	var errs []error
	problem := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s."+format, append([]any{at}, args...)...))
	}
	if err := checkURL(c.Issuer); err != nil {
		problem("issuer: %w", err)
	}
	if c.JWKSURL != "" {
		if err := checkURL(c.JWKSURL); err != nil {
			problem("jwks_url: %w", err)
		}
	}
	if len(c.Audience) == 0 {
		problem("audience: empty: any token of the issuer would do")
	}
	for i, audience := range c.Audience {
		if err := checkText(audience); err != nil {
			problem("audience[%d]: %w", i, err)
		}
	}
	for i, ca := range c.CACert {
		if ca == nil {
			problem("ca_cert[%d]: no certificate", i)
		}
	}
	if c.Kind != KindHuman && c.Kind != KindAutomation {
		problem("kind: %q, must be human or automation", c.Kind)
	}
	for i, match := range c.AutomationWhen {
		if match.Claim == "" || match.Value == "" {
			problem("automation_when[%d]: needs a claim and a value", i)
		}
	}
	if c.GroupPrefix != "" {
		if err := checkText(c.GroupPrefix + "x"); err != nil {
			problem("group_prefix: %w", err)
		}
	}
	for i, algorithm := range c.Algorithms {
		if !slices.Contains(asymmetricAlgorithms(), algorithm) {
			problem("algorithms[%d]: %q, must be one of %v", i, algorithm, asymmetricAlgorithms())
		}
	}
	return errors.Join(errs...)
}

func (r DenyRule) validate(at string) error {
	var errs []error
	if r == (DenyRule{}) {
		errs = append(errs, fmt.Errorf("%s: empty: it would match nobody or everybody", at))
	}
	if r.Subject != "" && r.Issuer == "" {
		errs = append(errs, fmt.Errorf("%s.subject: needs the issuer too", at))
	}
	if r.SPKI != "" {
		if raw, err := hex.DecodeString(r.SPKI); err != nil || len(raw) != 32 {
			errs = append(errs, fmt.Errorf("%s.spki: must be 64 hex digits (SHA-256)", at))
		}
	}
	return errors.Join(errs...)
}

// checkURL accepts https URLs, and http ones to a loopback address, that hold no password, query or fragment.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return errors.New("empty")
	case err != nil:
		return errors.New("not a URL")
	case u.Host == "" || u.Opaque != "":
		return errors.New("must be an absolute URL with a host")
	case u.User != nil || u.Fragment != "":
		return errors.New("must have no user and no fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("must be https (http only to a loopback address)")
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
