package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrUnavailable is in the chain of every error of a Book that means: the row is not known to be durable. Whoever
// gets it forwards nothing.
var ErrUnavailable = errors.New("the book cannot be written")

// ErrClosed is returned, with ErrUnavailable, after Close.
var ErrClosed = errors.New("the book is closed")

// StaleError means that the entry was judged at another authority version than the one in force when it was to be
// written. Nothing was written; the call is judged again.
type StaleError struct {
	Current int64 // the version in force
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("judged at another authority version than %d", e.Current)
}

// Defaults of BookConfig, each with its because.
const (
	// DefaultMaxBatch bounds what one refused row makes others wait for, and what one message to the database holds.
	DefaultMaxBatch = 256
	// DefaultQueue is four full batches: more would only be latency.
	DefaultQueue = 1024
	// DefaultCommitters is two: one batch forms and is sent while the other is being flushed to disk.
	DefaultCommitters = 2
	// DefaultBatchTimeout is longer than a database takes to fail over, and ends a batch that a dead network would hold for ever.
	DefaultBatchTimeout = 30 * time.Second
	// DefaultUnknownTimeout is how long a COMMIT without answer is looked into; callers rarely wait longer.
	DefaultUnknownTimeout = 5 * time.Second
	// DefaultRefusalWindow is the second of DESIGN's "one entry per address, class and second".
	DefaultRefusalWindow = time.Second
	// DefaultRefusalKeys bounds the entries that a flood from many addresses can make in one window.
	DefaultRefusalKeys = 256
)

// BookConfig is what a Book needs.
type BookConfig struct {
	// Pool is required. Its role is bronzeward_gateway or a member. Its connections have synchronous_commit on (the
	// server's default): a Book is as durable as a COMMIT of this pool.
	Pool *pgxpool.Pool
	// Guard takes the shared authority lock as its first statement and returns the authority version, read in a later
	// statement. Required. It runs at the start of every transaction that writes an entry, and costs one round trip if it
	// sends both as one batch. It neither ends the transaction nor nests another in it.
	Guard func(context.Context, pgx.Tx) (int64, error)
	// MaxBatch is how many rows one transaction takes. Default DefaultMaxBatch.
	MaxBatch int
	// Queue is how many rows wait for a batch before callers wait for a place. Default DefaultQueue.
	Queue int
	// Committers is how many transactions are under way at a time. Default DefaultCommitters.
	Committers int
	// BatchTimeout ends a transaction that does not. Default DefaultBatchTimeout.
	BatchTimeout time.Duration
	// UnknownTimeout bounds the reading after a COMMIT without answer. Default DefaultUnknownTimeout.
	UnknownTimeout time.Duration
	// RefusalWindow is the time one refusal entry stands for. Default DefaultRefusalWindow.
	RefusalWindow time.Duration
	// RefusalKeys is how many (address, class) pairs get an entry of their own in a window. Default DefaultRefusalKeys.
	RefusalKeys int
	// Logger gets one line per trouble. Default slog.Default().
	Logger *slog.Logger
	// Observe, if set, is told of every commit: how many rows and how long from the first statement to the answer. It
	// is called by the committers and must not block.
	Observe func(rows int, took time.Duration)
}

// Validate returns everything that is wrong, joined.
func (c BookConfig) Validate() error {
	var problems []error
	if c.Pool == nil {
		problems = append(problems, errors.New("a Pool is missing"))
	}
	if c.Guard == nil {
		problems = append(problems, errors.New("a Guard is missing"))
	}
	for name, n := range map[string]int64{
		"MaxBatch": int64(c.MaxBatch), "Queue": int64(c.Queue), "Committers": int64(c.Committers),
		"BatchTimeout": int64(c.BatchTimeout), "UnknownTimeout": int64(c.UnknownTimeout),
		"RefusalWindow": int64(c.RefusalWindow), "RefusalKeys": int64(c.RefusalKeys),
	} {
		if n < 0 {
			problems = append(problems, fmt.Errorf("%s is negative", name))
		}
	}
	return errors.Join(problems...)
}

// Book writes entries and outcomes in group commits: rows that arrive while a transaction is under way share the next
// one. Its methods are safe for concurrent use. Nothing is dropped: a slow database means that callers wait.
type Book struct {
	cfg   BookConfig
	queue chan *item
	// parked holds one token per outcome that nobody waits for (EnqueueOutcome) until it is durable.
	parked chan struct{}
	quit   chan struct{} // closed by Close, after which nothing is tried twice

	mu       sync.Mutex
	quitting bool // guarded by mu: quit is closed

	closing sync.RWMutex // held for reading while something is put into the queue
	closed  bool         // guarded by closing

	committers sync.WaitGroup
	retries    sync.WaitGroup
	refusals   refusals
	stats      counters
}

