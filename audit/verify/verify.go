package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sync/errgroup"
)

// ErrMonth is in the chain of the error for a month that is not written as 2026-01.
var ErrMonth = errors.New("no month")

// DefaultLimit is how many findings of each kind a report lists.
const DefaultLimit = 100

// Options say what is verified, and with what.
type Options struct {
	// Since and Until bound the rows that are read, by recorded_at: from Since on, before Until. Zero is without bound. The
	// leaves, the tree and the checkpoints are verified whole all the same.
	Since, Until time.Time
	// Kept are checkpoints from the auditor's own disk.
	Kept []Kept
	// Keys are the public keys of the checkpoints (tree.ParseKeys). nil: signatures are not checked.
	Keys note.Verifiers
	// Detached are months, as 2026-01, whose records may be away.
	Detached []string
	// Limit is how many findings of each kind are listed; 0 is DefaultLimit. All are counted.
	Limit int
	// Readers is how many connections read rows; 0 is 2.
	Readers int
	// Progress, if not nil, is called from time to time by one goroutine, with how much of how much is done.
	Progress func(done, total int64)

	stride  int64 // another than stride
	pending int   // another than pendingLimit
}

// Report is what was verified and what was found.
type Report struct {
	Whole    bool           `json:"whole"`
	Findings []Finding      `json:"findings"`
	Counts   map[Kind]int64 `json:"counts"` // all findings, also those that are not listed
	Trees    []TreeReport   `json:"trees"`
	Entries  int64          `json:"entries"`
	Outcomes int64          `json:"outcomes"`
	Waiting  int64          `json:"waiting"` // rows that have no leaf yet
	// Recoveries are what the database says of those that were entered, oldest first, and Mark what
	// the gateways found of it now; null when nothing. Neither makes the book less whole in itself: what
	// is lost is nowhere here to be compared with.
	Recoveries []Recovery `json:"recoveries"`
	Mark       *Mark      `json:"mark"`
	// Away is how many leaves are of detached months that were named.
	Away int64 `json:"away"`
	// SignaturesChecked is false when no public key was given.
	SignaturesChecked bool          `json:"signatures_checked"`
	Since             time.Time     `json:"since,omitzero"`
	Until             time.Time     `json:"until,omitzero"`
	At                time.Time     `json:"at"` // database clock when the snapshot was taken
	Took              time.Duration `json:"took_ns"`
}

// TreeReport is about one tree.
type TreeReport struct {
	Tree   int32     `json:"tree"`
	Epoch  uuid.UUID `json:"epoch"`
	Origin string    `json:"origin"`
	Leaves int64     `json:"leaves"`
	Tiles  int64     `json:"tiles"`
	// Checkpoints are those stored, Agreed those that the leaves give, Unknown those that leaves are missing for.
	Checkpoints int64 `json:"checkpoints"`
	Agreed      int64 `json:"agreed"`
	Unknown     int64 `json:"unknown"`
	Signatures  int64 `json:"signatures"`  // checked
	KeptAgreed  int64 `json:"kept_agreed"` // kept files that the leaves give
}

// Book verifies the whole book, in one snapshot. config is a login in the role bronzeward_auditor; up to six connections
// are opened, and closed again. What is wrong with the book is in the report; an error says that it could not be verified:
// with ErrUnavailable in its chain when the database is away, ErrKept or ErrMonth when the options are wrong.
func Book(ctx context.Context, config *pgx.ConnConfig, o Options) (Report, error) {
	begun := time.Now()
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	if o.Readers <= 0 {
		o.Readers = 2
	}
	v := &verification{options: o, found: newFindings(o.Limit), accepts: map[string]bool{}}
	for _, text := range o.Detached {
		m, err := month(text)
		if err != nil {
			return Report{}, fmt.Errorf("%w: %q is not written as 2026-01", ErrMonth, text)
		}
		v.accepts[m] = true
	}
	s, err := open(ctx, config)
	if err != nil {
		return Report{}, fmt.Errorf("verifying the book: %w", err)
	}
	defer s.close()
	if err := v.run(ctx, s); err != nil {
		return Report{}, fmt.Errorf("verifying the book: %w", err)
	}
	r := v.report
	r.Findings, r.Counts = v.found.list()
	r.Whole = len(r.Counts) == 0
	r.SignaturesChecked, r.Since, r.Until = o.Keys != nil, o.Since, o.Until
	r.At, r.Took = moment(s.now), time.Since(begun)
	return r, nil
}

// verification is one call of Book.
type verification struct {
	options Options
	found   *findings
	accepts map[string]bool
	report  Report

	entries, outcomes, leaves atomic.Int64 // read so far
}

