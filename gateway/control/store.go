package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is what a Store needs.
type Config struct {
	// URL is the connection string of the gateway's role. Required. It may hold a
	// password, and is in no error or log line.
	URL string
	// Instance names this replica among the others. Required.
	Instance string
	// Logger gets warnings about the database; required.
	Logger *slog.Logger
	// MaxConns bounds the pool; 16 when zero.
	MaxConns int32
	// Lease is how long an attempt is this process's without renewal; DefaultLease when zero.
	Lease time.Duration
	// SettleFloor is MinSettleFloor when zero; it may only be raised.
	SettleFloor time.Duration
	// PollEvery is how often the authority version is confirmed when no hint comes; one
	// second when zero, because a revocation is to be seen on open streams within that.
	PollEvery time.Duration
	// CommitWithin bounds a COMMIT and the reading after an unanswered one; 10 s when zero.
	CommitWithin time.Duration
	// Clock is this process's clock, time.Now when nil. It measures how long something took,
	// and decides nothing: see SendBefore and Snapshot.Now.
	Clock func() time.Time
}

// Validate returns all problems joined.
func (c Config) Validate() error {
	var problems []error
	if c.URL == "" {
		problems = append(problems, errors.New("no database URL is given"))
	}
	if c.Instance == "" || len(c.Instance) > 128 || !printable(c.Instance) {
		problems = append(problems, errors.New("an instance has a name of 1 to 128 printable bytes"))
	}
	if c.Logger == nil {
		problems = append(problems, errors.New("no logger is given"))
	}
	if c.SettleFloor != 0 && c.SettleFloor < MinSettleFloor {
		problems = append(problems, fmt.Errorf("the settle floor may only be raised: %s is below %s", c.SettleFloor, MinSettleFloor))
	}
	if c.Lease < 0 || c.PollEvery < 0 || c.CommitWithin < 0 || c.MaxConns < 0 {
		problems = append(problems, errors.New("durations and counts are not negative"))
	}
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	if c.MaxConns == 0 {
		c.MaxConns = 16
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.SettleFloor == 0 {
		c.SettleFloor = MinSettleFloor
	}
	if c.PollEvery == 0 {
		c.PollEvery = time.Second
	}
	if c.CommitWithin == 0 {
		c.CommitWithin = 10 * time.Second
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// Store is this process's access to intent. It is safe for concurrent use; all truth is in
// the database, and any number of Stores may share one.
type Store struct {
	cfg  Config
	pool *pgxpool.Pool
	// What must not queue behind everybody's work has connections of its own: taking
	// authority away, and confirming that none was.
	urgent, watch *pgxpool.Pool
	log           *slog.Logger
	generation    int64
	installation  uuid.UUID

	// stop ends the background work; done waits for it.
	stop   context.CancelFunc
	life   context.Context
	done   sync.WaitGroup
	reader refresher
	seen   highest
	hints  chan struct{}
}

// Connections besides MaxConns: for acts that take authority away, and for the confirmer.
const (
	urgentConns = 4
	watchConns  = 2
)

// openFew opens the two small pools. None of the three connects before it is used.
func (s *Store) openFew(ctx context.Context, pc *pgxpool.Config) error {
	for _, few := range []struct {
		pool **pgxpool.Pool
		most int32
	}{{&s.urgent, urgentConns}, {&s.watch, watchConns}} {
		conf := pc.Copy()
		conf.MaxConns = few.most
		pool, err := pgxpool.NewWithConfig(ctx, conf)
		if err != nil {
			return fmt.Errorf("%w: opening the pool: %w", ErrUnavailable, err)
		}
		*few.pool = pool
	}
	return nil
}

func (s *Store) closePools() {
	for _, pool := range []*pgxpool.Pool{s.pool, s.urgent, s.watch} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Open connects, checks that the server keeps what Bronzeward promises and that this binary
// serves the schema found, takes a generation, reads the first snapshot and starts following
// the authority version. Close ends it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("reading the control configuration: %w", err)
	}
	cfg = cfg.withDefaults()
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		// The parser's own error quotes the string it was given, password hidden or not.
		return nil, errors.New("reading the database URL: it is not a PostgreSQL connection string")
	}
	pc.MaxConns = cfg.MaxConns
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = "bronzeward " + clip(cfg.Instance)
	}
	pc.AfterConnect = prepareConn
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("%w: opening the pool: %w", ErrUnavailable, err)
	}
	s := &Store{cfg: cfg, pool: pool, log: cfg.Logger, hints: make(chan struct{}, 1)}
	if err := s.openFew(ctx, pc); err != nil {
		s.closePools()
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		s.closePools()
		return nil, err
	}
	return s, nil
}

// start does the checks of Open and begins the background work.
func (s *Store) start(ctx context.Context) error {
	if err := s.checkServer(ctx); err != nil {
		return err
	}
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	if err := s.pool.QueryRow(ctx, sqlGeneration).Scan(&s.generation, &s.installation); err != nil {
		return unavailable("taking a generation", err)
	}
	s.life, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := s.Refresh(ctx, 0); err != nil {
		s.stop()
		s.done.Wait()
		return err
	}
	s.done.Go(s.poll)
	s.done.Go(s.listen)
	return nil
}

// Close ends the background work and the pool. It waits for both.
func (s *Store) Close() {
	s.stop()
	s.reader.shut()
	s.done.Wait()
	s.closePools()
}

// Pool is the connections of the gateway's role, prepared as the Store needs them; the book
// shares it. Close closes it.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// InstallationID is the random id made by the first migration.
func (s *Store) InstallationID() uuid.UUID { return s.installation }

// Instance and generation of the attempts this process opens, in the given epoch.
func (s *Store) owner(epoch uuid.UUID) Owner {
	return Owner{Instance: s.cfg.Instance, Generation: s.generation, Epoch: epoch}
}

// Owns is true when the attempt was opened by this process.
func (s *Store) Owns(a *Attempt) bool {
	return a.Owner.Instance == s.cfg.Instance && a.Owner.Generation == s.generation
}

// Guard takes the authority lock's shared side as the transaction's first statement and
// reads the version in the next one. The book calls it at the head of every group commit.
func (s *Store) Guard(ctx context.Context, tx pgx.Tx) (int64, error) {
	var version int64
	b := &pgx.Batch{}
	b.Queue(sqlLockShared)
	b.Queue(sqlVersion).QueryRow(func(row pgx.Row) error { return row.Scan(&version) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, unavailable("taking the authority lock", err)
	}
	return version, nil
}
