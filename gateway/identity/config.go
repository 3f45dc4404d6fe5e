package identity

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"time"
)

// Defaults and caps of Config.
const (
	DefaultClockSkew          = 60 * time.Second
	MaxClockSkew              = 5 * time.Minute
	DefaultMaxLifetime        = 15 * time.Minute
	MaxMaxLifetime            = 24 * time.Hour
	DefaultJWKSMaxAge         = 24 * time.Hour
	DefaultJWKSRefresh        = 15 * time.Minute
	DefaultUnknownKidCooldown = 30 * time.Second
	DefaultCacheSize          = 4096
)

// Defaults of IssuerConfig.
const (
	DefaultGroupsClaim = "groups"
	DefaultKindClaim   = "bronzeward_kind"
)

// Config is what New takes. Certificates, token issuers, or both must be configured.
type Config struct {
	// PeopleCAs are the gateway's own authorities for people: none (no certificates accepted), one, or two
	// during a rotation. They may not be among ForbiddenCAs.
	PeopleCAs []*x509.Certificate
	// ForbiddenCAs are authorities whose certificates get a refusal of their own: Talos's CA. May be empty.
	ForbiddenCAs []*x509.Certificate
	// Authorities gives further authorities, for people and forbidden, that may change while the process runs. Nil: none.
	Authorities AuthoritySource
	// Issuers are the token issuers trusted; each issuer URL once. Empty: no tokens accepted.
	Issuers []IssuerConfig
	// ClockSkew is granted to the issuers' clocks on `exp`, `nbf` and `iat`. Zero: 60 s. At most 5 min.
	// Certificates get none: their authority is the gateway's own.
	ClockSkew time.Duration
	// MaxLifetime is the longest `exp`-`iat` accepted. Zero: 15 min. At most 24 h.
	MaxLifetime time.Duration
	// JWKSMaxAge is how long the last good key set of an issuer that cannot be reached is used. Zero: 24 h.
	JWKSMaxAge time.Duration
	// JWKSRefresh is the time between background fetches of a key set. Zero: 15 min. At most JWKSMaxAge.
	JWKSRefresh time.Duration
	// UnknownKidCooldown is the least time between two fetches that calls bring about, per issuer. Zero: 30 s.
	// At least 1 s.
	UnknownKidCooldown time.Duration
	// CacheSize bounds how many verified tokens, and how many verified certificates, are remembered. Zero: 4096.
	CacheSize int
	// DenyList refuses proven people before any row is read.
	DenyList []DenyRule
	// Now is the clock that tokens and certificates are judged by: the gateway gives the database's clock by
	// a sampled offset. Nil: time.Now. Ages of key sets and cool-downs use the process's monotonic clock.
	Now func() time.Time
	// Logger gets one line per key set that changes, and per fetch that starts or stops to err. Nil: silence.
	Logger *slog.Logger
	// HTTPClient fetches discovery documents and key sets of issuers that have no CACert. Nil: a client with
	// the system's roots and the environment's proxy. Redirects are never followed.
	HTTPClient *http.Client
}

// IssuerConfig is one trusted token issuer.
type IssuerConfig struct {
	// Issuer is compared with `iss` byte for byte. Required; https, or http to a loopback address.
	Issuer string
	// Audience holds the audiences meant for this gateway; a token needs one of them. Required.
	Audience []string
	// JWKSURL is where the keys are. Empty: the `jwks_uri` of Issuer's /.well-known/openid-configuration, whose
	// `issuer` must equal Issuer. https, or http to a loopback address.
	JWKSURL string
	// CACert replaces the system's roots for the TLS of this issuer. Empty: the system's.
	CACert []*x509.Certificate
	// GroupsClaim is the top-level claim with the groups, a list of strings or one string. Empty: "groups".
	GroupsClaim string
	// GroupPrefix is put before each group of this issuer's tokens, so that a second issuer cannot speak of the
	// first one's groups. Empty: none.
	GroupPrefix string
	// NameClaim is the claim with the display name. Empty: preferred_username, else email, else name.
	NameClaim string
	// Kind, when automation, makes every Caller of this issuer automation. Empty or human: by the claims.
	Kind Kind
	// KindClaim is the claim that may say "human" or "automation"; any other value is refused. Empty:
	// "bronzeward_kind". A claim can only turn a human into automation, never the other way.
	KindClaim string
	// AutomationWhen lists claims that mark automation by their value, such as idtyp=app. Any match suffices.
	AutomationWhen []ClaimMatch
	// Algorithms are the signature algorithms accepted, all asymmetric. Empty: RS*, PS*, ES* (256, 384, 512), EdDSA.
	Algorithms []string
}

// ClaimMatch is true of a token whose top-level claim is exactly this string.
type ClaimMatch struct{ Claim, Value string }

// DenyRule refuses whoever matches all of its non-empty fields. A rule without any field is invalid.
type DenyRule struct {
	// Issuer and Subject are compared byte for byte with the Caller's. Subject needs Issuer.
	Issuer, Subject string
	// TokenID is a token's `jti`.
	TokenID string
	// SPKI is the hex SHA-256 of a certificate's SubjectPublicKeyInfo, in either case.
	SPKI string
}

// withDefaults returns a copy with every zero value replaced.
func (c Config) withDefaults() Config {
	setDuration(&c.ClockSkew, DefaultClockSkew)
	setDuration(&c.MaxLifetime, DefaultMaxLifetime)
	setDuration(&c.JWKSMaxAge, DefaultJWKSMaxAge)
	setDuration(&c.JWKSRefresh, DefaultJWKSRefresh)
	setDuration(&c.UnknownKidCooldown, DefaultUnknownKidCooldown)
	if c.CacheSize == 0 {
		c.CacheSize = DefaultCacheSize
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	issuers := make([]IssuerConfig, len(c.Issuers))
	for i, issuer := range c.Issuers {
		issuers[i] = issuer.withDefaults()
	}
	c.Issuers = issuers
	return c
}

func (c IssuerConfig) withDefaults() IssuerConfig {
	if c.GroupsClaim == "" {
		c.GroupsClaim = DefaultGroupsClaim
	}
	if c.KindClaim == "" {
		c.KindClaim = DefaultKindClaim
	}
	if c.Kind == "" {
		c.Kind = KindHuman
	}
	if len(c.Algorithms) == 0 {
		c.Algorithms = asymmetricAlgorithms()
	}
	return c
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}
