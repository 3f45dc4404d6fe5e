package law

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/cmd/bronzeward/house"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
)

// requestOf is the credential as the gateway's identity code takes it: of the flags, the
// environment, or the client file.
func requestOf(f ask.CredentialFlags) (identity.Request, error) {
	var r identity.Request
	f, err := f.OrFile()
	if err != nil {
		return r, err
	}
	if (f.Certificate == "") != (f.Key == "") {
		return r, cli.Usage(errors.New("--certificate and --key go together"))
	}
	if f.Certificate != "" {
		// Loading the pair proves possession: the key must be the certificate's.
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return r, cli.Usage(fmt.Errorf("reading your certificate: %w", err))
		}
		state := &tls.ConnectionState{HandshakeComplete: true, Version: tls.VersionTLS13}
		for _, raw := range pair.Certificate {
			cert, err := x509.ParseCertificate(raw)
			if err != nil {
				return r, cli.Usage(fmt.Errorf("reading your certificate: %w", err))
			}
			state.PeerCertificates = append(state.PeerCertificates, cert)
		}
		r.TLS = state
	}
	token := os.Getenv("BRONZEWARD_TOKEN")
	if f.TokenFile != "" {
		raw, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return r, cli.Usage(fmt.Errorf("reading your token: %w", err))
		}
		token = string(raw)
	}
	if token = strings.TrimSpace(token); token != "" {
		r.Authorization = []string{"Bearer " + token}
	}
	if r.TLS == nil && r.Authorization == nil {
		return r, cli.Usage(errors.New("this command is recorded under your name: log in with bronzeward login, or give --certificate and --key (or BRONZEWARD_CERTIFICATE and BRONZEWARD_KEY), --token-file or BRONZEWARD_TOKEN"))
	}
	return r, nil
}

// desk is what a command that acts needs: the rooms, and who is acting.
type desk struct {
	acts  *gateway.Acts
	actor gateway.Actor
	store *control.Store
	close func()
}

// openDesk opens the database, proves the person, holds the database against what OpenBao remembers
// and readies the judge. A database that is older than it was is marked, and every act refused by that.
func openDesk(ctx context.Context, g *cli.Globals, f ask.CredentialFlags) (_ *desk, err error) {
	request, err := requestOf(f)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(g.ConfigFile)
	if err != nil {
		return nil, err
	}
	lawKeys, err := cfg.LawKeys()
	if err != nil {
		return nil, cli.Usage(err)
	}
	log := slog.New(slog.NewTextHandler(g.ErrOut, &slog.HandlerOptions{Level: slog.LevelError}))
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	authorities, memory, closeKeys, err := house.OpenAuthorities(ctx, cfg, quiet)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeKeys()
		}
	}()
	who, err := house.NewAuthenticator(ctx, cfg, authorities, quiet, nil)
	if err != nil {
		return nil, err
	}
	defer who.Close()
	caller, err := who.Identify(ctx, request)
	if err != nil {
		return nil, cli.Denied(fmt.Errorf("your credential was refused: %w", err))
	}
	store, err := house.OpenControl(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	anchor, err := memory.Hold(ctx, store, log)
	if err != nil {
		store.Close()
		return nil, err
	}
	return &desk{
		acts: &gateway.Acts{Store: store, Judge: house.NewEngine(cfg, log), Anchor: anchor, Keys: lawKeys}, actor: gateway.Actor{Caller: caller, Address: "local"},
		store: store, close: func() {
			store.Close()
			closeKeys()
		},
	}, nil
}

// openStore opens the database for commands that only read intent.
func openStore(ctx context.Context, g *cli.Globals) (*control.Store, func(), error) {
	cfg, err := config.Load(g.ConfigFile)
	if err != nil {
		return nil, nil, err
	}
	store, err := house.OpenControl(ctx, cfg, slog.New(slog.NewTextHandler(g.ErrOut, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}
