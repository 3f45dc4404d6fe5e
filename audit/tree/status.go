package tree

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Step names what a Sequencer does, for Status, metrics and the log.
type Step string

// The steps.
const (
	StepConnect  Step = "connect"  // reaching the database and trying for the lock
	StepLoad     Step = "load"     // reading the epoch, the tree and its right edge
	StepSequence Step = "sequence" // giving rows their places
	StepCheck    Step = "check"    // holding the tree to its last checkpoint; a failure of it signs nothing
	StepSign     Step = "sign"     // asking the Signer, and storing what it signed
	StepPublish  Step = "publish"  // taking checkpoints to other places
)

// MaxWaiting is the largest number that Status.Waiting counts to.
const MaxWaiting = 10_000

// Status is what a Sequencer knows of itself and of the book.
type Status struct {
	// Holder is true while this process is the one that sequences.
	Holder bool
	// Tree, Epoch and Origin are of the tree in use; zero before the first was seen. Size is its leaves.
	Tree   int32
	Epoch  uuid.UUID
	Origin string
	Size   int64
	// SeenAt is when the numbers of Waiting and Behind were read, by this process's clock; zero before the first time. A
	// holder reads them every Poll, others every RetryEvery.
	SeenAt time.Time
	// Waiting is how many rows had no place at SeenAt, at most MaxWaiting. Behind is the age of the oldest of them, by the
	// database's clock. While looking at the whole queue is slow (a transaction keeps taken rows from being cleared away),
	// both leave rows that come late out, for ten times as long as such a look takes.
	Waiting int
	Behind  time.Duration
	// Checkpoint is the last one stored in the tree in use; its Size is 0 if there is none.
	Checkpoint Stored
	// Refused is why the tree is not signed although it grew: it is not the tree that was signed before. It stays until
	// the process ends, whatever the tree does.
	Refused string
	// Errors are the last errors of steps whose last try failed, each a sentence. Publishers are named
	// "publish <name>".
	Errors map[Step]string
}

// state guards a Status.
type state struct {
	mu sync.Mutex
	s  Status // guarded by mu
}

// Status is safe for concurrent use and asks nobody.
func (q *Sequencer) Status() Status {
	q.state.mu.Lock()
	defer q.state.mu.Unlock()
	s := q.state.s
	s.Errors = maps.Clone(s.Errors)
	return s
}

func (q *Sequencer) update(change func(*Status)) {
	q.state.mu.Lock()
	defer q.state.mu.Unlock()
	change(&q.state.s)
}

// done notes how a step ended. The log gets a line when it begins to fail, fails otherwise than before, and works again.
func (q *Sequencer) done(ctx context.Context, step Step, err error) {
	if err != nil && ctx.Err() != nil {
		return // Run ends
	}
	q.state.mu.Lock()
	before, failed := q.state.s.Errors[step]
	if err == nil {
		delete(q.state.s.Errors, step)
	} else {
		if q.state.s.Errors == nil {
			q.state.s.Errors = map[Step]string{}
		}
		q.state.s.Errors[step] = err.Error()
	}
	q.state.mu.Unlock()
	switch {
	case err == nil && failed:
		q.cfg.Logger.Info("the book's sequencer goes on", "step", string(step))
	case err != nil:
		if err.Error() != before {
			q.cfg.Logger.Error("the book's sequencer failed", "step", string(step), "err", err)
		}
		if q.cfg.Observe.Failed != nil {
			q.cfg.Observe.Failed(step)
		}
	}
}
