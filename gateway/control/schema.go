package control

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"

	"bronzeward/audit"
)

//go:embed migrations/*.sql
var embedded embed.FS

//go:embed bootstrap.sql
var bootstrap string

const (
	// OldestSchema and NewestSchema are the versions of schema control this binary serves.
	// Changes expand first and contract later, so that the range may grow beyond one.
	OldestSchema int32 = 14
	NewestSchema int32 = 14

	versionTable = "control.schema_version"
)

// Migrations are the forward-only migrations of schema control.
func Migrations() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return sub
}

// Migrate brings the schemas audit and control to what this binary knows. It runs as another
// role than the gateway's: a superuser, or a member of bronzeward_owner that may create
// schemas (and roles, where the three groups do not exist yet). Two at once take turns, so
// that each migration runs exactly once. Each migration and its checksum is one transaction:
// after a crash, running it again goes on. A wait for a lock ends after a minute, or after the
// connection's lock_timeout where it has one, because any login may hold locks that are needed.
// progress is told each migration's name; may be nil.
func Migrate(ctx context.Context, conn *pgx.Conn, progress func(name string)) error {
	return migrateTo(ctx, conn, Migrations(), progress)
}

func migrateTo(ctx context.Context, conn *pgx.Conn, files fs.FS, progress func(name string)) (err error) {
	if progress == nil {
		progress = func(string) {}
	}
	within, leave, err := takeTurn(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(waited(ctx, conn, within, err), leave()) }()
	progress("audit")
	if err := audit.Migrate(ctx, conn); err != nil {
		return err
	}
	if err := boundWaits(ctx, conn, within); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, bootstrap); err != nil {
		return fmt.Errorf("preparing schema control: %w", err)
	}
	if _, err := conn.Exec(ctx, "set role bronzeward_owner"); err != nil {
		return fmt.Errorf("becoming bronzeward_owner: %w", err)
	}
	defer func() {
		_, e := conn.Exec(context.WithoutCancel(ctx), "reset role")
		err = errors.Join(err, e)
	}()
	return migrateControl(ctx, conn, files, within, progress)
}

func migrateControl(ctx context.Context, conn *pgx.Conn, files fs.FS, within string, progress func(name string)) error {
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return fmt.Errorf("preparing the migrations of schema control: %w", err)
	}
	if _, err := conn.Exec(ctx, sqlSchemaSumsTable); err != nil {
		return fmt.Errorf("preparing the checksums of schema control: %w", err)
	}
	if err := m.LoadMigrations(files); err != nil {
		return fmt.Errorf("reading the migrations of schema control: %w", err)
	}
	known, err := sums(files)
	if err != nil {
		return err
	}
	at, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading the version of schema control: %w", err)
	}
	if int(at) > len(known) {
		return fmt.Errorf("%w: control is at version %d, this binary knows %d; run the newer binary's migrate", ErrSchema, at, len(known))
	}
	if err := compareSums(ctx, conn, known, at); err != nil {
		return err
	}
	for i, mig := range m.Migrations {
		// The bound and the checksum are part of the migration's own transaction.
		mig.UpSQL = fmt.Sprintf("set local lock_timeout = '%s';\n", within) + mig.UpSQL + fmt.Sprintf("\n;\ninsert into control.schema_checksums (version, name, sha256) values (%d, '%s', '%s');\n",
			i+1, known[i].name, known[i].sha256)
	}
	m.OnStart = func(_ int32, name, _, _ string) { progress("control/" + name) }
	if err := m.Migrate(ctx); err != nil {
		return fmt.Errorf("migrating schema control: %w", err)
	}
	return nil
}

// sum is one known migration; the version is its place in the list, from one.
type sum struct{ name, sha256 string }

func sums(files fs.FS) ([]sum, error) {
	names, err := migrate.FindMigrations(files)
	if err != nil {
		return nil, fmt.Errorf("finding migrations: %w", err)
	}
	out := make([]sum, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", name, err)
		}
		h := sha256.Sum256(text)
		out = append(out, sum{name: name, sha256: hex.EncodeToString(h[:])})
	}
	return out, nil
}

// querier is a pool or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// compareSums joins every migration up to at that is not the one this binary knows.
func compareSums(ctx context.Context, db querier, known []sum, at int32) error {
	rows, err := db.Query(ctx, sqlSchemaSums)
	if err != nil {
		return fmt.Errorf("reading the checksums of schema control: %w", err)
	}
	recorded := map[int32]string{}
	var (
		version int32
		hash    string
	)
	if _, err := pgx.ForEachRow(rows, []any{&version, &hash}, func() error {
		recorded[version] = hash
		return nil
	}); err != nil {
		return fmt.Errorf("reading the checksums of schema control: %w", err)
	}
	var problems []error
	for i, k := range known {
		v := int32(i + 1) //nolint:gosec // a handful
		if v > at {
			break
		}
		if recorded[v] != k.sha256 {
			problems = append(problems, fmt.Errorf("%w: migration control/%s is not the one that was run; use the binary that ran it, or restore the file",
				ErrSchema, k.name))
		}
	}
	return errors.Join(problems...)
}

// CheckSchema refuses a schema this binary does not serve: one that lacks a migration, one
// that has newer ones than the served range, or one made by another text of a migration.
func CheckSchema(ctx context.Context, db querier) error {
	if err := audit.CheckSchema(ctx, db); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return checkControl(ctx, db, Migrations())
}

func (s *Store) checkSchema(ctx context.Context) error { return CheckSchema(ctx, s.pool) }

func checkControl(ctx context.Context, db querier, files fs.FS) error {
	known, err := sums(files)
	if err != nil {
		return err
	}
	var at int32
	if err := db.QueryRow(ctx, sqlSchemaVersion).Scan(&at); err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			return fmt.Errorf("%w: schema control cannot be read; run `bronzeward migrate`: %w", ErrSchema, err)
		}
		return unavailable("reading the version of schema control", err)
	}
	if at < OldestSchema {
		return fmt.Errorf("%w: control is at version %d, this binary needs %d; run `bronzeward migrate`", ErrSchema, at, OldestSchema)
	}
	if at > NewestSchema {
		return fmt.Errorf("%w: control is at version %d, this binary serves up to %d; start the newer binary", ErrSchema, at, NewestSchema)
	}
	return compareSums(ctx, db, known, at)
}
