package book

import (
	"io"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// BenchmarkExport measures rows per second out of PostgreSQL, records of an allowed read.
func BenchmarkExport(b *testing.B) {
	name := shared.NewDatabaseName(b, migrated)
	owner, err := openPoolOf(b, shared.Server(b).DSN(name, "postgres"))
	if err != nil {
		b.Fatal(err)
	}
	const rows = 200_000
	if _, err := owner.Exec(b.Context(), `
		insert into audit.entries (id, kind, verdict, authority_version, count, record)
			select gen_random_uuid(), 'rpc', 'allow', 1, 1, convert_to('{"v":1,"text":"' || repeat('x', 1200) || '"}', 'UTF8') from generate_series(1, 200000);
		insert into audit.leaves (recorded_at, index, id, tree, source, leaf)
			select recorded_at, row_number() over (order by recorded_at, id) - 1, id, 1, 'entry', leaf from audit.entries;
		analyze audit.entries; analyze audit.leaves`); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		done, err := copyRows(b.Context(), treeReader{owner}, place{}, theEnd(), span{}, formats()["jsonl"], io.Discard, uuid.Nil, func(int64) {})
		if err != nil || done.written != rows {
			b.Fatal(err, done)
		}
	}
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func openPoolOf(b *testing.B, dsn string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(b.Context(), dsn)
	if err == nil {
		b.Cleanup(pool.Close)
	}
	return pool, err
}