func (v *verification) run(ctx context.Context, s *session) error {
	trees, err := readTrees(ctx, s.base, v.found)
	if err != nil {
		return err
	}
	kept, err := keptHeads(v.options.Kept, trees, v.options.Keys, v.found)
	if err != nil {
		return err
	}
	if v.report.Recoveries, v.report.Mark, err = readRecoveries(ctx, s.base); err != nil {
		return err
	}
	m := newMatcher(v.found, &lookups{s.base})
	m.since, m.until = microsOf(v.options.Since), microsOf(v.options.Until)
	m.pending = cmp.Or(v.options.pending, m.pending)
	m.bushes, m.accepts = newSuspects(v.found), v.accepts
	if m.covers, err = m.look.coverage(ctx); err != nil {
		return err
	}
	list, err := chunks(ctx, s.base, trees, cmp.Or(v.options.stride, stride), m.since, m.until)
	if err != nil {
		return err
	}

	var terms *termSums
	if s.terms {
		terms = newTermSums(list)
	}
	group, gctx := errgroup.WithContext(ctx)
	readers := make([]*rowReader, v.options.Readers)
	for i := range readers {
		conn, err := s.join(ctx)
		if err != nil {
			return err
		}
		readers[i] = &rowReader{conn: conn, out: make(chan []row, chunkBatches), counts: [2]*atomic.Int64{&v.entries, &v.outcomes}, terms: terms}
	}
	leafConn, err := s.join(ctx)
	if err != nil {
		return err
	}
	sideConn, err := s.join(ctx)
	if err != nil {
		return err
	}
	for i, r := range readers {
		group.Go(func() error {
			for k := i; k < len(list); k += len(readers) {
				if err := r.read(gctx, k, list[k]); err != nil {
					return err
				}
			}
			if i == 0 && terms != nil {
				return terms.read(gctx, r.conn)
			}
			return nil
		})
	}
	leaves := make(chan []leaf, 2*stride/tileSize)
	group.Go(func() error {
		defer close(leaves)
		return v.walk(gctx, leafConn, sideConn, trees, kept, m.bushes, leaves)
	})
	group.Go(func() error { return m.run(gctx, list, readers, leaves) })
	stop := v.watch(trees, m.since != 0 || m.until != 0)
	err = group.Wait()
	stop()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	m.bushes.resolve()
	if terms != nil {
		if err := terms.localise(ctx, readers[0].conn, m.look, v.found); err != nil {
			return err
		}
	}
	v.report.Entries, v.report.Outcomes, v.report.Waiting = v.entries.Load(), v.outcomes.Load(), m.waiting
	for k, n := range m.away {
		if v.accepts[k.month] {
			v.report.Away += n
		}
	}
	if err := waitingFaults(ctx, s.base, v.found); err != nil {
		return err
	}
	outside, err := s.connect(ctx)
	if err != nil {
		return err
	}
	return tooLong(ctx, outside, s.now, v.found)
}

// walk goes over all trees, one after the other.
func (v *verification) walk(ctx context.Context, conn, side *pgx.Conn, trees []treeRow, kept map[int32][]*head, s *suspects, out chan<- []leaf) error {
	emit := func(batch []leaf) error {
		if len(batch) == 0 {
			return nil
		}
		select {
		case out <- batch:
			return nil
		case <-ctx.Done():
			return errStop
		}
	}
	v.report.Trees = []TreeReport{}
	for _, t := range trees {
		tiles, err := openTiles(ctx, side, t.tree)
		if err != nil {
			return err
		}
		heads := &headReader{conn: side, tree: t, keys: v.options.Keys, found: v.found, kept: kept[t.tree]}
		for _, h := range heads.kept {
			h.reader = heads
		}
		w := newTreeWalk(t, v.found, tiles, heads, s, emit)
		if err := w.run(ctx, conn, func() { v.leaves.Add(1) }); err != nil {
			return err
		}
		v.report.Trees = append(v.report.Trees, TreeReport{
			Tree: t.tree, Epoch: t.epoch, Origin: t.origin, Leaves: w.next, Tiles: tiles.read, Checkpoints: heads.read,
			Agreed: heads.agreed, Unknown: heads.unknown, Signatures: heads.signatures, KeptAgreed: heads.keptAgreed,
		})
	}
	return nil
}

// watch calls Progress twice a second until the function it gives is called.
func (v *verification) watch(trees []treeRow, some bool) func() {
	if v.options.Progress == nil {
		return func() {}
	}
	var total int64
	for _, t := range trees {
		total += 2 * t.size
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				leaves := v.leaves.Load()
				if some { // how many rows the range has is not known
					v.options.Progress(leaves, total/2)
				} else {
					v.options.Progress(min(leaves+v.entries.Load()+v.outcomes.Load(), total), total)
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

func microsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
