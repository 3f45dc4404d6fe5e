package tree

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"
)

//go:embed queries/insert_checkpoint.sql
var insertCheckpointSQL string

// head is a tree as it is to be signed.
type head struct {
	tree Tree
	edge *edge
	last Stored // the checkpoint it was held to, Size 0 if there was none
}

// refusal is why a tree is not signed.
type refusal struct{ err error }

func (r *refusal) Error() string {
	return r.err.Error() + "; nothing of this tree is signed any more; `decisions verify` and `recovery status` say what is known"
}
func (r *refusal) Unwrap() error { return r.err }

// checkpoint holds the tree to its last checkpoint and has it signed, if it grew, if none is being signed, and if it is
// time. No transaction is open meanwhile, and rows get their places while the Signer is asked.
//
// Trees of earlier epochs come first: a holder that ended between sequencing and signing, before the epoch moved, left
// leaves at their end that nothing covers.
func (s *session) checkpoint(ctx context.Context) {
	if s.q.signer == nil || s.answers != nil || time.Now().Before(s.nextSign) || s.conn.IsClosed() {
		return
	}
	step, cancel := context.WithTimeout(ctx, s.q.cfg.StepTimeout)
	defer cancel()
	h, err := s.head(step)
	if h == nil && err == nil {
		return
	}
	var next Checkpoint
	if err == nil {
		next, err = s.check(step, h)
	}
	s.q.done(ctx, StepCheck, err)
	var no *refusal
	if errors.As(err, &no) {
		s.refuse(h.tree.Tree, no)
	}
	if err != nil {
		s.nextSign = time.Now().Add(s.q.cfg.RetryEvery)
		return
	}
	if h.tree.Tree == s.tree.Tree {
		s.checked = true
	} else {
		s.older = s.older[1:]
	}
	if next.Size == h.last.Size {
		return
	}
	// If the process ends here, the leaves are there and nothing covers the last of them; the next holder comes here again.
	s.q.cfg.pause("checked")
	s.nextSign = time.Now().Add(s.q.cfg.CheckpointEvery)
	ctx, s.cancel = context.WithTimeout(ctx, s.q.cfg.StepTimeout)
	answers := make(chan signed, 1)
	s.answers = answers
	go func() {
		begun := time.Now()
		var text []byte
		var err error
		if s.q.cfg.Permit != nil {
			err = s.q.cfg.Permit(ctx, h.tree, next)
		}
		if err == nil {
			text, err = s.q.signer.sign(ctx, next, h.last)
		}
		answers <- signed{head: *h, text: text, took: time.Since(begun), err: err}
	}()
}

// head is what to sign next, nil if there is nothing.
func (s *session) head(ctx context.Context) (*head, error) {
	for len(s.older) > 0 && s.q.refused[s.older[0].Tree] {
		s.older = s.older[1:]
	}
	h := &head{tree: s.tree, edge: s.edge}
	if len(s.older) > 0 {
		h.tree = s.older[0]
		var err error
		if h.edge, err = loadEdge(ctx, s.conn, h.tree.Tree, h.tree.Size); err != nil {
			return h, missing(err)
		}
	} else if s.q.refused[h.tree.Tree] || s.checked && s.edge.size == s.last.Size {
		return nil, nil
	}
	var err error
	if h.last, err = Latest(ctx, s.conn, h.tree.Tree); errors.Is(err, ErrNotFound) {
		err = nil
	}
	return h, err
}

