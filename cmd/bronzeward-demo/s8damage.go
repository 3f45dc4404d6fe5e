package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/world"
)

// damage is what somebody does to the book who owns the database, triggers off, and what verify
// must say of it.
type damage struct {
	what, sql string
	want      []string // %s is the decision whose row it is
}

// damages take %s as the applied decision's id where they need it.
var damages = []damage{
	{
		"one row changed",
		`update audit.entries set record = convert_to(replace(convert_from(record, 'UTF8'), '"otto"', '"olga"'), 'UTF8') where id = '%s'`,
		[]string{"changed", "%s"},
	},
	{"one column changed beside its record", `update audit.entries set caller_subject = 'olga' where id = '%s'`, []string{"column", "%s", "caller_subject"}},
	{"one row deleted", `delete from audit.entries where id = '%s'`, []string{"missing", "%s"}},
	{
		"one row inserted",
		`insert into audit.entries (recorded_at, id, kind, verdict, method, class, caller_issuer, caller_subject, authority_version, count, record)
			select recorded_at, '01900000-0000-7000-8000-00000000000a', kind, verdict, method, class, caller_issuer, caller_subject, authority_version, count,
			convert_to(replace(convert_from(record, 'UTF8'), id::text, '01900000-0000-7000-8000-00000000000a'), 'UTF8') from audit.entries where id = '%s'`,
		[]string{"inserted", "01900000-0000-7000-8000-00000000000a"},
	},
	{"a truncated table", `truncate audit.outcomes`, []string{"missing", "outcome"}},
	{
		"two rows that changed places",
		`update audit.leaves l set index = l.index + 1000000000 from (select tree, index from audit.leaves where id = '%s') p
			where l.tree = p.tree and l.index in (p.index, p.index - 1);
			update audit.leaves set index = index - 1000000000 + case when id = '%s' then -1 else 1 end where index >= 1000000000`,
		[]string{"changed places", "%s"},
	},
}

// earlyCopy is the database as it was before the story's end.
const earlyCopy = "early"

// copy makes another database of the house's, as it is now.
func (i *inspection) copy(ctx context.Context, name string) error {
	return i.onServer(ctx, fmt.Sprintf("create database %s template %s strategy file_copy", name, world.Database))
}

// onServer runs a statement while nobody is connected to the house's database.
func (i *inspection) onServer(ctx context.Context, sql string) error {
	if err := i.w.Gateways["gateway-1"].Stop(); err != nil {
		return err
	}
	delete(i.w.Gateways, "gateway-1")
	if err := i.db.Close(ctx); err != nil {
		return err
	}
	if err := i.asAdmin(ctx, sql); err != nil {
		return err
	}
	var err error
	if i.db, err = pgx.Connect(ctx, i.w.Postgres.DSN(world.Database, "postgres")); err != nil {
		return err
	}
	_, err = i.w.StartGatewayAt(ctx, "gateway-1", i.w.Endpoint)
	return err
}

// asAdmin runs a statement about databases, connected to none of them.
func (i *inspection) asAdmin(ctx context.Context, sql string) error {
	admin, err := pgx.Connect(ctx, i.w.Postgres.DSN("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// damaged does each damage to a copy of its own, and looks for it.
func (i *inspection) damaged(ctx context.Context) error {
	if err := i.signed(ctx); err != nil {
		return err
	}
	if err := i.copy(ctx, "intact"); err != nil {
		return err
	}
	if out, err := i.verify(ctx, "intact"); err != nil {
		return fmt.Errorf("an undamaged copy: %w\n%s", err, out)
	}
	for n, d := range damages {
		name := fmt.Sprintf("damaged_%d", n+1)
		if err := i.asAdmin(ctx, fmt.Sprintf("create database %s template intact strategy file_copy", name)); err != nil {
			return err
		}
		if err := i.harm(ctx, name, strings.ReplaceAll(d.sql, "%s", i.applied)); err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
		out, err := i.verify(ctx, name)
		if err == nil {
			return fmt.Errorf("%s: verify finds nothing:\n%s", d.what, out)
		}
		for _, must := range d.want {
			if must = strings.ReplaceAll(must, "%s", i.applied); !strings.Contains(out, must) {
				return fmt.Errorf("%s: verify does not say %q:\n%s", d.what, must, out)
			}
		}
		i.did("control: %s: found, and named", d.what)
	}
	// The early copy is a whole book in itself: only what the auditor kept tells that it is old.
	if out, err := i.auditor(ctx, earlyCopy, "decisions", "verify", "--public-key", "book.pub"); err != nil {
		return fmt.Errorf("an older copy, by itself: %w\n%s", err, out)
	}
	out, err := i.verify(ctx, earlyCopy)
	if err == nil || !strings.Contains(out, "rolled back") && !strings.Contains(out, "rolled_back") {
		return fmt.Errorf("a book that was rolled back is not found: %v\n%s", err, out)
	}
	if out, err := i.keep(ctx, earlyCopy); err == nil {
		return fmt.Errorf("a checkpoint of a book that was rolled back is kept:\n%s", out)
	}
	i.did("control: a database rolled back to an older state: found by the checkpoint that was kept, and by nothing else")
	return nil
}

// verify is the auditor's verification of a copy.
func (i *inspection) verify(ctx context.Context, database string) (string, error) {
	return i.auditor(ctx, database, "decisions", "verify", "--public-key", "book.pub", "--checkpoint", "kept.checkpoint")
}

// harm changes a copy with every trigger off.
func (i *inspection) harm(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, i.w.Postgres.DSN(database, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	const quiet = `do $$ declare t regclass; begin
		for t in select c.oid from pg_class c where relnamespace = 'audit'::regnamespace and relkind in ('r', 'p') loop
			execute format('alter table %s disable trigger all', t);
		end loop; end $$`
	if _, err := conn.Exec(ctx, quiet); err != nil {
		return err
	}
	tag, err := conn.Exec(ctx, sql)
	if err == nil && tag.RowsAffected() == 0 && !strings.HasPrefix(sql, "truncate") {
		err = fmt.Errorf("nothing was changed by %s", sql)
	}
	return err
}
