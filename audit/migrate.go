package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed queries/roles.sql
var rolesSQL string

// Migrations are the numbered, forward-only SQL files that make the schema audit.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is embedded: this cannot happen in a binary that was built
	}
	return sub
}

// Versions of the schema this code serves, both included. Schema changes are expand-then-contract, so that the oldest
// and the newest gateway of a roll-out find what they need.
const (
	OldestSchema int32 = 4
	NewestSchema int32 = 4
)

// versionTable is where tern keeps the number of the last migration.
const versionTable = "audit.schema_version"

// Migrate makes or updates the schema audit and the partitions of the next months. conn's role is a superuser, or a
// member of bronzeward_owner that may create schemas; it also needs CREATEROLE where bronzeward_owner, bronzeward_gateway
// and bronzeward_auditor (groups without login) do not exist yet. It runs as bronzeward_owner, which owns everything.
//
// Each migration is one transaction: a crash leaves the schema at a whole version, and the next call goes on from there.
// Concurrent calls take turns. The checksums of migrations that ran before are compared first.
func Migrate(ctx context.Context, conn *pgx.Conn) (err error) {
	if _, err := conn.Exec(ctx, rolesSQL); err != nil {
		return fmt.Errorf("preparing roles and schema: %w", err)
	}
	if _, err := conn.Exec(ctx, "set role bronzeward_owner"); err != nil {
		return fmt.Errorf("becoming bronzeward_owner: %w", err)
	}
	defer func() {
		if _, resetErr := conn.Exec(context.WithoutCancel(ctx), "reset role"); resetErr != nil && err == nil {
			err = fmt.Errorf("becoming oneself again: %w", resetErr)
		}
	}()
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return fmt.Errorf("preparing migrations: %w", err)
	}
	if err := m.LoadMigrations(Migrations()); err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	had, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	if had > int32(len(m.Migrations)) {
		return fmt.Errorf("schema audit is at version %d, this binary knows %d: a newer one made it", had, len(m.Migrations))
	}
	if had > 0 {
		if err := compareChecksums(ctx, conn, had); err != nil {
			return err
		}
	}
	if err := m.Migrate(ctx); err != nil {
		return fmt.Errorf("migrating schema audit: %w", err)
	}
	if err := noteChecksums(ctx, conn); err != nil {
		return err
	}
	_, err = EnsurePartitions(ctx, conn, PartitionsAhead)
	return err
}

// querier is what reading needs: a connection, a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckSchema says whether this code may serve the schema it finds: its version is within OldestSchema and
// NewestSchema, and every migration both know has the same SHA-256. The gateway calls it before it opens its listener.
func CheckSchema(ctx context.Context, db querier) error {
	var version int32
	if err := db.QueryRow(ctx, "select version from "+versionTable).Scan(&version); err != nil {
		return fmt.Errorf("reading the version of schema audit (run `bronzeward migrate`): %w", err)
	}
	if version < OldestSchema || version > NewestSchema {
		return fmt.Errorf("schema audit is at version %d, this binary serves %d to %d: run `bronzeward migrate` of this release, or a newer gateway",
			version, OldestSchema, NewestSchema)
	}
	return compareChecksums(ctx, db, version)
}

// checksums are the names and SHA-256 of the embedded migrations; migration n is at n-1.
func checksums() ([]string, [][]byte, error) {
	names, err := migrate.FindMigrations(Migrations())
	if err != nil {
		return nil, nil, fmt.Errorf("reading migrations: %w", err)
	}
	sums := make([][]byte, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(Migrations(), name)
		if err != nil {
			return nil, nil, fmt.Errorf("reading migration: %w", err)
		}
		sum := sha256.Sum256(text)
		sums[i] = sum[:]
	}
	return names, sums, nil
}

func noteChecksums(ctx context.Context, conn *pgx.Conn) error {
	names, sums, err := checksums()
	if err != nil {
		return err
	}
	for i, name := range names {
		_, err := conn.Exec(ctx, `insert into audit.schema_checksums (version, name, sha256) values ($1, $2, $3)
			on conflict on constraint schema_checksums_pk do nothing`, i+1, name, sums[i])
		if err != nil {
			return fmt.Errorf("noting the checksum of %s: %w", name, err)
		}
	}
	return nil
}

// compareChecksums joins every difference. A version without a row is one: migrate notes all it ran.
func compareChecksums(ctx context.Context, db querier, version int32) error {
	names, sums, err := checksums()
	if err != nil {
		return err
	}
	rows, err := db.Query(ctx, "select version, sha256 from audit.schema_checksums")
	if err != nil {
		return fmt.Errorf("reading checksums: %w", err)
	}
	noted := map[int32][]byte{}
	var v int32
	var sum []byte
	if _, err := pgx.ForEachRow(rows, []any{&v, &sum}, func() error {
		noted[v] = bytes.Clone(sum)
		return nil
	}); err != nil {
		return fmt.Errorf("reading checksums: %w", err)
	}
	var problems []error
	for i, name := range names {
		if n := int32(i + 1); n <= version && !bytes.Equal(noted[n], sums[i]) {
			problems = append(problems, fmt.Errorf("migration %s is not the one that made this schema", name))
		}
	}
	return errors.Join(problems...)
}