// check demands that the tree begins with what was signed of it before: with the last stored checkpoint, and with the
// largest that this process saw stored. It returns the checkpoint to sign.
func (s *session) check(ctx context.Context, h *head) (Checkpoint, error) {
	c := Checkpoint{Origin: h.tree.Origin, Size: h.edge.size}
	for _, older := range []Stored{s.q.known[h.tree.Tree], h.last} {
		if h.edge.size < older.Size {
			return c, &refusal{fmt.Errorf("holding tree %d to its last checkpoint: %w: %d leaves were signed, it has %d", h.tree.Tree, ErrRolledBack, older.Size, h.edge.size)}
		}
	}
	if known := s.q.known[h.tree.Tree]; h.last.Size < known.Size {
		return c, &refusal{fmt.Errorf("holding tree %d to its last checkpoint: %w: the stored checkpoint of %d leaves is gone", h.tree.Tree, ErrRolledBack, known.Size)}
	}
	if h.edge.size == 0 {
		return c, nil
	}
	var err error
	if c.Root, err = h.edge.root(); err != nil {
		return c, err
	}
	for _, older := range []Stored{s.q.known[h.tree.Tree], h.last} {
		if older.Size == 0 {
			continue
		}
		proof, err := Consistency(ctx, s.conn, h.tree.Tree, older.Size, h.edge.size)
		if err != nil {
			return c, missing(err)
		}
		if err := CheckConsistency(older.Checkpoint, c, proof); err != nil {
			return c, &refusal{fmt.Errorf("holding tree %d to its last checkpoint: %w", h.tree.Tree, err)}
		}
	}
	return c, nil
}

// missing makes a refusal of an error that says that hashes are gone.
func missing(err error) error {
	if errors.Is(err, ErrMissing) {
		return &refusal{err}
	}
	return err
}

// refuse latches that nothing of the tree is signed any more.
func (s *session) refuse(tree int32, why *refusal) {
	s.q.refused[tree] = true
	s.q.update(func(st *Status) { st.Refused = why.Error() })
}

// signed is the answer of a signing.
type signed struct {
	head head
	text []byte // the note
	took time.Duration
	err  error
}

// signed stores what was signed, and hands it to the publishers.
func (s *session) signed(ctx context.Context, a signed) {
	s.cancel()
	s.answers = nil
	if s.q.cfg.Observe.Signed != nil {
		s.q.cfg.Observe.Signed(a.took, a.err)
	}
	err := a.err
	var stored Stored
	if err == nil {
		// If the process ends here, a signature is lost that nobody saw; the next holder asks for another.
		s.q.cfg.pause("signed")
		stored, err = s.store(ctx, a)
	}
	s.q.done(ctx, StepSign, err)
	switch {
	case errors.Is(err, ErrAbandoned):
		s.q.refused[a.head.tree.Tree] = true
		s.q.update(func(st *Status) { delete(st.Errors, StepSign) })
		return
	case errors.Is(err, ErrRolledBack), errors.Is(err, ErrForked):
		s.refuse(a.head.tree.Tree, &refusal{err})
		return
	}
	if err != nil {
		s.nextSign = time.Now().Add(s.q.cfg.RetryEvery)
		if a.head.tree.Tree != s.tree.Tree {
			s.older = append(s.older, a.head.tree)
		}
		return
	}
	// If the process ends here, the checkpoint is in the book and not elsewhere; the next holder publishes it.
	s.q.cfg.pause("stored")
	s.q.known[stored.Tree] = stored
	if stored.Tree == s.tree.Tree {
		s.last = stored
		s.report()
	}
	if s.q.cfg.Observe.Stored != nil {
		s.q.cfg.Observe.Stored(stored)
	}
	s.q.publish(stored)
}

func (s *session) store(ctx context.Context, a signed) (Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, s.q.cfg.StepTimeout)
	defer cancel()
	c, err := ReadUnverified(a.text) // sign verified it
	if err != nil {
		return Stored{}, err
	}
	if _, err := s.conn.Exec(ctx, insertCheckpointSQL, a.head.tree.Tree, c.Size, c.Root[:], string(a.text)); err != nil {
		return Stored{}, fmt.Errorf("storing a checkpoint: %w", cause(err))
	}
	stored, err := Latest(ctx, s.conn, a.head.tree.Tree)
	if err != nil {
		return Stored{}, err
	}
	if stored.Size != c.Size || stored.Root != c.Root {
		return Stored{}, fmt.Errorf("storing a checkpoint: one of %d leaves stands beside ours of %d", stored.Size, c.Size)
	}
	return stored, nil
}
