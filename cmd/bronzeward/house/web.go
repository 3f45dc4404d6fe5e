package house

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/notify"
)

// This file builds the HTTP door and the webhook sender.

const (
	// readWithin lets 32 MiB arrive at half a megabyte a second; writeWithin outlasts an
	// apply with its read-back, and the longest wait a client may ask for.
	readWithin  = 90 * time.Second
	writeWithin = 3 * time.Minute
	idleWithin  = 2 * time.Minute
)

// rooms are what the HTTP door stands on.
type rooms struct {
	gw         *gateway.Gateway
	acts       *gateway.Acts
	store      *control.Store
	who        *identity.Authenticator
	keys       *keys
	sequencing *sequencing
	registry   *prometheus.Registry
	log        *slog.Logger
	months     *audit.PartitionKeeper
	stopping   <-chan struct{}
	book       reading
	compared   *comparing // null without OpenBao
	epoch      *ownEpoch
}

// reading is what reads the book: a pool of its own, so that no decision waits for an auditor.
type reading struct {
	*audit.Reader
	pool *pgxpool.Pool
}

func newReading(ctx context.Context, c *config.Config) (reading, error) {
	pool, err := audit.ReadPool(ctx, c.Database.URL, c.Instance)
	if err != nil {
		return reading{}, fmt.Errorf("%w (database.url)", err)
	}
	return reading{Reader: audit.NewReader(pool), pool: pool}, nil
}

// Prove proves that an entry stands in the book.
func (r reading) Prove(ctx context.Context, entry uuid.UUID) (tree.Proof, error) {
	return tree.Prove(ctx, r.pool, entry)
}

// Consistency proves that a tree of the book begins with what it was.
func (r reading) Consistency(ctx context.Context, number int32, older, newer int64) (tlog.TreeProof, error) {
	return tree.Consistency(ctx, r.pool, number, older, newer)
}

// newWeb is the HTTP server, not started.
func newWeb(c *config.Config, r rooms, certificate gateway.CertificateSource) (*http.Server, error) {
	conf, err := gateway.WebTLS(certificate, minTLS(c))
	if err != nil {
		return nil, err
	}
	handler, err := httpapi.New(httpapi.Config{
		Identity: noticing{r.who, r.gw}, Limiter: r.gw, Book: r.acts, Authority: authority{r.store}, Digester: r.keys.digester,
		Proposals: r.acts, Settlements: r.acts, Verdicts: r.acts, Revokes: r.acts, Inventory: r.acts, Closings: r.acts, Observer: r.acts, Accounts: r.acts,
		Certificates: r.acts, Digests: r.acts, DigestKeys: r.acts, Recoveries: r.acts, Laws: r.acts, LawHistory: r.store, Login: c.LoginOffer(),
		Changes: r.store, Machines: r.store, Drifts: r.store, History: r.store, Attempts: r.store, Revocations: r.store, Notices: r.store,
		Decisions: r.book, Order: r.book, Checkpoints: r.book, Prover: r.book,
		Ready: readiness{r.gw, r.who, r.keys.keeper, r.keys.credentials}, Gatherer: r.registry, Logger: r.log, Stopping: r.stopping,
	})
	if err != nil {
		return nil, fmt.Errorf("building the HTTP door: %w", err)
	}
	return &http.Server{
		Handler: handler, TLSConfig: conf, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: readWithin, WriteTimeout: writeWithin, IdleTimeout: idleWithin,
		MaxHeaderBytes: 64 << 10,
	}, nil
}

// noticing notes the groups of everybody who is identified.
type noticing struct {
	who *identity.Authenticator
	gw  *gateway.Gateway
}

// Identify proves the caller.
func (n noticing) Identify(ctx context.Context, r identity.Request) (identity.Caller, error) {
	c, err := n.who.Identify(ctx, r)
	if err == nil {
		n.gw.Saw(c)
	}
	return c, err
}

// authority is what the last snapshot says.
type authority struct{ store *control.Store }

// Revoked is true when the person is.
func (a authority) Revoked(issuer, subject string) bool {
	return a.store.Snapshot().Revoked(issuer, subject)
}

// Epoch is the current one.
func (a authority) Epoch() uuid.UUID { return a.store.Snapshot().Epoch }

func (a authority) Standing() control.Standing { return a.store.Snapshot().Standing }

// Now is the database's clock, sampled.
func (a authority) Now() time.Time { return a.store.Snapshot().Now() }

// newSender tells approvers of waiting changes; null when nobody is to be told.
func newSender(c *config.Config, r rooms) (*notify.Sender, error) {
	if c.Notify.WebhookURL == "" {
		return nil, nil //nolint:nilnil // nobody to tell is no error
	}
	cfg := notify.Config{
		URL: c.Notify.WebhookURL, SecretFile: c.Path(c.Notify.WebhookSecretFile),
		Outbox: r.store, Counter: r.store, Describe: announcer{r.gw, r.store}, Registry: r.registry, Logger: r.log,
	}
	if c.Notify.WebhookCA != "" {
		roots, err := c.ReadCertificates(c.Notify.WebhookCA)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("reading notify.webhook_ca: %w", err))
		}
		cfg.RootCAs = x509.NewCertPool()
		for _, root := range roots {
			cfg.RootCAs.AddCert(root)
		}
	}
	cfg.Now = func() time.Time { return r.store.Snapshot().Now() }
	if err := cfg.CheckSecrets(); err != nil {
		return nil, cli.Usage(fmt.Errorf("reading notify.webhook_secret_file: %w", err))
	}
	return notify.New(cfg)
}

// announcer says what is told of a change, and that one which does not wait is not announced.
type announcer struct {
	gw    *gateway.Gateway
	store *control.Store
}

// Describe gives the announcement of a waiting change.
func (a announcer) Describe(ctx context.Context, id control.ChangeID) (any, error) {
	ch, err := a.store.GetChange(ctx, id)
	if err != nil {
		return nil, err
	}
	if ch.State != control.ChangeWaiting || ch.Expired(a.store.Snapshot().Now()) {
		return nil, notify.ErrNotWaiting
	}
	return a.gw.Describe(ctx, id)
}
