package audit

import (
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/postgres/pgtest"
)

func TestServedRangeEndsWithTheLastMigration(t *testing.T) {
	names, err := fs.Glob(Migrations(), "*.sql")
	if err != nil || int32(len(names)) != NewestSchema || OldestSchema > NewestSchema {
		t.Errorf("migrations %v (%v), served %d to %d", names, err, OldestSchema, NewestSchema)
	}
}

func TestMigrationNeedsNoSuperuser(t *testing.T) {
	newDatabase(t) // the server has the roles
	name := shared.NewDatabaseName(t, pgtest.Template{})
	super := connect(t, name, "postgres")
	if _, err := super.Exec(t.Context(), `create role test_migrator login in role bronzeward_owner;
		create role test_stranger login createrole; grant create on database `+pgx.Identifier{name}.Sanitize()+` to test_migrator, test_stranger`); err != nil {
		t.Fatal(err)
	}
	migrateAs := func(role string) error {
		conn, err := pgx.Connect(t.Context(), shared.Server(t).DSN(name, role))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		return Migrate(t.Context(), conn)
	}
	if err := migrateAs("test_stranger"); err == nil {
		t.Error("a role outside bronzeward_owner migrated")
	}
	if err := migrateAs("test_migrator"); err != nil {
		t.Error(err)
	}
	if err := CheckSchema(t.Context(), connect(t, name, asGateway)); err != nil {
		t.Error(err)
	}
}
