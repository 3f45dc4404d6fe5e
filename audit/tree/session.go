package tree

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed queries/waiting.sql
var waitingSQL string

//go:embed queries/begin_tree.sql
var beginTreeSQL string

// session is the time of one connection that has the lock. What it knows of the tree is what the database says: it is
// read at the beginning and after every failure, and in between it is what this session itself committed.
type session struct {
	q    *Sequencer
	conn *pgx.Conn

	installation uuid.UUID
	tree         Tree // in use; Size is edge.size
	edge         *edge
	last         Stored // its last checkpoint, Size 0 if there is none
	older        []Tree // trees of earlier epochs whose last leaves are under no checkpoint
	checked      bool   // whether the tree was held to its last checkpoint since load
	careful      bool   // rows are looked at one by one (queries/take_carefully.sql)

	floor    *time.Time // where a look at the queue's end begins
	whole    bool       // whether the last look was at the whole queue
	nextLook time.Time  // the next look at the whole queue is not before

	answers  chan signed // of the signing under way, nil if there is none
	cancel   context.CancelFunc
	nextSign time.Time // not before
}

// run works until the connection is of no more use. An error was noted in the Status.
func (s *session) run(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	s.q.cfg.Logger.Info("sequencing the book", "tree", s.tree.Tree, "size", s.edge.size)
	s.q.cfg.pause("loaded")
	for ctx.Err() == nil {
		wait := s.q.cfg.Poll
		more, err := s.sequence(ctx)
		if err != nil || s.whole {
			s.q.done(ctx, StepSequence, err)
		}
		switch {
		case err == nil && more:
			wait = 0
		case errors.Is(err, errStuck):
			// The rows that can have a place have one.
		case err != nil:
			wait = s.q.cfg.RetryEvery
			// A COMMIT that erred may have happened. What the database says now is true.
			if err := s.load(ctx); err != nil {
				return err
			}
			if more {
				wait = 0
			}
		}
		s.checkpoint(ctx)
		if err := s.wait(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the time, and stores what was signed meanwhile. Its error means that the connection is gone.
func (s *session) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-s.answers:
			s.signed(ctx, a)
			if s.conn.IsClosed() {
				return errors.New("the connection is closed")
			}
		case <-t.C:
			return nil
		}
	}
}

// end lets go of a signing under way: its signature is not stored. The next holder signs again.
func (s *session) end() {
	if s.answers != nil {
		s.cancel()
		<-s.answers
		s.answers = nil
	}
}

// load reads the epoch in force, begins its tree if it has none, and reads the tree's right edge and last checkpoint.
// A crash after a tree has begun leaves an empty tree, which the next load finds.
func (s *session) load(ctx context.Context) error {
	if s.conn.IsClosed() {
		return errors.New("the connection is closed")
	}
	err := s.tryLoad(ctx)
	s.q.done(ctx, StepLoad, err)
	return err
}

func (s *session) tryLoad(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.q.cfg.StepTimeout)
	defer cancel()
	if status := s.conn.PgConn().TxStatus(); status != 'I' {
		if _, err := s.conn.Exec(ctx, "rollback"); err != nil {
			return fmt.Errorf("rolling back: %w", cause(err))
		}
	}
	installation, epoch, err := s.q.cfg.Epoch(ctx, s.conn)
	if err != nil {
		return fmt.Errorf("reading the epoch: %w", cause(err))
	}
	origin := Origin(installation, epoch)
	if _, err := s.conn.Exec(ctx, beginTreeSQL, epoch, origin); err != nil {
		return fmt.Errorf("beginning the epoch's tree: %w", cause(err))
	}
	trees, err := Trees(ctx, s.conn)
	if err != nil {
		return err
	}
	s.installation, s.older, s.checked = installation, nil, false
	s.edge, s.last = nil, Stored{}
	for _, t := range trees {
		last, err := Latest(ctx, s.conn, t.Tree)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if t.Epoch != epoch {
			if t.Size > last.Size {
				s.older = append(s.older, t)
			}
			continue
		}
		if t.Origin != origin {
			return fmt.Errorf("tree %d of epoch %s has the origin %q, this installation's is %q", t.Tree, epoch, t.Origin, origin)
		}
		s.tree, s.last = t, last
		if s.edge, err = loadEdge(ctx, s.conn, t.Tree, t.Size); err != nil {
			return err
		}
	}
	if s.edge == nil {
		return fmt.Errorf("epoch %s has no tree although it was begun", epoch)
	}
	if s.last.Size > 0 && s.q.known[s.tree.Tree].Size < s.last.Size {
		// It may be that the holder before ended between storing it and taking it elsewhere.
		s.q.publish(s.last)
		s.q.known[s.tree.Tree] = s.last
	}
	s.report()
	return nil
}

// report brings the Status up to date.
func (s *session) report() {
	s.q.update(func(st *Status) {
		st.Holder, st.Tree, st.Epoch, st.Origin = true, s.tree.Tree, s.tree.Epoch, s.tree.Origin
		st.Size, st.Checkpoint = s.edge.size, s.last
	})
}

// violated is the constraint that refused, if one did.
func violated(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.ConstraintName
	}
	return ""
}
