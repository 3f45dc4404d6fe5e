package book

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/cmd/bronzeward/cli"
)

// away marks an error of the database that may be over at the next try as a
// cli.UnavailableError: no connection, a server that shuts down or starts, one without room for
// another connection. What it says about a question stays as it is.
func away(err error) error {
	var said *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &said):
		for _, class := range []string{"08", "57P", "53"} {
			if strings.HasPrefix(said.Code, class) {
				return cli.Unavailable(err)
			}
		}
		return err
	}
	return cli.Unavailable(err)
}
