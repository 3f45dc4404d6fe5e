package changes

import (
	"context"
	"net/http"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type changesRejectCmd struct {
	clientFlags
	ID     string `arg:"" help:"Change id, chg_…"`
	Reason string `required:"" help:"Why; its requester reads it, and it stays in the record."`
}

func (r *changesRejectCmd) Run(ctx context.Context, g *cli.Globals) error {
	return r.end(g, func(a *apiClient) (*http.Response, error) {
		return a.RejectChange(ctx, r.ID, nil, api.Reason{Reason: r.Reason})
	})
}

type changesCancelCmd struct {
	clientFlags
	ID     string `arg:"" help:"Change id, chg_…"`
	Reason string `default:"no reason was given" help:"Why; it stays in the record."`
}

func (c *changesCancelCmd) Run(ctx context.Context, g *cli.Globals) error {
	return c.end(g, func(a *apiClient) (*http.Response, error) {
		return a.CancelChange(ctx, c.ID, nil, api.Reason{Reason: c.Reason})
	})
}

// end does an act that ends a change, and says so.
func (f clientFlags) end(g *cli.Globals, act func(*apiClient) (*http.Response, error)) error {
	a, err := f.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	c, said, err := ask.Received[api.Change](act(a))
	if err != nil {
		return err
	}
	return g.Done(c, "%s (decision %s)\n", ended(&c), said.Decision)
}
