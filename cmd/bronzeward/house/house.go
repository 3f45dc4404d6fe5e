// Package house builds the rooms of a gateway from its configuration, and runs them: serve, and the
// schema of its database.
package house

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// This file builds the rooms from the configuration; nothing else does.

func newLogger(c config.LogConfig, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // checked with the configuration
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// NewAuthenticator proves people by the configuration, and by authorities that may change; null
// where there are none. now is the clock that token and certificate times are held against.
func NewAuthenticator(ctx context.Context, c *config.Config, authorities identity.AuthoritySource, log *slog.Logger, now func() time.Time) (*identity.Authenticator, error) {
	people, err := c.ReadAllCertificates(c.Identity.CertificateAuthorities)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading identity.certificate_authorities: %w", err))
	}
	others := c.Identity.ForbiddenAuthorities
	if c.Talos.CA != "" {
		others = append([]string{c.Talos.CA}, others...)
	}
	forbidden, err := c.ReadAllCertificates(others)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading identity.forbidden_authorities: %w", err))
	}
	cfg := identity.Config{
		PeopleCAs: people, ForbiddenCAs: forbidden, ClockSkew: c.Identity.ClockSkew,
		MaxLifetime: c.Identity.MaxTokenLifetime, Authorities: authorities, Now: now, Logger: log,
	}
	for _, i := range c.Identity.Issuers {
		issuer := identity.IssuerConfig{
			Issuer: i.Issuer, Audience: i.Audience, JWKSURL: i.JWKSURL,
			GroupsClaim: i.GroupsClaim, NameClaim: i.NameClaim, Kind: identity.Kind(i.Kind),
		}
		if i.CA != "" {
			if issuer.CACert, err = c.ReadCertificates(i.CA); err != nil {
				return nil, cli.Usage(fmt.Errorf("reading the CA of issuer %s: %w", i.Issuer, err))
			}
		}
		cfg.Issuers = append(cfg.Issuers, issuer)
	}
	for _, d := range c.Identity.Deny {
		cfg.DenyList = append(cfg.DenyList, identity.DenyRule{Issuer: d.Issuer, Subject: d.Subject, TokenID: d.TokenID, SPKI: d.SPKI})
	}
	return identity.New(ctx, cfg)
}

func newUpstream(credential upstream.CredentialSource, log *slog.Logger) (*upstream.Pool, error) {
	return upstream.NewPool(upstream.Config{Credential: credential, Logger: log})
}

// OpenControl opens the database as the gateway does (database.url).
func OpenControl(ctx context.Context, c *config.Config, log *slog.Logger) (*control.Store, error) {
	store, err := control.Open(ctx, control.Config{
		URL: c.Database.URL, Instance: c.Instance, Logger: log,
		MaxConns: int32(c.Database.MaxConnections), SettleFloor: c.Apply.SettleFloor,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the database (database.url): %w", err)
	}
	return store, nil
}

// prepareBook errs where nothing could be recorded this month, or the book could be rewritten.
func prepareBook(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) (*audit.PartitionKeeper, error) {
	months := audit.NewPartitionKeeper(pool, log)
	if err := months.Prepare(ctx); err != nil {
		return nil, fmt.Errorf("preparing the book: %w", err)
	}
	if err := audit.CheckGuards(ctx, pool); err != nil {
		return nil, fmt.Errorf("checking the book: %w", err)
	}
	return months, nil
}

func newBook(store *control.Store, log *slog.Logger, observe func(int, time.Duration)) (*audit.Book, error) {
	return audit.NewBook(audit.BookConfig{Pool: store.Pool(), Guard: store.Guard, Logger: log, Observe: observe})
}

// NewEngine readies the judge.
func NewEngine(c *config.Config, log *slog.Logger) *policy.Engine {
	return policy.New(policy.EngineConfig{Budget: c.Policy.Budget, Logger: log})
}

// minTLS is the listener's least TLS version.
func minTLS(c *config.Config) uint16 {
	if c.TLS.MinVersion == "1.2" {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}
