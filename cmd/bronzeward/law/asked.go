package law

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// WayFlags say by which way a law is brought: through a gateway, which needs no database login, or into
// the database itself, as the very first one has to.
type WayFlags struct {
	ask.Flags
	Direct bool `help:"Open the database that the configuration file names instead of asking a gateway: for the first law, before any gateway is ready."`
}

// asks tells whether a gateway is asked: one is named, and nobody wants it otherwise.
func (f WayFlags) asks() (bool, error) {
	if f.Direct {
		return false, nil
	}
	file, _, err := ask.ReadFile()
	return f.Server != "" || file.Server != "", err
}

// asked is a gateway that is asked about laws.
type asked struct{ *ask.Client }

// bring has a law tried and kept.
func (a asked) bring(ctx context.Context, b *policy.Bundle) (decision string, err error) {
	body, err := b.Packed()
	if err != nil {
		return "", err
	}
	defer a.Busy("the gateway tries the law")()
	_, said, err := ask.Received[api.PolicyAct](a.SavePolicyWithBody(ctx, nil, "application/gzip", bytes.NewReader(body)))
	return said.Decision, err
}

// live makes a kept law live, or goes back to it. replayed is what a replay came to; null without one.
func (a asked) live(ctx context.Context, name string, replayed *api.PolicyReplay, back bool) (revision, decision string, err error) {
	defer a.Busy("the gateway tries the law, and makes it live")()
	body := api.PolicyToLive{Replay: replayed}
	act := func() (*http.Response, error) { return a.ActivatePolicy(ctx, name, nil, body) }
	if back {
		act = func() (*http.Response, error) { return a.RollBackPolicy(ctx, name, nil, body) }
	}
	done, said, err := ask.Received[api.PolicyAct](act())
	return done.Revision, said.Decision, err
}

// askLive is a law's way through a gateway: tried here, held against the past where a limit is set, and
// then brought, tried there and made live. Without a law it is the kept one of that name.
func (f GateFlags) askLive(ctx context.Context, g *cli.Globals, way WayFlags, name string, b *policy.Bundle, back bool) error {
	since, limited, err := f.span()
	if err != nil {
		return err
	}
	client, err := way.Open(g)
	if err != nil {
		return err
	}
	defer client.Close()
	if b != nil {
		if _, err := try(ctx, g, name, b); err != nil {
			return err
		}
	}
	var replayed *api.PolicyReplay
	if limited {
		if replayed, err = f.askPass(ctx, g, way, since, name, b); err != nil {
			return err
		}
	}
	a := asked{client}
	if b != nil {
		if _, err := a.bring(ctx, b); err != nil {
			return err
		}
		name = b.Revision()
	}
	revision, decision, err := a.live(ctx, name, replayed, back)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "revision %s is live (decision %s)\n", revision, decision)
	return nil
}

// askPass replays the past, which the gateway gives, by a law, which is the kept one of that name without one.
func (f GateFlags) askPass(ctx context.Context, g *cli.Globals, way WayFlags, since book.Range, name string, b *policy.Bundle) (*api.PolicyReplay, error) {
	reader, err := way.Open(g)
	if err != nil {
		return nil, err
	}
	past := book.PastAt(reader)
	defer past.Close()
	if b == nil {
		if b, err = past.Law(ctx, name); err != nil {
			return nil, err
		}
	}
	report, _, err := f.pass(ctx, g, past, since, b)
	if err != nil {
		return nil, err
	}
	return f.claim(since, &report), nil
}
