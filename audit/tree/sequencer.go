package tree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sequencer gives the rows of the book their places in the tree, and has the tree's head signed. Every replica runs one;
// the one that has the lock works.
type Sequencer struct {
	cfg        Config
	state      state
	publishers []*publisher
	signer     *signing // nil without a Signer
	// known is, per tree, the largest checkpoint that this process saw stored. It belongs to Run's goroutine.
	known map[int32]Stored
	// refused are the trees of which nothing is signed any more. It belongs to Run's goroutine.
	refused map[int32]bool
}

// New does no I/O.
func New(cfg Config) (*Sequencer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuring the sequencer: %w", err)
	}
	q := &Sequencer{cfg: cfg.withDefaults(), known: map[int32]Stored{}, refused: map[int32]bool{}}
	if cfg.Signer != nil {
		q.signer = &signing{signer: cfg.Signer}
	} else {
		q.state.s.Errors = map[Step]string{StepSign: "no signer is configured: rows get their places, and nothing is signed"}
	}
	for _, p := range cfg.Publish {
		q.publishers = append(q.publishers, &publisher{Publisher: p, q: q, wake: make(chan struct{}, 1)})
	}
	return q, nil
}

// Run works until ctx ends, and then returns nil. It returns for no other reason: what fails is tried again, and Status
// says what it is. Call it once.
//
//	connect ─▶ try for the lock ─▶ load: epoch, tree, right edge, last checkpoint
//	              ▲      │ no          ▼
//	              └──────┘          look ─▶ round ─▶ … until a round is not full ─▶ check, sign, store ─▶ wait
//	                                   ▲                                                                  │
//	                                   └──────────────────────────────────────────────────────────────────┘
//
// A connection that breaks, and a load that fails, begin again at connect.
func (q *Sequencer) Run(ctx context.Context) error {
	var publishing sync.WaitGroup
	defer publishing.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop() // a panic of this goroutine ends the publishers too, and is then whoever's called Run
	for _, p := range q.publishers {
		publishing.Go(func() { p.run(ctx) })
	}
	for ctx.Err() == nil {
		if err := q.connected(ctx); err != nil {
			q.update(func(s *Status) { s.Holder = false })
		}
		pause(ctx, q.cfg.RetryEvery)
	}
	q.update(func(s *Status) { s.Holder = false })
	return nil
}

// connected opens a connection and works on it until it is of no more use.
func (q *Sequencer) connected(ctx context.Context) error {
	step, cancel := context.WithTimeout(ctx, q.cfg.StepTimeout)
	defer cancel()
	conn, err := q.cfg.Connect(step)
	if err != nil {
		err = fmt.Errorf("connecting: %w", cause(err))
		q.done(ctx, StepConnect, err)
		return err
	}
	// Closing frees the lock. The server does so too when the process or the network ends.
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	for {
		held, err := q.tryLock(ctx, conn)
		q.done(ctx, StepConnect, err)
		if err != nil {
			return err
		}
		if held {
			break
		}
		q.update(func(s *Status) {
			s.Holder = false
			// Those are the holder's now.
			delete(s.Errors, StepSequence)
			delete(s.Errors, StepCheck)
			if q.signer != nil {
				delete(s.Errors, StepSign)
			}
		})
		begun := time.Now()
		if err := q.watch(ctx, conn); err != nil && conn.IsClosed() {
			return err
		}
		if pause(ctx, max(q.cfg.RetryEvery, lookShare*time.Since(begun))); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	s := &session{q: q, conn: conn}
	defer s.end()
	q.cfg.pause("locked")
	return s.run(ctx)
}

// watch reads, for the Status of a replica without the lock, what the holder does.
func (q *Sequencer) watch(ctx context.Context, conn *pgx.Conn) error {
	step, cancel := context.WithTimeout(ctx, q.cfg.StepTimeout)
	defer cancel()
	err := q.look(step, conn, nil)
	if err == nil {
		var t Tree
		var last Stored
		if t, last, err = q.seen(step, conn); err == nil {
			q.update(func(s *Status) {
				s.Tree, s.Epoch, s.Origin, s.Size, s.Checkpoint = t.Tree, t.Epoch, t.Origin, t.Size, last
			})
		}
	}
	q.done(ctx, StepLoad, err)
	return err
}

// seen is the tree in use and its last checkpoint; zero if there is none yet.
func (q *Sequencer) seen(ctx context.Context, conn *pgx.Conn) (Tree, Stored, error) {
	_, epoch, err := q.cfg.Epoch(ctx, conn)
	if err != nil {
		return Tree{}, Stored{}, fmt.Errorf("reading the epoch: %w", cause(err))
	}
	trees, err := Trees(ctx, conn)
	if err != nil {
		return Tree{}, Stored{}, err
	}
	for _, t := range trees {
		if t.Epoch == epoch {
			last, err := Latest(ctx, conn, t.Tree)
			if errors.Is(err, ErrNotFound) {
				err = nil
			}
			return t, last, err
		}
	}
	return Tree{}, Stored{}, nil
}

// look reads how many rows wait and for how long: of all, or of those recorded at from or later.
func (q *Sequencer) look(ctx context.Context, conn *pgx.Conn, from *time.Time) error {
	var waiting int
	var micros int64
	if err := conn.QueryRow(ctx, waitingSQL, MaxWaiting, from).Scan(&waiting, &micros); err != nil {
		return fmt.Errorf("looking for rows without a place: %w", cause(err))
	}
	q.update(func(s *Status) {
		s.SeenAt, s.Waiting, s.Behind = time.Now(), waiting, time.Duration(micros)*time.Microsecond
	})
	return nil
}

// lookShare bounds what looking at the whole queue takes of the time. It is quick unless a transaction, an auditor's
// long query for one, keeps the database from clearing away the rows that were taken meanwhile.
const lookShare = 10

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
