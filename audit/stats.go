package audit

import (
	"sync/atomic"
	"time"
)

// Stats is a snapshot of a Book's counters since it was made. What was handed in is what was written, refused or is
// waiting: nothing is dropped, and the sums show it.
type Stats struct {
	Queued        int           // rows waiting for a batch now
	Blocked       int           // callers waiting for a place in the queue now, because it is full
	Parked        int           // outcomes nobody waits for that are not durable yet
	Batches       uint64        // transactions that committed
	Rows          uint64        // rows in them
	LargestBatch  uint64        // rows of the largest
	CommitTime    time.Duration // sum over Batches, from the first statement to the answer
	Stale         uint64        // entries refused because they were judged at another authority version
	RowsRefused   uint64        // rows the database refused
	Unavailable   uint64        // rows not known to be durable
	Unknown       uint64        // transactions whose COMMIT had no answer
	UnknownLasted uint64        // rows of those found durable afterwards
	Abandoned     uint64        // outcomes given up by Close
	Refusals      uint64        // calls of Refuse
}

type counters struct {
	batches, rows, largest, commitNanos                                   atomic.Uint64
	stale, rowsRefused, unavailable, unknown, lasted, abandoned, refusals atomic.Uint64
	blocked                                                               atomic.Int64
}

// Stats may be called at any time; its numbers are each exact, and not of one instant.
func (b *Book) Stats() Stats {
	c := &b.stats
	return Stats{
		Queued:        len(b.queue),
		Blocked:       int(c.blocked.Load()),
		Parked:        len(b.parked),
		Batches:       c.batches.Load(),
		Rows:          c.rows.Load(),
		LargestBatch:  c.largest.Load(),
		CommitTime:    time.Duration(c.commitNanos.Load()),
		Stale:         c.stale.Load(),
		RowsRefused:   c.rowsRefused.Load(),
		Unavailable:   c.unavailable.Load(),
		Unknown:       c.unknown.Load(),
		UnknownLasted: c.lasted.Load(),
		Abandoned:     c.abandoned.Load(),
		Refusals:      c.refusals.Load(),
	}
}

func (b *Book) committed(rows int, took time.Duration) {
	b.stats.batches.Add(1)
	b.stats.rows.Add(uint64(rows))
	b.stats.commitNanos.Add(uint64(took))
	for {
		old := b.stats.largest.Load()
		if uint64(rows) <= old || b.stats.largest.CompareAndSwap(old, uint64(rows)) {
			break
		}
	}
	if b.cfg.Observe != nil {
		b.cfg.Observe(rows, took)
	}
}
