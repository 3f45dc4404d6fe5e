package identity_test

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"bronzeward/gateway/identity"
)

func TestValidateNamesEveryProblemAtOnce(t *testing.T) {
	ca := newAuthority(t, "people", nil)
	leaf := ca.person(t, nil)
	cfg := identity.Config{
		PeopleCAs:    []*x509.Certificate{ca.cert, leaf, nil},
		ForbiddenCAs: []*x509.Certificate{ca.cert, nil},
		Issuers: []identity.IssuerConfig{
			{},
			{Issuer: "http://idp.example", Audience: []string{""}, JWKSURL: "ftp://x", Kind: "robot", Algorithms: []string{"HS256", "none"}, GroupPrefix: " ", CACert: []*x509.Certificate{nil}},
			{Issuer: "https://a:b@idp.example", Audience: []string{"a"}, AutomationWhen: []identity.ClaimMatch{{Claim: "x"}}},
			{Issuer: "https://twice.example", Audience: []string{"a"}},
			{Issuer: "https://twice.example", Audience: []string{"a"}},
		},
		ClockSkew: 6 * time.Minute, MaxLifetime: -1, JWKSMaxAge: time.Second, JWKSRefresh: time.Hour,
		UnknownKidCooldown: time.Millisecond, CacheSize: -1,
		DenyList: []identity.DenyRule{{}, {Subject: "ada"}, {SPKI: "abc"}},
	}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("no problem found")
	}
	for _, want := range []string{
		"identity.people_cas: 3", "people_cas[0]: has the key of identity.forbidden_cas[0]", "people_cas[1]: not a certificate authority",
		"people_cas[2]: no certificate", "forbidden_cas[1]: no certificate",
		"issuers[0].issuer: empty", "issuers[0].audience: empty",
		"issuers[1].issuer: must be https", "issuers[1].audience[0]: is empty", "issuers[1].jwks_url: must be https", "issuers[1].kind",
		`issuers[1].algorithms[0]: "HS256"`, `issuers[1].algorithms[1]: "none"`, "issuers[1].group_prefix", "issuers[1].ca_cert[0]",
		"issuers[2].issuer: must have no user", "issuers[2].automation_when[0]", "issuers[4].issuer: \"https://twice.example\" is listed twice",
		"identity.clock_skew", "identity.max_token_lifetime", "identity.jwks_max_age", "identity.jwks_refresh", "identity.unknown_kid_cooldown",
		"identity.cache_size", "deny_list[0]: empty", "deny_list[1].subject", "deny_list[2].spki",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among the problems", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
	if _, err := identity.New(context.Background(), cfg); err == nil {
		t.Error("New takes a configuration that Validate refuses")
	}
}

func TestValidateTakesGoodConfigurations(t *testing.T) {
	ca, next := newAuthority(t, "people", nil), newAuthority(t, "people 2", nil)
	loopback := func(url string) identity.Config {
		return identity.Config{Issuers: []identity.IssuerConfig{{Issuer: url, Audience: []string{"a"}}}}
	}
	for name, cfg := range map[string]identity.Config{
		"an authority only":      certificateConfig(ca),
		"two authorities":        certificateConfig(ca, next),
		"an issuer only":         tokenConfig(&fakeIDP{}),
		"http to loopback v4":    loopback("http://127.0.0.1:8080"),
		"http to loopback v6":    loopback("http://[::1]:8080/realm"),
		"the caps":               {PeopleCAs: certificateConfig(ca).PeopleCAs, ClockSkew: identity.MaxClockSkew, MaxLifetime: identity.MaxMaxLifetime},
		"a deny list of a token": {PeopleCAs: certificateConfig(ca).PeopleCAs, DenyList: []identity.DenyRule{{TokenID: "x"}}},
	} {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, url := range []string{"http://localhost:8080", "http://10.0.0.1", "http://127.0.0.1.evil.example", "https://", "idp.example", "https:opaque", "https://x/#f"} {
		if loopback(url).Validate() == nil {
			t.Errorf("issuer %q is taken", url)
		}
	}
	if (identity.Config{}).Validate() == nil {
		t.Error("a configuration that lets nobody in is taken")
	}
}
