package tree

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Signer signs checkpoints with a key that the database does not have. Its methods may take long and may be called
// while sequencing goes on.
type Signer interface {
	// Sign gives the Ed25519 signature of the message and the version of the key that made it.
	Sign(ctx context.Context, message []byte) (signature []byte, version int, err error)
	// PublicKeys gives the public key of every version.
	PublicKeys(ctx context.Context) (map[int]ed25519.PublicKey, error)
}

// Publisher takes checkpoints to another place: a folder of the auditors, the anchor.
type Publisher struct {
	// Name is how Status and the log speak of it ("folder"). Required.
	Name string
	// Publish is called with every checkpoint that was stored, in the order of size, one call at a time, in a goroutine
	// of its own. If it errs it is called again after RetryEvery, with the newest checkpoint; those between are left out,
	// as they are when more than 16 wait. A new holder calls it with the last stored checkpoint again, and one that lost the
	// lock may still be at an older one: what Publish writes must only go forward. Its context ends with Run. Required.
	Publish func(ctx context.Context, s Stored) error
}

// Observe are hooks for metrics; each may be nil. They are called by the sequencer and must not block.
type Observe struct {
	// Sequenced is told of every round: how many rows, and how long from taking them to the commit's answer.
	Sequenced func(rows int, took time.Duration)
	// Signed is told of every signing: how long the Signer took, and its error.
	Signed func(took time.Duration, err error)
	// Stored is told of every checkpoint that was stored.
	Stored func(s Stored)
	// Failed is told of every failure of a step, as Status names them.
	Failed func(step Step)
}

// Defaults of Config, each with its because.
const (
	// DefaultPoll keeps a row's wait well under the second that the book promises.
	DefaultPoll = 250 * time.Millisecond
	// DefaultRetryEvery is how long a replica without the lock, or any step that failed, waits: a dead holder is
	// followed within about a second.
	DefaultRetryEvery = time.Second
	// DefaultCheckpointEvery bounds what is asked of OpenBao; a proof is to be had within seconds of a decision.
	DefaultCheckpointEvery = 5 * time.Second
	// DefaultBatch rows make a round's fixed cost small, and its transaction stays a matter of milliseconds.
	DefaultBatch = 4096
	// DefaultStepTimeout is longer than a database takes to fail over, and ends a step that a dead network would hold.
	DefaultStepTimeout = 30 * time.Second
)

// Config is what a Sequencer needs.
type Config struct {
	// Connect opens a connection of the sequencer's own, straight to the server: a pooler between them that gives a
	// session to several clients would give the lock away. Its role is bronzeward_gateway or a member. Required.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Epoch reads the installation and the epoch in force. Required.
	Epoch func(ctx context.Context, conn *pgx.Conn) (installation, epoch uuid.UUID, err error)
	// Signer signs. Nil signs nothing: rows get their places and no checkpoint, and Status says so.
	Signer Signer
	// Permit is asked before a head is signed, in the goroutine of the signing: with all checkpoints deleted nothing in the
	// database says what was signed before, and somebody outside of it may remember. An error signs nothing now; with
	// ErrRolledBack, ErrForked or ErrAbandoned in its chain nothing of that tree is signed any more. Nil asks nobody.
	Permit func(ctx context.Context, of Tree, next Checkpoint) error
	// Publish are the places that checkpoints go to.
	Publish []Publisher
	// Poll is how often an idle sequencer looks for rows. Default DefaultPoll.
	Poll time.Duration
	// RetryEvery is how long what failed waits, and how often a replica without the lock tries. Default DefaultRetryEvery.
	RetryEvery time.Duration
	// CheckpointEvery is the least time between two signings. Default DefaultCheckpointEvery.
	CheckpointEvery time.Duration
	// Batch is how many rows one transaction takes. Default DefaultBatch.
	Batch int
	// StepTimeout ends a round, a check or a signing that does not. Default DefaultStepTimeout.
	StepTimeout time.Duration
	// Logger gets one line per change of state and per trouble. Default slog.Default().
	Logger *slog.Logger
	// Observe are hooks for metrics.
	Observe Observe

	lock  int64              // another key than sequencerLock
	pause func(point string) // called at every named point
}

// Validate returns everything that is wrong, joined.
func (c Config) Validate() error {
	var problems []error
	if c.Connect == nil {
		problems = append(problems, errors.New("a Connect is missing"))
	}
	if c.Epoch == nil {
		problems = append(problems, errors.New("an Epoch is missing"))
	}
	for i, p := range c.Publish {
		if p.Name == "" || p.Publish == nil {
			problems = append(problems, fmt.Errorf("publisher %d has no name or no function", i))
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Poll", int64(c.Poll)},
		{"RetryEvery", int64(c.RetryEvery)},
		{"CheckpointEvery", int64(c.CheckpointEvery)},
		{"Batch", int64(c.Batch)},
		{"StepTimeout", int64(c.StepTimeout)},
	} {
		if n.value < 0 {
			problems = append(problems, fmt.Errorf("%s is negative", n.name))
		}
	}
	return errors.Join(problems...)
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.RetryEvery = cmp.Or(c.RetryEvery, DefaultRetryEvery)
	c.CheckpointEvery = cmp.Or(c.CheckpointEvery, DefaultCheckpointEvery)
	c.Batch = cmp.Or(c.Batch, DefaultBatch)
	c.StepTimeout = cmp.Or(c.StepTimeout, DefaultStepTimeout)
	c.lock = cmp.Or(c.lock, sequencerLock)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.pause == nil {
		c.pause = func(string) {}
	}
	return c
}
