package tree

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"
)

//go:embed queries/take.sql
var takeSQL string

//go:embed queries/take_carefully.sql
var takeCarefullySQL string

//go:embed queries/tiles.sql
var tilesSQL string

// sequence looks for rows and runs one round. more is whether to call again at once. The state is not touched by a round
// that erred; the caller loads it anew.
func (s *session) sequence(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.q.cfg.StepTimeout)
	defer cancel()
	// Rows are seen in about the order of their time: those that come late, because their transaction was open for longer
	// than slack, are found by the next look at the whole queue.
	begun := time.Now()
	from := s.floor
	if s.whole = from == nil || !begun.Before(s.nextLook); s.whole {
		from = nil
	}
	if err := s.q.look(ctx, s.conn, from); err != nil {
		return false, err
	}
	if s.whole {
		s.nextLook = time.Now().Add(lookShare * time.Since(begun))
	}
	waiting := s.q.Status().Waiting
	if waiting == 0 {
		s.careful = s.careful && !s.whole
		return false, nil
	}
	installation, epoch, err := s.q.cfg.Epoch(ctx, s.conn)
	if err != nil {
		return false, fmt.Errorf("reading the epoch: %w", cause(err))
	}
	if epoch != s.tree.Epoch || installation != s.installation {
		s.q.cfg.Logger.Info("the epoch moved: the book goes on in another tree", "epoch", epoch.String())
		return true, s.load(ctx)
	}
	taken, err := s.round(ctx, from)
	if err != nil {
		// One row that can have no place must not keep the others from theirs.
		again := !s.careful && (violated(err) == "leaves_one_place" || violated(err) == "leaves_leaf_size")
		s.careful = s.careful || again
		return again, fmt.Errorf("sequencing rows: %w", cause(err))
	}
	if taken < min(waiting, s.q.cfg.Batch) {
		return false, errStuck
	}
	return taken == s.q.cfg.Batch || waiting == MaxWaiting, nil
}

// slack is for how long a transaction may usually be open between its row's time and its commit.
const slack = 2 * time.Second

// errStuck is the step's error while rows wait that no round can take.
var errStuck = errors.New("rows wait that can have no place: they are in neither table of the book, have no leaf, or have a place already; " +
	"`decisions verify` names them")

// round is one transaction: rows leave audit.unsequenced, get the next places of the tree in the order of (recorded_at,
// id), and the tiles that became full get their roots.
//
// What the round does not see, because its transaction is still open, a later round takes: order in the tree is the
// order of being seen. Rows of an earlier epoch that still wait go into the tree in use.
//
// Nothing fences this transaction but the primary key (tree, index) and the unique id: a holder that lost its lock
// unnoticed gives places that are taken, and gets nothing.
func (s *session) round(ctx context.Context, from *time.Time) (taken int, err error) {
	begun := time.Now()
	take := takeSQL
	if s.careful {
		take = takeCarefullySQL
	}
	var first pgx.Batch
	first.Queue("begin")
	var data []byte
	var last *time.Time
	first.Queue(take, s.tree.Tree, s.edge.size, s.q.cfg.Batch, from).QueryRow(func(row pgx.Row) error { return row.Scan(&taken, &data, &last) })
	if err := s.conn.SendBatch(ctx, &first).Close(); err != nil {
		return 0, err
	}
	if len(data) != taken*tlog.HashSize {
		return 0, fmt.Errorf("the database returned %d bytes of leaves for %d rows", len(data), taken)
	}
	// If the process ends here, the transaction rolls back: nothing happened.
	s.q.cfg.pause("rows taken")

	next := s.edge.clone()
	var tileLevels []int16
	var tileIndexes []int64
	var roots [][]byte
	for _, leaf := range split(data) {
		for _, t := range next.append(leaf) {
			tileLevels, tileIndexes, roots = append(tileLevels, int16(t.level)), append(tileIndexes, t.index), append(roots, t.root[:])
		}
	}
	var second pgx.Batch
	if len(roots) > 0 {
		second.Queue(tilesSQL, s.tree.Tree, tileLevels, tileIndexes, roots)
	}
	second.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the database answered %q to COMMIT", tag)
		}
		return nil
	})
	// If the process ends before the answer, the round happened or it did not: the next load sees which.
	if err := s.conn.SendBatch(ctx, &second).Close(); err != nil {
		return 0, err
	}
	// If the process ends here, the rows have their places, under no checkpoint yet. The next holder has them signed.
	s.q.cfg.pause("committed")
	s.edge = next
	if last != nil {
		floor := last.Add(-slack)
		s.floor = &floor
	}
	s.tree.Size = next.size
	s.report()
	if s.q.cfg.Observe.Sequenced != nil && taken > 0 {
		s.q.cfg.Observe.Sequenced(taken, time.Since(begun))
	}
	return taken, nil
}
