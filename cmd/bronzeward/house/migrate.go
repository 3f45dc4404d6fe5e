package house

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/gateway/control"
)

// Migrate creates or updates the schema. It runs as another role than `serve`.
type Migrate struct {
	Check bool `help:"Only say whether this binary serves the schema found; exit code 3 if not."`
}

func (m *Migrate) Run(ctx context.Context, g *cli.Globals) error {
	cfg, err := config.Load(g.ConfigFile)
	if err != nil {
		return err
	}
	url, key := cfg.Database.OwnerURL, "database.owner_url"
	if m.Check {
		url, key = cfg.Database.URL, "database.url"
	}
	if url == "" {
		return cli.Usage(fmt.Errorf("%s is not set: `migrate` needs a login that may create schemas and roles", key))
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("%w: opening the database (%s): %w", control.ErrUnavailable, key, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if m.Check {
		if err := control.CheckSchema(ctx, conn); err != nil {
			fmt.Fprintln(g.Out, err)
			if errors.Is(err, control.ErrSchema) {
				return cli.ErrChanged
			}
			return err
		}
		fmt.Fprintln(g.Out, "the schema is one this binary serves")
		return nil
	}
	if err := control.Migrate(ctx, conn, func(name string) { fmt.Fprintln(g.Out, "migrating", name) }); err != nil {
		return err
	}
	fmt.Fprintln(g.Out, "the schema is up to date")
	return nil
}
