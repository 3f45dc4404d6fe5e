package bao

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/vault"
)

type openBaoRotateCACmd struct {
	tokenFlags
	Yes bool `short:"y" help:"Do it without asking."`
}

// Run makes the new authority; not while two are trusted, since people hold certificates of both.
func (r *openBaoRotateCACmd) Run(ctx context.Context, g *cli.Globals) error {
	cfg, client, err := operator(g, r.tokenFlags)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := g.Sure(ctx, r.Yes, fmt.Sprintf("A new authority for people's certificates is made in OpenBao at %s; the present one stays trusted beside it.", cfg.OpenBao.Address)); err != nil {
		return err
	}
	if _, err := vault.EnsureAuthority(ctx, client, true); errors.Is(err, vault.ErrTwoTrusted) {
		return cli.NotYet(err)
	} else if err != nil {
		return err
	}
	return g.Done(map[string]any{"rotated": true},
		"people's certificates are signed by a new authority in two minutes, when every gateway knows it; the one before stays trusted\nonce its last certificate has ended, %s from now: bronzeward openbao drop-ca\n", vault.MostCertificateLife)
}

type openBaoDropCACmd struct {
	tokenFlags
	Yes bool `short:"y" help:"Do it without asking, and even while certificates of it may be good: who holds one must log in again."`
}

// Run drops the authority before the current one. While people may hold certificates of it, that
// takes --yes.
func (d *openBaoDropCACmd) Run(ctx context.Context, g *cli.Globals) error {
	cfg, client, err := operator(g, d.tokenFlags)
	if err != nil {
		return err
	}
	defer client.Close()
	dropped, err := vault.DropPrevious(ctx, client, func(until time.Time) error {
		early := time.Now().Before(until)
		words := "certificates of the authority before the current one may be good until " + until.UTC().Format(time.RFC3339)
		if !early {
			words = "the last certificate of the authority before the current one ended by " + until.UTC().Format(time.RFC3339)
		}
		if early && !d.Yes {
			return cli.NotYet(fmt.Errorf("%s; nothing was changed: wait until then, or give --yes, and who holds one must log in again", words))
		}
		g.Say("%s", words)
		return g.Sure(ctx, d.Yes, fmt.Sprintf("It is not trusted any more in OpenBao at %s.", cfg.OpenBao.Address))
	})
	if err != nil {
		return err
	}
	if !dropped {
		return g.Done(map[string]any{"dropped": false}, "there is no authority before the current one\n")
	}
	return g.Done(map[string]any{"dropped": true}, "the authority before the current one is not trusted any more, within %s\n", cfg.OpenBaoRefresh())
}
