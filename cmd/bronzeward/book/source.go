package book

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
)

// SourceFlags say where decisions are read: in the book's own database, where a login for it is
// named, else at a gateway.
type SourceFlags struct {
	ReachFlags
	Own bool `group:"server" help:"Only of your own calls, which takes no auditor's role; always at the gateway."`
}

// ReachFlags say whether the book is reached in its database or through a gateway.
type ReachFlags struct {
	DatabaseFlags
	ask.Flags
	Gateway bool `group:"server" xor:"way" help:"Ask the gateway, even where a database login is named."`
	Direct  bool `group:"database" xor:"way" help:"Read the book in its database, and ask no gateway where no login of it is named."`
}

// client is the gateway that is named.
func (f ReachFlags) client(g *cli.Globals) (*ask.Client, error) {
	client, err := f.Open(g)
	if err != nil && f.Gateway {
		return nil, cli.Usage(err)
	}
	if err != nil {
		return nil, cli.Usage(errors.Join(err, errors.New("or read the book without a gateway: give --database-url-file FILE, set BRONZEWARD_AUDITOR_URL, or write database.auditor_url into the gateway's configuration")))
	}
	return client, nil
}

// reach gives the database that is named, as OpenBook finds it, or else the gateway; the other is null. close ends it.
func (f ReachFlags) reach(ctx context.Context, g *cli.Globals, from Settings) (pool *pgxpool.Pool, client *ask.Client, closing func(), err error) {
	if !f.Gateway {
		pool, err := f.OpenBook(ctx, from)
		if err == nil {
			return pool, nil, pool.Close, nil
		}
		if f.Direct || !errors.Is(err, errNoLogin) {
			return nil, nil, nil, err
		}
	}
	if client, err = f.client(g); err != nil {
		return nil, nil, nil, err
	}
	return nil, client, client.Close, nil
}

// question is which decisions are wanted, and which page of them.
type question struct {
	audit.Filter
	limit  int
	oldest bool
	after  string // where a page before ended
}

// source is where decisions are read.
type source interface {
	// list gives a page, and the cursor behind it, empty when there are no more.
	list(ctx context.Context, q question) (page []decision, next string, err error)
	// show gives one decision whole.
	show(ctx context.Context, id uuid.UUID) (*whole, error)
	// follow looks through at most limit rows behind a decision, or where a page before ended, in
	// the order of the tree; with an empty after, behind all but the newest rows. next is where to
	// go on, more whether that can be done at once.
	follow(ctx context.Context, f audit.Filter, after string, limit int) (page []decision, next string, more bool, err error)
}

// open gives the source that is named, and what closes it.
func (f SourceFlags) open(ctx context.Context, g *cli.Globals, from Settings) (source, func(), error) {
	if !f.Gateway && !f.Own {
		url, named, err := f.login(from)
		if err != nil {
			return nil, nil, err
		}
		if url != "" {
			pool, err := openPool(ctx, url, named)
			if err != nil {
				return nil, nil, err
			}
			return &database{reader: audit.NewReader(pool), tree: treeReader{pool}}, pool.Close, nil
		}
		if f.Direct {
			return nil, nil, cli.Usage(errNoLogin)
		}
	}
	f.Gateway = f.Gateway || f.Own
	client, err := f.client(g)
	if err != nil {
		return nil, nil, err
	}
	return &gateway{Client: client, own: f.Own}, client.Close, nil
}

// checkCursor refuses a cursor of nobody's before the database is asked. A gateway reads its own.
func (f SourceFlags) checkCursor(from Settings, after string) error {
	if f.Gateway || f.Own || after == "" {
		return nil
	}
	if url, _, err := f.login(from); err != nil || url == "" {
		return err
	}
	_, err := cursorOf(after)
	return err
}

func cursorOf(after string) (audit.Cursor, error) {
	c, err := audit.ParseCursor(after)
	if err != nil {
		err = cli.Usage(fmt.Errorf("--after %q is no cursor that a page before printed", after))
	}
	return c, err
}
