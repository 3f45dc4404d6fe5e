package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
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
		if _, err := os.Stat(c.path(path)); err != nil {
			bad(key, "%v", err)
		}
	}
	address := func(key, value string) {
		if _, _, err := net.SplitHostPort(value); err != nil {
			bad(key, "%q is not host:port: %v", value, err)
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
	for key, value := range map[string]string{
		"database.url": c.Database.URL, "database.owner_url": c.Database.OwnerURL, "database.auditor_url": c.Database.AuditorURL,
	} {
		if u, err := url.Parse(value); err == nil && u.User != nil {
			if _, ok := u.User.Password(); ok {
				bad(key, "holds a password; put it into PGPASSFILE or PGPASSWORD")
			}
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
	if len(c.Identity.CertificateAuthorities) == 0 && len(c.Identity.Issuers) == 0 {
		bad("identity", "needs certificate_authorities, issuers or both: otherwise nobody could call")
	}
	file("talos.certificate", c.Talos.Certificate, true)
	file("talos.key", c.Talos.Key, true)
	file("talos.ca", c.Talos.CA, true)
	switch c.Digest.Scheme {
	case "sha256":
		if c.Digest.KeysFile != "" {
			bad("digest.keys_file", "is not used with scheme sha256")
		}
	case "hmac-sha256":
		file("digest.keys_file", c.Digest.KeysFile, true)
	default:
		bad("digest.scheme", "%q is neither hmac-sha256 nor sha256", c.Digest.Scheme)
	}
	if c.Apply.SettleFloor < 30*time.Second {
		bad("apply.settle_floor", "%s is less than 30s; it may only be raised", c.Apply.SettleFloor)
	}
	for key, d := range map[string]time.Duration{
		"apply.transport_deadline": c.Apply.TransportDeadline, "apply.verify_deadline": c.Apply.VerifyDeadline, "policy.budget": c.Policy.Budget,
	} {
		if d < 0 || d > 10*time.Minute {
			bad(key, "%s is not between 0 and 10m", d)
		}
	}
	if !strings.Contains("debug info warn error", c.Log.Level) {
		bad("log.level", "%q is not debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		bad("log.format", "%q is neither text nor json", c.Log.Format)
	}
	return out
}

// Exit codes: what a script may rely on.
const (
	exitOK = 0
	// exitFailed: the command was understood and could not be done.
	exitFailed = 1
	// exitUsage: flags, arguments or the configuration are wrong.
	exitUsage = 2
	// exitChanged: the question was answered and the answer is "not the same" or "problems found".
	exitChanged = 3
	// exitDenied: policy or identity refused.
	exitDenied = 4
	// exitUnavailable: the database or another part is away; try again.
	exitUnavailable = 5
)

// usageError is the caller's to mend.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// deniedError carries a refusal of policy or identity.
type deniedError struct{ error }

func (e deniedError) Unwrap() error { return e.error }

// errChanged ends with exitChanged; its words were printed already.
var errChanged = errors.New("problems found")
