package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit/tree"
	"bronzeward/fixtures/fullbook"
	"bronzeward/fixtures/page"
	"bronzeward/fixtures/postgres"
	"bronzeward/gateway/control"
)

// The measuring of a full book: everything people ask of it at a hundred thousand entries, and
// again when it has grown a hundredfold, in one run on one server.

// fullSmall is how many entries the first measurement is made at.
const fullSmall = 100_000

// fullHouse is a database of its own with the product beside it.
type fullHouse struct {
	server  *postgres.Server
	product string
	name    string        // of the database
	pool    *pgxpool.Pool // superuser
}

func benchFull(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench-book", flag.ContinueOnError)
	rows := flags.Int("rows", 10_000_000, "entries of the full book")
	write := flags.String("write", "", "file whose text between the book's markers is replaced by the tables")
	dir := flags.String("dir", "", "folder for the databases, about 3 KB of disk per entry; a full book that is there is measured as it is (default: a temporary one)")
	fill := flags.Bool("fill", false, "fill the full book in -dir and end")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *rows <= fullSmall {
		return fmt.Errorf("-rows %d: want more than %d", *rows, fullSmall)
	}
	began := time.Now()
	product, err := binary()
	if err != nil {
		return err
	}
	settings := map[string]string{"shared_buffers": "2GB", "max_wal_size": "8GB", "work_mem": "16MB", "maintenance_work_mem": "256MB"}
	if *fill {
		// Nothing is measured yet, and what an outage of the machine damages is filled again.
		maps.Copy(settings, map[string]string{"fsync": "off", "full_page_writes": "off", "max_wal_size": "16GB", "checkpoint_timeout": "30min"})
	}
	server, err := postgres.Start(ctx, postgres.Config{Dir: *dir, Progress: os.Stderr, Settings: settings})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	full, err := openFullHouse(ctx, server, product, "book_full", *rows)
	if err != nil {
		return err
	}
	defer full.pool.Close()
	if *fill {
		return nil
	}
	small, err := openFullHouse(ctx, server, product, "book_small", fullSmall)
	if err != nil {
		return err
	}
	defer small.pool.Close()
	text, err := compareBooks(ctx, small, full)
	if err != nil {
		return err
	}
	text += fmt.Sprintf("\nThe run took %s.\n", time.Since(began).Round(time.Second))
	fmt.Print(text)
	if *write == "" {
		return nil
	}
	return page.Write(*write, bookBegin, bookEnd, text)
}

// openFullHouse opens a book, and makes and fills it as far as it is not there yet.
func openFullHouse(ctx context.Context, server *postgres.Server, product, name string, entries int) (*fullHouse, error) {
	h := &fullHouse{server: server, product: product, name: name}
	there, err := h.database(ctx)
	if err != nil {
		return nil, err
	}
	if h.pool, err = pgxpool.New(ctx, h.dsn(postgres.Superuser)); err != nil {
		return nil, err
	}
	if there {
		return h, nil
	}
	if err := h.fill(ctx, entries); err != nil {
		h.pool.Close()
		return nil, err
	}
	return h, nil
}

func (h *fullHouse) dsn(role string) string { return h.server.DSN(h.name, role) }

// database makes the database and the logins, and says whether it was there whole.
func (h *fullHouse) database(ctx context.Context) (there bool, err error) {
	admin, err := pgx.Connect(ctx, h.server.DSN("postgres", postgres.Superuser))
	if err != nil {
		return false, err
	}
	defer admin.Close(ctx)
	const whole = "select exists (select from pg_database where datname = $1 and datistemplate)"
	if err := admin.QueryRow(ctx, whole, h.name).Scan(&there); err != nil || there {
		return there, err
	}
	var begun bool
	if err := admin.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", h.name).Scan(&begun); err != nil || begun {
		return false, err
	}
	if _, err := admin.Exec(ctx, "create database "+h.name); err != nil {
		return false, err
	}
	conn, err := pgx.Connect(ctx, h.dsn(postgres.Superuser))
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	if err := control.Migrate(ctx, conn, nil); err != nil {
		return false, err
	}
	_, err = conn.Exec(ctx, `do $$ declare login text; begin
		foreach login in array array['gateway', 'auditor'] loop
			if not exists (select from pg_roles where rolname = login) then
				execute format('create role %I login in role %I', login, 'bronzeward_' || login);
			end if;
		end loop; end $$`)
	return false, err
}

// fill fills the book, sequences it, and marks the database as whole.
func (h *fullHouse) fill(ctx context.Context, entries int) error {
	began := time.Now()
	f := &fullbook.Filler{Owner: h.pool, Writers: h.dsn("gateway"), Progress: func(done, of int) {
		if done%500_000 == 0 {
			fmt.Fprintf(os.Stderr, "  %d of %d entries written (%s)\n", done, of, time.Since(began).Round(time.Second))
		}
	}}
	if err := f.Prepare(ctx); err != nil {
		return err
	}
	// A run that was ended goes on with other rows.
	var have int
	if err := h.pool.QueryRow(ctx, "select count(*) from audit.entries").Scan(&have); err != nil {
		return err
	}
	if have < entries {
		if err := f.Fill(ctx, uint64(1+have), entries-have, float64(have)/float64(entries), 1); err != nil {
			return fmt.Errorf("filling the book: %w", err)
		}
	}
	if _, err := h.sequenced(ctx); err != nil {
		return fmt.Errorf("sequencing: %w", err)
	}
	for _, sql := range []string{"vacuum analyze", "alter database " + h.name + " is_template true"} {
		if _, err := h.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// sequenced gives every row its place under a checkpoint, and how many rows a second that was.
func (h *fullHouse) sequenced(ctx context.Context) (rate float64, err error) {
	var rows int64
	if err := h.pool.QueryRow(ctx, "select count(*) from audit.unsequenced").Scan(&rows); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := h.sequence(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	h.say("%d rows sequenced in %s", rows, took.Round(time.Millisecond))
	return float64(rows) / took.Seconds(), nil
}

// sequence runs a sequencer until every row has its place under a checkpoint.
func (h *fullHouse) sequence(ctx context.Context) error {
	installation := uuid.MustParse("5b0f8f5e-2222-4222-8222-222222222222")
	epoch := uuid.MustParse("5b0f8f5e-1111-4111-8111-111111111111")
	q, err := tree.New(tree.Config{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, h.dsn("gateway")) },
		Epoch: func(context.Context, *pgx.Conn) (uuid.UUID, uuid.UUID, error) {
			return installation, epoch, nil
		},
		Signer: benchKey, Poll: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- q.Run(running) }()
	defer func() { stop(); <-done }()
	const rest = `select (select count(*) from (select from audit.unsequenced limit 1) w)
		+ coalesce((select index + 1 from audit.leaves where tree = 1 order by index desc limit 1), 0) - (select coalesce(max(size), 0) from audit.checkpoints)`
	for {
		var n int64
		if err := h.pool.QueryRow(ctx, rest).Scan(&n); err != nil || n == 0 {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// localKey signs in this process, in OpenBao's place: what is measured here is the book.
type localKey struct{ key ed25519.PrivateKey }

var benchKey = localKey{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}

// Sign signs as version 1.
func (k localKey) Sign(_ context.Context, message []byte) ([]byte, int, error) {
	return ed25519.Sign(k.key, message), 1, nil
}

// PublicKeys gives the one there is.
func (k localKey) PublicKeys(context.Context) (map[int]ed25519.PublicKey, error) {
	return map[int]ed25519.PublicKey{1: k.key.Public().(ed25519.PublicKey)}, nil //nolint:forcetypeassert // ed25519 says so
}
