package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit/tree"
	"bronzeward/fixtures/fullbook"
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
	pool    *pgxpool.Pool // superuser
	entries int
}

func benchFull(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench-book", flag.ContinueOnError)
	rows := flags.Int("rows", 10_000_000, "entries the book grows to")
	write := flags.String("write", "", "file whose text between the book's markers is replaced by the tables")
	dir := flags.String("dir", "", "folder for the database, about 3 KB of disk per entry (default: a temporary one)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *rows <= fullSmall {
		return fmt.Errorf("-rows %d: want more than %d", *rows, fullSmall)
	}
	began := time.Now()
	h, err := openFullHouse(ctx, *dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	f := &fullbook.Filler{Owner: h.pool, Writers: h.dsn("gateway"), Progress: func(done, of int) {
		if done%500_000 == 0 {
			fmt.Fprintf(os.Stderr, "  %d of %d entries written (%s)\n", done, of, time.Since(began).Round(time.Second))
		}
	}}
	if err := f.Prepare(ctx); err != nil {
		return err
	}
	part := float64(fullSmall) / float64(*rows)
	small, err := h.stage(ctx, f, fullSmall, 1, 0, part)
	if err != nil {
		return err
	}
	large, err := h.stage(ctx, f, *rows-h.entries, 2, part, 1)
	if err != nil {
		return err
	}
	text, err := h.report(ctx, small, large)
	if err != nil {
		return err
	}
	text += fmt.Sprintf("\nThe run took %s.\n", time.Since(began).Round(time.Second))
	fmt.Print(text)
	if *write == "" {
		return nil
	}
	return writeBetween(*write, bookBegin, bookEnd, text)
}

func openFullHouse(ctx context.Context, dir string) (*fullHouse, error) {
	product, err := binary()
	if err != nil {
		return nil, err
	}
	server, err := postgres.Start(ctx, postgres.Config{Dir: dir, Progress: os.Stderr, Settings: map[string]string{
		"shared_buffers": "2GB", "max_wal_size": "8GB", "work_mem": "16MB", "maintenance_work_mem": "256MB",
	}})
	if err != nil {
		return nil, err
	}
	h := &fullHouse{server: server, product: product}
	if h.pool, err = pgxpool.New(ctx, h.dsn(postgres.Superuser)); err == nil {
		err = h.migrate(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *fullHouse) dsn(role string) string { return h.server.DSN("postgres", role) }

func (h *fullHouse) close() error {
	if h.pool != nil {
		h.pool.Close()
	}
	return h.server.Close()
}

func (h *fullHouse) migrate(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, h.dsn(postgres.Superuser))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := control.Migrate(ctx, conn, nil); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "create role gateway login in role bronzeward_gateway; create role auditor login in role bronzeward_auditor")
	return err
}

// stage grows the book, sequences what is new, and measures.
func (h *fullHouse) stage(ctx context.Context, f *fullbook.Filler, n int, seed uint64, from, to float64) (*fullStage, error) {
	s := &fullStage{}
	began := time.Now()
	if err := f.Fill(ctx, seed, n, from, to); err != nil {
		return nil, fmt.Errorf("filling the book: %w", err)
	}
	h.entries += n
	s.filled = time.Since(began)
	if err := h.pool.QueryRow(ctx, "select count(*) from audit.unsequenced").Scan(&s.sequenced); err != nil {
		return nil, err
	}
	began = time.Now()
	if err := h.sequence(ctx); err != nil {
		return nil, fmt.Errorf("sequencing: %w", err)
	}
	s.sequencing = time.Since(began)
	fmt.Fprintf(os.Stderr, "  %d rows sequenced in %s\n", s.sequenced, s.sequencing.Round(time.Second))
	if _, err := h.pool.Exec(ctx, "vacuum analyze"); err != nil {
		return nil, err
	}
	return s, s.measure(ctx, h)
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
		+ (select coalesce(max(index) + 1, 0) from audit.leaves) - (select coalesce(max(size), 0) from audit.checkpoints)`
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
