package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/gateway/identity"
)

// problems are everything wrong with the configuration that can be seen without
// connecting anywhere. Each names its key.
func (c *Config) problems() []error {
	var out []error
	bad := func(key, format string, args ...any) {
		out = append(out, fmt.Errorf(key+": "+format, args...))
	}
	file := func(key, path string, required bool) {
		if path == "" {
			if required {
				bad(key, "is required")
			}
			return
		}
		if _, err := os.Stat(c.Path(path)); err != nil {
			bad(key, "%v", err)
		}
	}
	address := func(key, value string) {
		_, port, err := net.SplitHostPort(value)
		if err != nil {
			bad(key, "%q is not host:port: %v", value, err)
			return
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			bad(key, "%q is not a port between 0 and 65535", port)
		}
	}

	if c.Instance == "" {
		bad("instance", "is required: this host has no name")
	}
	address("listen", c.Listen)
	address("http_listen", c.HTTPListen)
	file("tls.certificate", c.TLS.Certificate, true)
	file("tls.key", c.TLS.Key, true)
	if c.TLS.MinVersion != "1.2" && c.TLS.MinVersion != "1.3" {
		bad("tls.min_version", "%q is neither 1.2 nor 1.3", c.TLS.MinVersion)
	}
	c.proxyProblems(bad)
	c.bookProblems(bad)
	for _, d := range []struct{ key, value string }{
		{"database.url", c.Database.URL}, {"database.owner_url", c.Database.OwnerURL}, {"database.auditor_url", c.Database.AuditorURL},
	} {
		// Neither message quotes the value: it may hold what must not be shown.
		switch holds, err := holdsPassword(d.value); {
		case holds:
			bad(d.key, "holds a password; put it into PGPASSFILE or PGPASSWORD")
		case err != nil:
			bad(d.key, "is not a PostgreSQL connection string, postgres://LOGIN@HOST/DATABASE or key=value words")
		}
	}
	if c.Database.URL == "" {
		bad("database.url", "is required")
	}
	if c.Database.MaxConnections < 4 || c.Database.MaxConnections > 1000 {
		bad("database.max_connections", "%d is not between 4 and 1000", c.Database.MaxConnections)
	}
	for i, p := range c.Identity.CertificateAuthorities {
		file(fmt.Sprintf("identity.certificate_authorities[%d]", i), p, true)
	}
	for i, p := range c.Identity.ForbiddenAuthorities {
		file(fmt.Sprintf("identity.forbidden_authorities[%d]", i), p, true)
	}
	for i, issuer := range c.Identity.Issuers {
		key := fmt.Sprintf("identity.issuers[%d]", i)
		if issuer.Issuer == "" {
			bad(key+".issuer", "is required")
		}
		if len(issuer.Audience) == 0 {
			bad(key+".audience", "is required: a token for somebody else must not open this door")
		}
		if issuer.Kind != "" && issuer.Kind != "human" && issuer.Kind != "automation" {
			bad(key+".kind", "%q is neither human nor automation", issuer.Kind)
		}
		file(key+".ca", issuer.CA, false)
	}
	for i, d := range c.Identity.Deny {
		key := fmt.Sprintf("identity.deny[%d]", i)
		if d == (DenyConfig{}) {
			bad(key, "is empty: name a subject with its issuer, a token_id or an spki")
		}
		if d.Subject != "" && d.Issuer == "" {
			bad(key+".subject", "needs the issuer too")
		}
		if raw, err := hex.DecodeString(d.SPKI); err != nil || d.SPKI != "" && len(raw) != sha256.Size {
			bad(key+".spki", "is not 64 hex digits, the SHA-256 of a public key")
		}
	}
	if len(c.Identity.CertificateAuthorities) == 0 && len(c.Identity.Issuers) == 0 {
		bad("identity", "needs certificate_authorities, issuers or both: otherwise nobody could call")
	}
	c.openBaoProblems(bad, file)
	switch c.Digest.Scheme {
	case "sha256":
		if c.Digest.KeysFile != "" {
			bad("digest.keys_file", "is not used with scheme sha256")
		}
	case "hmac-sha256":
		file("digest.keys_file", c.Digest.KeysFile, !c.OpenBao.Configured() && c.Talos != (TalosConfig{}))
	default:
		bad("digest.scheme", "%q is neither hmac-sha256 nor sha256", c.Digest.Scheme)
	}
	if _, err := c.LawKeys(); err != nil {
		out = append(out, err)
	}
	c.changeProblems(bad, file)
	c.loginProblems(bad)
	if c.Apply.SettleFloor < 30*time.Second {
		bad("apply.settle_floor", "%s is less than 30s; it may only be raised", c.Apply.SettleFloor)
	}
	for _, d := range []struct {
		key   string
		value time.Duration
		most  time.Duration
	}{
		{"identity.clock_skew", c.Identity.ClockSkew, identity.MaxClockSkew},
		{"identity.max_token_lifetime", c.Identity.MaxTokenLifetime, identity.MaxMaxLifetime},
		{"apply.transport_deadline", c.Apply.TransportDeadline, 10 * time.Minute},
		{"apply.verify_deadline", c.Apply.VerifyDeadline, 10 * time.Minute},
		{"policy.budget", c.Policy.Budget, 10 * time.Minute},
	} {
		if d.value < 0 || d.value > d.most {
			bad(d.key, "%s is not between 0s and %s", d.value, d.most)
		}
	}
	for _, l := range []struct {
		key   string
		value float64
	}{
		{"limits.calls_per_second", c.Limits.CallsPerSecond},
		{"limits.streams_per_caller", float64(c.Limits.StreamsPerCaller)},
		{"limits.connections_per_address", float64(c.Limits.ConnectionsPerAddress)},
		{"limits.calls_per_second_per_address", c.Limits.CallsPerSecondPerAddress},
	} {
		if !(l.value >= 0 && l.value <= 1e6) { // not a number is none of both
			bad(l.key, "%v is not between 0 and 1000000; 0 takes the default", l.value)
		}
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		bad("log.level", "%q is not debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		bad("log.format", "%q is neither text nor json", c.Log.Format)
	}
	return out
}

// passwordWord is a password in a connection string of key=value words.
var passwordWord = regexp.MustCompile(`(?i)(^|[\s'])password\s*=`)

// holdsPassword says whether a connection string has a password in it, in any of the
// places PostgreSQL takes one from; an error means that it cannot be read at all.
func holdsPassword(dsn string) (bool, error) {
	if dsn == "" {
		return false, nil
	}
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		u, err := url.Parse(dsn)
		if err != nil {
			return false, errors.New("not a URL")
		}
		_, given := u.User.Password()
		return given || u.Query().Has("password"), nil
	}
	if passwordWord.MatchString(dsn) {
		return true, nil
	}
	_, err := pgx.ParseConfig(dsn)
	return false, err
}
