package audit

import (
	"context"
	"sync"
	"time"
)

// otherRefusals stands in client_address and class of the entry that a window's refusals share once it has RefusalKeys
// pairs.
const otherRefusals = "other"

// refusalKey is what one refusal entry stands for, within a window.
type refusalKey struct{ address, class string }

// refusal is an entry that still counts.
type refusal struct {
	entry   Entry // Count is guarded by refusals.mu
	timer   *time.Timer
	done    chan struct{} // closed when receipt and err are set
	receipt Receipt
	err     error
}

type refusals struct {
	mu     sync.Mutex
	open   map[refusalKey]*refusal // guarded by mu
	closed bool                    // guarded by mu
	flying sync.WaitGroup
}

// Refuse counts a refusal of somebody unproven. All refusals of one address and class within a window become one entry,
// the first one's, with their count; every caller waits until that entry is durable and gets the same receipt, so that no
// refusal is answered unrecorded and a flood is slowed down by its own record. When a window holds RefusalKeys pairs, the
// refusals of further pairs share one entry whose address and class are "other".
//
// Errors have ErrUnavailable in their chain. A caller whose ctx ends is counted all the same.
func (b *Book) Refuse(ctx context.Context, address, class string, e Entry) (Receipt, error) {
	r, err := b.count(refusalKey{escape(address), escape(class)}, e)
	if err != nil {
		return Receipt{}, err
	}
	select {
	case <-r.done:
		return r.receipt, r.err
	case <-ctx.Done():
		return Receipt{}, unavailable(context.Cause(ctx))
	}
}

func (b *Book) count(key refusalKey, e Entry) (*refusal, error) {
	b.refusals.mu.Lock()
	defer b.refusals.mu.Unlock()
	if b.refusals.closed {
		return nil, unavailable(ErrClosed)
	}
	b.stats.refusals.Add(1)
	r, ok := b.refusals.open[key]
	if !ok && len(b.refusals.open) >= b.cfg.RefusalKeys {
		key = refusalKey{otherRefusals, otherRefusals}
		r, ok = b.refusals.open[key]
	}
	if ok {
		r.entry.Count++
		return r, nil
	}
	e.ClientAddress, e.Class, e.Verdict, e.Count = key.address, key.class, Refused, 1
	r = &refusal{entry: e, done: make(chan struct{})}
	b.refusals.open[key] = r
	// The window is the clock's, so that an entry's count is about one second and not about "a second since".
	window := b.cfg.RefusalWindow
	b.refusals.flying.Add(1)
	r.timer = time.AfterFunc(window-time.Duration(time.Now().UnixNano()%int64(window)), func() { b.flush(key, r) })
	return r, nil
}

// flush takes the refusal out of the map, so that later ones begin another, and writes it.
func (b *Book) flush(key refusalKey, r *refusal) {
	defer b.refusals.flying.Done()
	b.refusals.mu.Lock()
	if b.refusals.open[key] == r {
		delete(b.refusals.open, key)
	}
	b.refusals.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.BatchTimeout+b.cfg.UnknownTimeout)
	defer cancel()
	r.receipt, r.err = b.Write(ctx, r.entry)
	if r.err != nil {
		b.cfg.Logger.Error("refusals not recorded", "class", r.entry.Class, "count", r.entry.Count, "error", r.err)
	}
	close(r.done)
}

// flushRefusals writes all that count now and lets no other begin.
func (b *Book) flushRefusals() {
	b.refusals.mu.Lock()
	b.refusals.closed = true
	for key, r := range b.refusals.open {
		if r.timer.Stop() {
			go b.flush(key, r)
		}
	}
	b.refusals.mu.Unlock()
	b.refusals.flying.Wait()
}
