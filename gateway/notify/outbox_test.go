package notify

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
)

// outbox is control.Store's promise in memory, with a clock that tests move.
type outbox struct {
	mu   sync.Mutex // guards what follows
	now  time.Time
	rows map[uuid.UUID]*control.Notice
	// waits are what failed tries were put off by, in order.
	waits []time.Duration
	// lost makes outcomes vanish, as the end of the process would.
	lost bool
	// down makes claiming err.
	down error
	// ended gets the id of every notice that ends.
	ended chan uuid.UUID
}

func newOutbox(notices int) *outbox {
	o := &outbox{now: time.Unix(1_700_000_000, 0).UTC(), rows: map[uuid.UUID]*control.Notice{}, ended: make(chan uuid.UUID, 1000)}
	for range notices {
		o.add()
	}
	return o
}

func (o *outbox) add() control.Notice {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := control.Notice{
		ID: uuid.Must(uuid.NewV7()), ChangeID: control.ChangeID(uuid.Must(uuid.NewV7())),
		State: control.NoticeWaiting, NextAt: o.now, CreatedAt: o.now,
	}
	o.rows[n.ID] = &n
	return n
}

func (o *outbox) advance(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = o.now.Add(d)
}

// only is the one notice there is.
func (o *outbox) only(t testing.TB) control.Notice {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rows) != 1 {
		t.Fatalf("%d notices", len(o.rows))
	}
	for _, n := range o.rows {
		return *n
	}
	panic("unreachable")
}

func (o *outbox) ClaimNotices(_ context.Context, n int, lease time.Duration) ([]control.Notice, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down != nil {
		return nil, o.down
	}
	var out []control.Notice
	for _, row := range o.rows {
		if len(out) < n && row.State == control.NoticeWaiting && !row.NextAt.After(o.now) {
			row.Tries, row.NextAt = row.Tries+1, o.now.Add(lease)
			out = append(out, *row)
		}
	}
	return out, nil
}

func (o *outbox) NoticeSent(_ context.Context, id uuid.UUID) error {
	return o.move(id, 0, func(n *control.Notice) { n.State = control.NoticeSent })
}

func (o *outbox) NoticeFailed(_ context.Context, id uuid.UUID, try int, why string, next time.Duration) error {
	return o.move(id, try, func(n *control.Notice) {
		n.Error, n.NextAt = why, o.now.Add(next)
		o.waits = append(o.waits, next)
	})
}

func (o *outbox) NoticeDead(_ context.Context, id uuid.UUID, try int, why string) error {
	return o.move(id, try, func(n *control.Notice) { n.Error, n.State = why, control.NoticeDead })
}

func (o *outbox) move(id uuid.UUID, try int, move func(*control.Notice)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.rows[id]; !o.lost && n.State == control.NoticeWaiting && (try == 0 || try == n.Tries) {
		if move(n); n.State != control.NoticeWaiting {
			o.ended <- id
		}
	}
	return nil
}

func (o *outbox) NoticeCounts(context.Context) (map[string]int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down != nil {
		return nil, o.down
	}
	counts := map[string]int{control.NoticeWaiting: 0, control.NoticeDead: 0}
	for _, n := range o.rows {
		if n.State != control.NoticeSent {
			counts[n.State]++
		}
	}
	return counts, nil
}
