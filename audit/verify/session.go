package verify

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
)

// ErrUnavailable is in the chain of every error that means: the database is away, or went away meanwhile.
var ErrUnavailable = errors.New("the book cannot be read")

// session is several connections that see one snapshot of the database.
type session struct {
	config   *pgx.ConnConfig
	base     *pgx.Conn // exports the snapshot, and answers look-ups
	snapshot string
	conns    []*pgx.Conn
	now      int64 // database clock when the snapshot was taken, in microseconds since 1970
	terms    bool  // the book has audit.terms
}

// settings hold for a transaction. Whole partitions must not be read because of statistics that are missing, a reader must
// not be told that a policy hides no rows, and nothing but the database's own functions is called.
//
// SET comes first, because it is no function: set_config itself, and the operators after it, are looked for along the path
// that the database's owner may have set for every session, and one of the owner's own would set nothing.
const settings = `set local search_path = pg_catalog; set local row_security = off;
select pg_catalog.set_config(name, value, true) from (values
	('timezone', 'UTC'), ('statement_timeout', '0'), ('lock_timeout', '30s'),
	('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'), ('jit', 'off'), ('enable_seqscan', 'off'),
	('enable_sort', 'off'), ('max_parallel_workers_per_gather', '0'), ('bytea_output', 'hex')
) as s(name, value) where name in (select name from pg_catalog.pg_settings)`

// open connects and takes the snapshot.
func open(ctx context.Context, config *pgx.ConnConfig) (*session, error) {
	s := &session{config: config}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.base = conn
	err = func() error {
		if _, err := conn.Exec(ctx, "begin isolation level repeatable read read only"); err != nil {
			return cause(err)
		}
		if _, err := conn.PgConn().Exec(ctx, settings).ReadAll(); err != nil {
			return cause(err)
		}
		if err := conn.QueryRow(ctx, "select pg_export_snapshot()").Scan(&s.snapshot); err != nil {
			return cause(err)
		}
		if !snapshotName.MatchString(s.snapshot) {
			return errors.New("the database gave its snapshot a name that is none")
		}
		var now time.Time
		if err := conn.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
			return cause(err)
		}
		s.now = now.UnixMicro()
		if err := s.checkSchema(ctx); err != nil {
			return err
		}
		return s.checkTables(ctx)
	}()
	if err != nil {
		s.close()
		return nil, fmt.Errorf("beginning: %w", err)
	}
	return s, nil
}

var snapshotName = regexp.MustCompile(`^[0-9A-Fa-f-]+$`)

// connect opens one more connection, outside of the snapshot.
func (s *session) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return nil, fmt.Errorf("%w: connecting: %w", ErrUnavailable, quiet(err))
	}
	s.conns = append(s.conns, conn)
	if _, err := conn.PgConn().Exec(ctx, "set search_path = pg_catalog; set row_security = off").ReadAll(); err != nil {
		return nil, fmt.Errorf("preparing a connection: %w", cause(err))
	}
	return conn, nil
}

// join opens one more connection, in the snapshot.
func (s *session) join(ctx context.Context) (*pgx.Conn, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{"begin isolation level repeatable read read only", "set transaction snapshot '" + s.snapshot + "'", settings} {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return nil, fmt.Errorf("joining the snapshot: %w", cause(err))
		}
	}
	return conn, nil
}

// close ends all connections, and with them their transactions.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, c := range s.conns {
		_ = c.Close(ctx) // nothing was written
	}
}

func (s *session) checkSchema(ctx context.Context) error {
	var have int32
	if err := s.base.QueryRow(ctx, "select version, version >= $1 or to_regclass('audit.terms') is not null from audit.schema_version", termsSchema).Scan(&have, &s.terms); err != nil {
		return fmt.Errorf("reading the schema version: %w", cause(err))
	}
	if have < treeSchema || have > audit.NewestSchema {
		return fmt.Errorf("schema audit is at version %d, this bronzeward verifies %d to %d: %s", have, treeSchema, audit.NewestSchema,
			map[bool]string{true: "run `bronzeward migrate` first", false: "use a newer bronzeward"}[have < treeSchema])
	}
	return nil
}

// checkTables refuses a book whose tables are something else. A view, or a foreign table among the partitions, can show this
// session one thing and every other session another.
func (s *session) checkTables(ctx context.Context) error {
	rows, err := s.base.Query(ctx, `select c.relname::text from pg_class c
		where c.relnamespace = to_regnamespace('audit') and (
			c.relname in ('entries', 'outcomes') and c.relkind <> 'p'
			or c.relname in ('leaves', 'tiles', 'checkpoints', 'trees', 'unsequenced', 'terms') and c.relkind <> 'r')
		union all select c.relname::text from pg_class p, pg_partition_tree(p.oid) t join pg_class c on c.oid = t.relid
		where p.relnamespace = to_regnamespace('audit') and p.relname in ('entries', 'outcomes') and p.relkind = 'p' and c.relkind not in ('r', 'p')
		order by 1`)
	if err != nil {
		return fmt.Errorf("reading which tables there are: %w", cause(err))
	}
	odd, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("reading which tables there are: %w", cause(err))
	}
	if len(odd) > 0 {
		return fmt.Errorf("audit.%q is no table of the book's: a view or a foreign table may show everybody else other rows than this verification", odd[0])
	}
	return nil
}

// treeSchema is the schema version that brought the tree, termsSchema that which brought audit.terms.
const (
	treeSchema  int32 = 3
	termsSchema int32 = 4
)

// cause makes an error of the database fit to be shown: without detail and message, which may quote a row. What a login
// may not do, or a table that is not there, quotes none.
func cause(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errCopy) || errors.Is(err, errStop) || errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, quiet(err))
	}
	row := &audit.RowError{SQLState: pg.Code, Constraint: pg.ConstraintName, Table: pg.TableName}
	switch {
	case pg.Code == "42501" || pg.Code == "42P01" || pg.Code == "3F000":
		return fmt.Errorf("%s (SQLSTATE %s): the login needs the role bronzeward_auditor on the database of the book, its schema at version %d or later", pg.Message, pg.Code, treeSchema)
	case strings.HasPrefix(pg.Code, "57P") || strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "53"):
		return fmt.Errorf("%w: %w", ErrUnavailable, row)
	}
	return row
}

// quiet keeps the kind of a connection's error; its text may hold what the connection string holds.
func quiet(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Errorf("the server refused it: %s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("the connection settings are wrong")
	}
	return err
}
