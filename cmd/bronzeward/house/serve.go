package house

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/gateway"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/httpapi"
	"bronzeward/gateway/notify"
)

// Serve runs the gateway.
type Serve struct {
	Development bool          `help:"Accept development key files and policy.watch_directory."`
	Grace       time.Duration `default:"60s" help:"How long running applies may take to finish when the process is told to stop."`
}

// Version is the program's.
type Version string

// Run serves until ctx ends, then lets running applies reach their outcome.
func (s *Serve) Run(ctx context.Context, g *cli.Globals, version Version) (err error) {
	cfg, err := config.Load(g.ConfigFile)
	if err != nil {
		return err
	}
	if err := s.check(cfg); err != nil {
		return err
	}
	log := newLogger(cfg.Log, g.ErrOut).With(slog.String("instance", cfg.Instance))
	if err := facts.CheckTable(facts.SupportedMinor); err != nil {
		return fmt.Errorf("the method table does not match what Talos %s serves: %w", facts.SupportedMinor, err)
	}
	store, err := OpenControl(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer store.Close()
	months, err := prepareBook(ctx, store.Pool(), log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	observe := gateway.BookMetrics(registry)
	book, err := newBook(store, log, observe)
	if err != nil {
		return err
	}
	defer book.Close()
	now := func() time.Time { return store.Snapshot().Now() }
	gateway.BookState(registry, book.Stats, func() int { return months.Ahead(now()) })
	held, err := openKeys(ctx, cfg, s.Development, registry, log, now)
	if err != nil {
		return err
	}
	defer held.close()
	watch := gateway.NewBookTree(registry, held.signer != nil)
	var compared *comparing
	if held.place != nil {
		compared = &comparing{place: held.place, store: store, log: log}
		held.anchors = watchedAnchors{rememberedAnchors{held.place, store}, watch.Anchored}
		if err := holdAnchor(ctx, compared, held.anchors); err != nil {
			return err
		}
	}
	epoch := &ownEpoch{own: store.Snapshot().Epoch}
	sequencing, err := newSequencing(cfg, store, held, compared, watch, log)
	if err != nil {
		return err
	}
	who, err := NewAuthenticator(ctx, cfg, held.authorities, log, now)
	if err != nil {
		return err
	}
	defer who.Close()
	pool, err := newUpstream(held.credential, log)
	if err != nil {
		return err
	}
	defer pool.Close()
	engine := NewEngine(cfg, log)
	lawKeys, err := cfg.LawKeys()
	if err != nil {
		return err
	}
	certificate := &fileCertificate{certificate: cfg.Path(cfg.TLS.Certificate), key: cfg.Path(cfg.TLS.Key), log: log}
	gw, err := gateway.New(gateway.Config{
		Certificate: certificate,
		MinTLS:      minTLS(cfg), Identity: who, Judge: engine, LawKeys: lawKeys, Store: store, Book: book,
		Upstream: pool, Digester: held.digester, Sealer: held.sealer, Changes: cfg.GatewayChanges(), Drift: cfg.GatewayDrift(), Instance: cfg.Instance, Version: string(version),
		Limits: gateway.Limits{
			CallsPerSecond: cfg.Limits.CallsPerSecond, StreamsPerCaller: cfg.Limits.StreamsPerCaller,
			CallsPerSecondPerAddress: cfg.Limits.CallsPerSecondPerAddress, ConnectionsPerAddress: cfg.Limits.ConnectionsPerAddress,
		},
		ProxySources:      cfg.ProxySources(),
		TransportDeadline: cfg.Apply.TransportDeadline, VerifyDeadline: cfg.Apply.VerifyDeadline,
		Registry: registry, Tree: watch, Logger: log, Warnings: func() []string { return months.Warnings(now()) },
	})
	if err != nil {
		return err
	}
	acts := &gateway.Acts{
		Store: store, Judge: engine, Upstream: pool, Digester: held.digester, Gate: gw, Book: book, Instance: cfg.Instance, Told: httpapi.Decided,
		CertificateLifetime: cfg.Identity.CertificateLifetime, Adopt: epoch.begin, Deny: cfg.DeniedPeople(), Keys: lawKeys,
	}
	if compared != nil {
		acts.Recovery = compared
	}
	if held.issuer != nil {
		acts.Issuer, acts.DigestKeys = held.issuer, held.digestKeys
	}
	reads, err := newReading(ctx, cfg)
	if err != nil {
		return err
	}
	defer reads.pool.Close()
	if held.anchors != nil {
		acts.Anchor = actsAnchor{held.anchors}
	}
	house := rooms{compared: compared, epoch: epoch, book: reads, gw: gw, acts: acts, sequencing: sequencing, store: store, who: who, keys: held, registry: registry, log: log, months: months, stopping: ctx.Done()}
	server, err := newWeb(cfg, house, certificate)
	if err != nil {
		return err
	}
	sender, err := newSender(cfg, house)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening (listen): %w", err)
	}
	web, err := net.Listen("tcp", cfg.HTTPListen)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("listening (http_listen): %w", err)
	}
	log.Info("serving", slog.String("listen", listener.Addr().String()), slog.String("http", web.Addr().String()))
	return s.run(ctx, house, sender, listener, web, server, cfg)
}

// check refuses what only development may have.
func (s *Serve) check(cfg *config.Config) error {
	if cfg.Policy.WatchDirectory != "" && !s.Development {
		return cli.Usage(errors.New("policy.watch_directory is for development: start with --development, or use `bronzeward policy activate`"))
	}
	return nil
}

// run keeps the listeners and the background work going until ctx ends or one of them errs.
func (s *Serve) run(ctx context.Context, r rooms, sender *notify.Sender, listener, web net.Listener, server *http.Server, cfg *config.Config) error {
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.gw.Serve(listener) })
	group.Go(func() error {
		if err := server.ServeTLS(r.gw.Limit(web), "", ""); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	// The sequencer goes on until everything else has stopped, for the last rows; then its
	// connection closes, and with it another replica has the lock.
	for _, work := range []func(context.Context){r.gw.Follow, r.gw.PrepareLaws, r.gw.Report, r.gw.Settle, r.gw.Keep, r.gw.Watch, r.gw.WatchCredentials, r.sequencing.run} {
		group.Go(func() error { work(background); return nil })
	}
	group.Go(func() error { return r.epoch.follow(ctx, r.store, r.log) })
	if r.compared != nil {
		group.Go(func() error { r.compared.run(background); return nil })
	}
	if sender != nil {
		group.Go(func() error { sender.Run(background); return nil })
	}
	if r.keys.keeper != nil {
		group.Go(func() error { r.keys.keeper.Run(background); return nil })
	}
	group.Go(func() error { r.months.Run(background); return nil })
	if cfg.Policy.WatchDirectory != "" {
		group.Go(func() error { return watchPolicy(background, r.acts, cfg.Path(cfg.Policy.WatchDirectory), r.log) })
	}
	group.Go(func() error {
		<-ctx.Done()
		r.log.Info("stopping", slog.Duration("grace", s.Grace))
		// Requests that send something are sessions of the gateway: they are told first.
		r.gw.Stop(s.Grace)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace)
		defer cancel()
		err := server.Shutdown(bounded)
		stopBackground()
		return err
	})
	return group.Wait()
}
