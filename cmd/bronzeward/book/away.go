package book

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// away marks an error of the database that may be over at the next try as a
// cli.UnavailableError: no connection, a server that shuts down or starts, one without room for
// another connection. What it says about a question stays as it is.
func away(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	code := stateOf(err)
	if code == "" {
		return cli.Unavailable(err)
	}
	for _, class := range []string{"08", "57P", "53"} {
		if strings.HasPrefix(code, class) {
			return cli.Unavailable(err)
		}
	}
	return noBook(err)
}

// stateOf is the SQLSTATE with which the database refused a question; empty when it did not answer.
func stateOf(err error) string {
	var said *pgconn.PgError
	var row *audit.RowError
	switch {
	case errors.As(err, &said):
		return said.Code
	case errors.As(err, &row):
		return row.SQLState
	}
	return ""
}

// noBook puts what is to be done beside an error of a login without rights, or of a database without a book.
func noBook(err error) error {
	switch stateOf(err) {
	case "42501", "42P01", "3F000":
		return fmt.Errorf("%w: the login needs the role bronzeward_auditor, on the database of the book", err)
	}
	return err
}
