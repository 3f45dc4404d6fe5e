package audit

import (
	"context"
	"errors"
	"time"
)

// item is one row on its way.
type item struct {
	statement
	ctx     context.Context // the caller's; the row of one who left before it was sent is not written
	done    chan result     // one place; nil when parked
	guarded bool            // an entry: its transaction takes the guard
	judged  bool            // version must be the guard's
	version int64
	parked  bool // nobody waits: tried again until it is durable or the Book closes
	// unsure is the server's process that may still commit this row, after a COMMIT without answer; zero if there is
	// none. The row is looked for before it is sent again.
	unsure uint32
}

type result struct {
	receipt Receipt
	err     error
}

// tries is how often a transaction is begun: pooled connections may all be dead after a restart of the database, and
// two in a row say that it is not back yet.
const tries = 3

// commitLoop takes what has arrived as one batch, until the queue is closed and empty.
func (b *Book) commitLoop() {
	for first := range b.queue {
		batch := append(make([]*item, 0, 1+min(len(b.queue), b.cfg.MaxBatch-1)), first)
		for more := true; more && len(batch) < b.cfg.MaxBatch; {
			select {
			case it, open := <-b.queue:
				if more = open; open {
					batch = append(batch, it)
				}
			default:
				more = false
			}
		}
		batch = b.gather(batch)
		// Not the callers' contexts: one who leaves must not take the others' transaction along.
		ctx, cancel := context.WithTimeout(context.Background(), b.cfg.BatchTimeout)
		b.write(ctx, b.present(batch))
		cancel()
	}
}

// holdParked is how long outcomes that nobody waits for stay back for an entry, or for each
// other: a transaction of their own for each would cost as much as the entry's did.
const holdParked = 5 * time.Millisecond

// gather waits a moment for more while a batch holds only what nobody waits for.
func (b *Book) gather(batch []*item) []*item {
	for _, it := range batch {
		if !it.parked {
			return batch
		}
	}
	late := time.NewTimer(holdParked)
	defer late.Stop()
	for len(batch) < b.cfg.MaxBatch {
		select {
		case it, open := <-b.queue:
			if !open {
				return batch
			}
			batch = append(batch, it)
			if !it.parked {
				return batch
			}
		case <-late.C:
			return batch
		}
	}
	return batch
}

// present answers the items whose caller has gone and those that an earlier COMMIT made durable, and returns the others.
func (b *Book) present(batch []*item) []*item {
	live := batch[:0]
	for _, it := range batch {
		if err := context.Cause(it.ctx); err != nil {
			b.answer(it, Receipt{}, err)
		} else if it.unsure == 0 {
			live = append(live, it)
		} else if found, err := b.find([]*item{it}, it.unsure); err != nil {
			b.answer(it, Receipt{}, err)
		} else if r, ok := found[it.id]; ok {
			b.answer(it, r, nil)
		} else {
			it.unsure = 0
			live = append(live, it)
		}
	}
	return live
}

// write runs transactions until every item is answered.
func (b *Book) write(ctx context.Context, items []*item) {
	ensured := false
	for try := 1; len(items) > 0; try++ {
		t := transaction{book: b, items: items}
		end, err := t.run(ctx)
		items = t.items // without those that were stale
		again := try < tries && ctx.Err() == nil && passing(err)
		switch {
		case end == committed:
			return
		case end == unknown:
			b.resolve(items, t.pid, err)
			return
		case end == refused && noPartition(err) && !ensured:
			// The month turned and nobody made its partition.
			ensured = true
			if _, err := EnsurePartitions(ctx, b.cfg.Pool, PartitionsAhead); err != nil {
				b.cfg.Logger.Error("no partition for this month", "error", err)
			}
		case end == refused && noPartition(err) && oneTable(items):
			for _, it := range items {
				b.answer(it, Receipt{}, err)
			}
			return
		case end == refused && len(items) > 1 && rowsFault(err):
			// Only the row that the database refuses is refused, and its neighbours wait for a few transactions more.
			first, rest := split(items, err)
			b.write(ctx, first)
			items, try = rest, 0
		case again:
		case end == unguarded:
			// Entries cannot be written without the guard, outcomes can.
			rest := make([]*item, 0, len(items))
			for _, it := range items {
				if it.guarded {
					b.answer(it, Receipt{}, err)
				} else {
					rest = append(rest, it)
				}
			}
			items = rest
		default:
			for _, it := range items {
				b.answer(it, Receipt{}, err)
			}
			return
		}
	}
}

// passing is whether a new connection or another moment may help.
func passing(err error) bool {
	var row *RowError
	if !errors.As(err, &row) || row.noPartition() {
		return true
	}
	switch row.SQLState[:min(2, len(row.SQLState))] {
	case "08", "40", "53", "57", "58":
		return true
	}
	return false
}

// rowsFault is whether a row may be to blame, so that its neighbours can be written without it: not where the server has
// no room, no connection or no time for any row. Memory is a row's fault too, when the row is large.
func rowsFault(err error) bool {
	var row *RowError
	return errors.As(err, &row) && (!passing(err) || row.noPartition() || row.SQLState == "53200")
}

// split parts items that the database refused together, so that in the end a refused row is alone. Where a partition is
// missing, it is missing for all of one table. items are at least two; neither part is empty.
func split(items []*item, err error) (first, rest []*item) {
	if noPartition(err) {
		for _, it := range items {
			if it.outcome {
				first = append(first, it)
			} else {
				rest = append(rest, it)
			}
		}
		return first, rest // oneTable has answered what is of one
	}
	half := len(items) / 2
	return items[:half:half], items[half:]
}

func oneTable(items []*item) bool {
	for _, it := range items {
		if it.outcome != items[0].outcome {
			return false
		}
	}
	return true
}

func noPartition(err error) bool {
	var row *RowError
	return errors.As(err, &row) && row.noPartition()
}
