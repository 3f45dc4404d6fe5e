package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ReadConns is how many connections a ReadPool has: who reads the book waits for others who read it, and no decision
// waits for any of them.
const ReadConns = 6

// reads is what a connection of a ReadPool is told. A page takes milliseconds, so that a statement which takes seconds
// helps nobody any more. Pages cost next to nothing beside rows: else the planner, which thinks that what is frequent is
// spread evenly, walks the primary key for it instead of its own index, through a whole month where it is wrong.
// A plan is made once for each connection and statement: making it takes longer than the page, and longer with every month.
const reads = `set default_transaction_read_only = on; set statement_timeout = '8s';
	set random_page_cost = 0.01; set seq_page_cost = 0.01; set enable_seqscan = off;
	set plan_cache_mode = force_generic_plan`

// ReadPool is a pool for a Reader: few connections, read-only transactions, an end to every statement after eight seconds,
// and a planner that leads through the indexes that pages are made for. The gateway has it beside the pool that decides. It
// connects when it is first used. The caller closes it.
func ReadPool(ctx context.Context, url, instance string) (*pgxpool.Pool, error) {
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The parser's own error quotes the string it was given.
		return nil, errors.New("reading the database URL: it is not a PostgreSQL connection string")
	}
	conf.MaxConns = ReadConns
	if conf.ConnConfig.ConnectTimeout == 0 {
		conf.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	set := conf.ConnConfig.RuntimeParams
	if set["application_name"] == "" {
		set["application_name"] = cut("bronzeward reading "+escape(instance), 63)
	}
	conf.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.PgConn().Exec(ctx, reads).ReadAll(); err != nil {
			return fmt.Errorf("preparing a connection that reads the book: %w", cause(err))
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("opening the pool that reads the book: %w", cause(err))
	}
	return pool, nil
}
