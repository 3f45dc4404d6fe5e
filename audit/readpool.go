package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ReadConns is how many connections a ReadPool has: who reads the book waits for others who read it, and no decision
// waits for any of them.
const ReadConns = 4

// statementWithin ends a statement of a ReadPool. A page takes milliseconds; what takes this long helps nobody any more.
const statementWithin = "8s"

// ReadPool is a pool for a Reader beside the one that decides: few connections, read-only transactions, and an end to
// every statement after eight seconds. It connects when it is first used. The caller closes it.
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
	set["default_transaction_read_only"] = "on"
	set["statement_timeout"] = statementWithin
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("opening the pool that reads the book: %w", cause(err))
	}
	return pool, nil
}
