package verify

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/fixtures/postgres/pgtest"
)

var benchRows = flag.Int("verify.rows", 60_000, "rows of the book that BenchmarkBook verifies")

// BenchmarkBook verifies a book of entries as the gateway writes them, two of three rows entries, one an outcome, one of
// twenty entries denied, with codes. PostgreSQL runs on the same machine.
func BenchmarkBook(b *testing.B) {
	large := pgtest.Template{Name: "verify_large", Prepare: func(ctx context.Context, dsn string) error { return fillLarge(ctx, dsn, *benchRows) }}
	config, err := pgx.ParseConfig(shared.Server(b).DSN(shared.NewDatabaseName(b, large), "large_auditor"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := Book(b.Context(), config, Options{})
		if err != nil || !r.Whole {
			b.Fatalf("%v, %v", err, r.Counts)
		}
	}
	b.ReportMetric(float64(*benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// fillLarge multiplies a few rows within the database.
func fillLarge(ctx context.Context, dsn string, rows int) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := audit.Migrate(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `create role large_auditor login in role bronzeward_auditor;
		create table public.installation (id uuid not null, epoch uuid not null)`); err != nil {
		return err
	}
	f := &filler{conn: conn, dsn: dsn}
	if err := f.epoch(ctx, firstEpoch); err != nil {
		return err
	}
	e := sample(6)
	e.Facts = []byte(`{"version":1,"call":{"method":"/machine.MachineService/Version","class":"read","stream":false,"mode":"",` +
		`"mode_given":false,"dry_run":false,"try_timeout_seconds":0,"size":0,"resource":null,"path":"","service":"","targets":1,` +
		`"cluster":""},"caller":{"issuer":"https://id.example","subject":"u-4711","kind":"human","groups":["operators","staff"],` +
		`"proof":"token","proof_ends":"2026-05-04T03:17:01Z","revoked":false},"machine":{"name":"worker-1","cluster":"lab",` +
		`"role":"worker","labels":{},"pinned":true},"evidence":null,"config":null,"change":null,"holds":[],"now":"2026-05-04T03:02:01Z"}`)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	r, err := audit.Append(ctx, tx, e)
	if err != nil {
		return err
	}
	denied := sample(1)
	denied.Facts = e.Facts
	if _, err := audit.Append(ctx, tx, denied); err != nil {
		return err
	}
	if _, err := audit.AppendOutcome(ctx, tx, sampleOutcome(1, r.ID)); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	reads, denials := rows*19/30, rows/30
	for _, m := range []struct {
		table, source, which string
		n                    int
	}{
		{"entries", "entry", "where verdict = 'allow'", reads},
		{"entries", "entry", "where verdict = 'deny'", denials},
		{"outcomes", "outcome", "", rows - reads - denials},
	} {
		var columns string
		if err := conn.QueryRow(ctx, `select string_agg(attname, ', ' order by attnum) from pg_attribute where attrelid = ('audit.' || $1)::regclass
			and attnum > 0 and attname not in ('recorded_at', 'id', 'record', 'leaf')`, m.table).Scan(&columns); err != nil {
			return err
		}
		// Ids and times run along, as they do when a gateway writes.
		if _, err := conn.Exec(ctx, fmt.Sprintf(`with one as (select * from audit.%[1]s %[4]s limit 1), row as (
			insert into audit.%[1]s (recorded_at, id, %[2]s, record)
			select one.recorded_at + n * interval '300 microseconds', i.id, %[2]s, convert_to(replace(convert_from(record, 'UTF8'), '"id":"' || one.id, '"id":"' || i.id), 'UTF8')
			from one, generate_series(2, $1::int) n cross join lateral (select (lpad(to_hex(1764500000000 + n / 3), 12, '0') || '7' || lpad(to_hex(n %% 4096), 3, '0') || '8' || substr(md5(one.id::text || n), 1, 15))::uuid as id) i
			returning recorded_at, id, leaf)
			insert into audit.unsequenced (recorded_at, id, source, leaf) select recorded_at, id, '%[3]s', leaf from row`, m.table, columns, m.source, m.which), m.n); err != nil {
			return fmt.Errorf("filling %s: %w", m.table, err)
		}
	}
	if _, err := conn.Exec(ctx, `insert into audit.terms (field, term, recorded_at, id, machine_name, caller_subject)
		select 'code', code, recorded_at, id, machine_name, caller_subject from audit.entries, unnest(codes) as code on conflict do nothing`); err != nil {
		return err
	}
	if err := f.sequence(ctx, rows); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "vacuum analyze")
	return err
}
