package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"bronzeward/audit"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/upstream"
	"bronzeward/gateway/vault"
	"bronzeward/policy"
)

// This file builds the rooms from the configuration; nothing else does.

func newLogger(c LogConfig, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // checked with the configuration
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func (c *Config) readCertificates(path string) ([]*x509.Certificate, error) {
	raw, err := os.ReadFile(c.path(path))
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s holds a %s; only certificates belong there", path, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return out, nil
}

func (c *Config) readAllCertificates(paths []string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	var problems []error
	for _, p := range paths {
		certs, err := c.readCertificates(p)
		problems = append(problems, err)
		out = append(out, certs...)
	}
	return out, errors.Join(problems...)
}

// newAuthenticator proves people by the configuration. now is the clock that token and
// certificate times are held against.
func (c *Config) newAuthenticator(ctx context.Context, log *slog.Logger, now func() time.Time) (*identity.Authenticator, error) {
	people, err := c.readAllCertificates(c.Identity.CertificateAuthorities)
	if err != nil {
		return nil, usageError{fmt.Errorf("reading identity.certificate_authorities: %w", err)}
	}
	forbidden, err := c.readAllCertificates(append([]string{c.Talos.CA}, c.Identity.ForbiddenAuthorities...))
	if err != nil {
		return nil, usageError{fmt.Errorf("reading identity.forbidden_authorities: %w", err)}
	}
	cfg := identity.Config{
		PeopleCAs: people, ForbiddenCAs: forbidden, ClockSkew: c.Identity.ClockSkew,
		MaxLifetime: c.Identity.MaxTokenLifetime, Now: now, Logger: log,
	}
	for _, i := range c.Identity.Issuers {
		issuer := identity.IssuerConfig{
			Issuer: i.Issuer, Audience: i.Audience, JWKSURL: i.JWKSURL,
			GroupsClaim: i.GroupsClaim, NameClaim: i.NameClaim, Kind: identity.Kind(i.Kind),
		}
		if i.CA != "" {
			if issuer.CACert, err = c.readCertificates(i.CA); err != nil {
				return nil, usageError{fmt.Errorf("reading the CA of issuer %s: %w", i.Issuer, err)}
			}
		}
		cfg.Issuers = append(cfg.Issuers, issuer)
	}
	for _, d := range c.Identity.Deny {
		cfg.DenyList = append(cfg.DenyList, identity.DenyRule{Issuer: d.Issuer, Subject: d.Subject, TokenID: d.TokenID, SPKI: d.SPKI})
	}
	return identity.New(ctx, cfg)
}

// newDigester makes configuration digests by the configured scheme.
func (c *Config) newDigester(development bool, log *slog.Logger) (facts.Digester, error) {
	if c.Digest.Scheme == facts.SchemePlain {
		log.Warn("configuration digests are plain SHA-256: whoever can read the database can test guesses of a configuration (digest.scheme)")
		return facts.NewPlain(nil)
	}
	if !development {
		return nil, usageError{errors.New("digest.keys_file is for development: start with --development, or set digest.scheme to sha256")}
	}
	return facts.LoadDevelopmentKeys(c.path(c.Digest.KeysFile))
}

// newSealer keeps the exact bytes of changes. Without keys nothing can be sealed, and so
// nothing be captured.
func (c *Config) newSealer(development bool) (gateway.Sealer, error) {
	if c.Seal.KeysFile == "" {
		return noSealer{}, nil
	}
	if !development {
		return nil, usageError{errors.New("seal.keys_file is for development: start with --development, or leave it out (no change can be captured then)")}
	}
	return vault.LoadDevelopment(c.path(c.Seal.KeysFile))
}

// noSealer stands where nothing can be sealed.
type noSealer struct{}

var errNoSealer = errors.New("no sealing keys are configured (seal.keys_file)")

func (noSealer) Seal(context.Context, []byte, []byte) ([]byte, error) { return nil, errNoSealer }
func (noSealer) Open(context.Context, []byte, []byte) ([]byte, error) { return nil, errNoSealer }

func (c *Config) newUpstream(log *slog.Logger) (*upstream.Pool, error) {
	return upstream.NewPool(upstream.Config{
		Credential: &upstream.FileCredential{
			Cert: c.path(c.Talos.Certificate), Key: c.path(c.Talos.Key), CA: c.path(c.Talos.CA), Logger: log,
		},
		Logger: log,
	})
}

func (c *Config) openStore(ctx context.Context, log *slog.Logger) (*control.Store, error) {
	store, err := control.Open(ctx, control.Config{
		URL: c.Database.URL, Instance: c.Instance, Logger: log,
		MaxConns: int32(c.Database.MaxConnections), SettleFloor: c.Apply.SettleFloor,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the database (database.url): %w", err)
	}
	return store, nil
}

func newBook(store *control.Store, log *slog.Logger, observe func(int, time.Duration)) (*audit.Book, error) {
	return audit.NewBook(audit.BookConfig{Pool: store.Pool(), Guard: store.Guard, Logger: log, Observe: observe})
}

func (c *Config) newEngine(log *slog.Logger) *policy.Engine {
	return policy.New(policy.EngineConfig{Budget: c.Policy.Budget, Logger: log})
}

// minTLS is the listener's least TLS version.
func (c *Config) minTLS() uint16 {
	if c.TLS.MinVersion == "1.2" {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}

// buildVersion is what `version` prints about this binary.
func buildVersion() string { return strings.TrimSpace(version) }

// version is set by the build.
var version = "development"