// NewBook starts the committers; it does no I/O. Close ends them.
func NewBook(cfg BookConfig) (*Book, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuring the book: %w", err)
	}
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, DefaultMaxBatch)
	cfg.Queue = cmp.Or(cfg.Queue, DefaultQueue)
	cfg.Committers = cmp.Or(cfg.Committers, DefaultCommitters)
	cfg.BatchTimeout = cmp.Or(cfg.BatchTimeout, DefaultBatchTimeout)
	cfg.UnknownTimeout = cmp.Or(cfg.UnknownTimeout, DefaultUnknownTimeout)
	cfg.RefusalWindow = cmp.Or(cfg.RefusalWindow, DefaultRefusalWindow)
	cfg.RefusalKeys = cmp.Or(cfg.RefusalKeys, DefaultRefusalKeys)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	b := &Book{
		cfg:      cfg,
		queue:    make(chan *item, cfg.Queue),
		parked:   make(chan struct{}, cfg.Queue),
		quit:     make(chan struct{}),
		refusals: refusals{open: map[refusalKey]*refusal{}},
	}
	for range cfg.Committers {
		b.committers.Go(b.commitLoop)
	}
	return b, nil
}

// Write makes the entry durable and returns its receipt. It waits for the commit, and for a place in the queue when
// the database is slow; ctx ends the waiting.
//
// An entry of a verdict other than Refused, and of a kind other than KindSystem, is written only if its
// AuthorityVersion is the one the guard returns in the same transaction; otherwise the error is a *StaleError and
// nothing was written.
//
// Every other error has ErrUnavailable in its chain: the entry may or may not be in the book, and the call must not go
// on. A row that the database refuses does not harm its neighbours.
func (b *Book) Write(ctx context.Context, e Entry) (Receipt, error) {
	s, err := entryStatement(e)
	if err != nil {
		return Receipt{}, unavailable(err)
	}
	it := &item{statement: s, ctx: ctx, done: make(chan result, 1), guarded: true}
	if e.Kind != KindSystem && e.Verdict != Refused {
		it.judged, it.version = true, e.AuthorityVersion
	}
	return b.wait(ctx, it)
}

// WriteOutcome makes the outcome durable, in the same group commits but without the guard. Errors have ErrUnavailable
// in their chain.
func (b *Book) WriteOutcome(ctx context.Context, o Outcome) error {
	s, err := outcomeStatement(o)
	if err != nil {
		return unavailable(err)
	}
	_, err = b.wait(ctx, &item{statement: s, ctx: ctx, done: make(chan result, 1)})
	return err
}

// EnqueueOutcome hands the outcome over and returns without waiting for the commit: for the outcome of a read, whose
// answer is with the caller already. It waits only while as many outcomes as the queue holds are not durable yet. While
// the database is away the outcome is tried again until Close; what a crash or Close leaves unwritten is an entry without
// outcome, and is shown as such.
func (b *Book) EnqueueOutcome(ctx context.Context, o Outcome) error {
	s, err := outcomeStatement(o)
	if err != nil {
		return unavailable(err)
	}
	select {
	case b.parked <- struct{}{}:
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	}
	if err := b.put(ctx, &item{statement: s, ctx: context.WithoutCancel(ctx), parked: true}); err != nil {
		<-b.parked
		return err
	}
	return nil
}

func (b *Book) wait(ctx context.Context, it *item) (Receipt, error) {
	if err := b.put(ctx, it); err != nil {
		return Receipt{}, err
	}
	select {
	case r := <-it.done:
		return r.receipt, r.err
	case <-ctx.Done():
		return Receipt{}, unavailable(context.Cause(ctx))
	}
}

// put queues the item, waiting for a place.
func (b *Book) put(ctx context.Context, it *item) error {
	b.closing.RLock()
	defer b.closing.RUnlock()
	if b.closed {
		return unavailable(ErrClosed)
	}
	select {
	case b.queue <- it:
		return nil
	default:
	}
	b.stats.blocked.Add(1)
	defer b.stats.blocked.Add(-1)
	select {
	case b.queue <- it:
		return nil
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	}
}

// Close writes what is waiting, refusals included, and ends the committers. Later calls get ErrClosed, a second Close
// does nothing. An outcome of EnqueueOutcome that the database still does not take is logged and given up.
func (b *Book) Close() {
	b.flushRefusals()
	b.mu.Lock()
	again := b.quitting
	if !again {
		b.quitting = true
		close(b.quit)
	}
	b.mu.Unlock()
	if again {
		return
	}
	b.retries.Wait()
	b.closing.Lock()
	b.closed = true
	close(b.queue)
	b.closing.Unlock()
	b.committers.Wait()
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }
