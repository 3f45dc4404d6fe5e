package book

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/cmd/bronzeward/cli"
)

// Settings is what these commands need of the gateway's configuration file.
type Settings interface {
	// AuditorURL is database.auditor_url; empty when there is no configuration file, or none in
	// it. An error says what is wrong with the file.
	AuditorURL() (string, error)
}

// DatabaseFlags say how the book is reached in its own database. There is no flag for the
// connection string itself: whoever lists the processes of a computer reads their arguments.
type DatabaseFlags struct {
	DatabaseURLFile string `name:"database-url-file" group:"database" env:"BRONZEWARD_AUDITOR_URL_FILE" placeholder:"FILE" help:"File with a PostgreSQL connection string of a login in the role bronzeward_auditor; BRONZEWARD_AUDITOR_URL holds the string itself, and database.auditor_url of the configuration is read last."`
}

// auditorURL is where a database login may be named beside the flag and the file.
const auditorURL = "BRONZEWARD_AUDITOR_URL"

// login is the connection string and where it was named; both are empty when there is none.
func (f DatabaseFlags) login(from Settings) (url, source string, err error) {
	if f.DatabaseURLFile != "" {
		raw, err := os.ReadFile(f.DatabaseURLFile)
		if err != nil {
			return "", "", cli.Usage(fmt.Errorf("reading the database login (--database-url-file): %w", err))
		}
		if url = strings.TrimSpace(string(raw)); url == "" || strings.ContainsAny(url, "\r\n") {
			return "", "", cli.Usage(fmt.Errorf("reading the database login (--database-url-file): %s does not hold one connection string and nothing else", f.DatabaseURLFile))
		}
		return url, "--database-url-file", nil
	}
	if url = strings.TrimSpace(os.Getenv(auditorURL)); url != "" {
		return url, auditorURL, nil
	}
	url, err = from.AuditorURL()
	if err != nil || url == "" {
		return "", "", err
	}
	return url, "database.auditor_url", nil
}

// errNoLogin says how a database login is named.
var errNoLogin = errors.New("no database login is named: this reads the book in its database, with the read-only role bronzeward_auditor; give --database-url-file FILE, set BRONZEWARD_AUDITOR_URL, write database.auditor_url into the configuration file, or set PGHOST, PGDATABASE and so on as for psql")

// OpenBook opens the book's database with the login that is named, the flag before the
// environment before the configuration before the PG* environment, and proves that it answers. Its sessions are read-only.
// The caller closes the pool. A login that is missing or malformed is a cli.UsageError, a
// database that is away a cli.UnavailableError; neither repeats the login.
func (f DatabaseFlags) OpenBook(ctx context.Context, from Settings) (*pgxpool.Pool, error) {
	url, source, err := f.login(from)
	if err != nil {
		return nil, err
	}
	if url == "" && slices.ContainsFunc([]string{"PGHOST", "PGSERVICE", "PGDATABASE"}, func(name string) bool { return os.Getenv(name) != "" }) {
		// All else is read from where libpq reads it: PGUSER, PGPASSFILE, PGSSLROOTCERT and so on.
		url, source = "application_name=bronzeward", "the PG* environment"
	}
	if url == "" {
		return nil, cli.Usage(errNoLogin)
	}
	return openPool(ctx, url, source)
}

func openPool(ctx context.Context, url, source string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	var file *fs.PathError
	if errors.As(err, &file) { // sslrootcert, sslcert and so on
		return nil, cli.Usage(fmt.Errorf("%s names a file that cannot be read: %w", source, file))
	}
	if err != nil { // the library's words may hold the password
		return nil, cli.Usage(fmt.Errorf("%s is not a PostgreSQL connection string, postgres://LOGIN@HOST/DATABASE or key=value words", source))
	}
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	cfg.ConnConfig.RuntimeParams["application_name"] = "bronzeward decisions"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the book (%s): %w", source, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		err = fmt.Errorf("opening the book (%s): %w", source, err)
		if code := stateOf(err); strings.HasPrefix(code, "28") || code == "3D000" {
			return nil, cli.Usage(err) // another try gives the same answer: no such login, another password, no such database
		}
		return nil, cli.Unavailable(err)
	}
	return pool, nil
}
