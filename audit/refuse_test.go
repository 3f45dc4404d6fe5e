package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// forever is a window that only Close ends.
func forever(c *BookConfig) { c.RefusalWindow = 1000 * time.Hour }

func TestFloodOfRefusalsIsOneEntryPerAddressAndClass(t *testing.T) {
	for _, c := range []struct {
		name           string
		keys           int
		addresses      int
		entries, other int // rows, and how many calls the row "other" stands for
	}{
		{"each its own", 100, 4, 8, 0},
		{"more than fit", 3, 4, 4, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			b := newBook(t, db, func(cfg *BookConfig) {
				forever(cfg)
				cfg.RefusalKeys = c.keys
			})
			const each = 10
			var mu sync.Mutex
			ids := map[uuid.UUID]int64{}
			var wg sync.WaitGroup
			want := uint64(0)
			for range each {
				for a := range c.addresses {
					for _, class := range []string{"expired", "unknown-issuer"} {
						wg.Go(func() {
							r, err := b.Refuse(t.Context(), fmt.Sprintf("10.0.0.%d", a), class, Entry{Kind: KindRPC, Method: "/x/Y"})
							if err != nil {
								t.Error(err)
							}
							mu.Lock()
							ids[r.ID]++
							mu.Unlock()
						})
						want++
						eventually(t, "counted", func() bool { return b.Stats().Refusals == want })
					}
				}
			}
			if n := count(t, db.owner, "select count(*) from audit.entries"); n != 0 {
				t.Errorf("%d rows before the window ended", n)
			}
			b.Close()
			wg.Wait()
			if n := count(t, db.owner, "select count(*) from audit.entries where verdict = 'refuse'"); n != c.entries {
				t.Errorf("%d entries, want %d", n, c.entries)
			}
			if n := count(t, db.owner, "select sum(count) from audit.entries"); uint64(n) != want {
				t.Errorf("the entries stand for %d calls, want %d", n, want)
			}
			if n := count(t, db.owner, "select coalesce(sum(count), 0) from audit.entries where client_address = 'other' and class = 'other'"); n != c.other {
				t.Errorf("others: %d, want %d", n, c.other)
			}
			for id, n := range ids {
				if got := count(t, db.owner, "select count from audit.entries where id = $1", id); int64(got) != n {
					t.Errorf("%d callers hold the receipt of %s, which counts %d", n, id, got)
				}
			}
		})
	}
}

func TestRefusalIsAnsweredWhenItsWindowEnded(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, func(c *BookConfig) { c.RefusalWindow = soon })
	r, err := b.Refuse(t.Context(), "10.0.0.1\x00\xff", "expired", Entry{Kind: KindRPC, Verdict: Allowed, Count: 99})
	if err != nil {
		t.Fatal(err)
	}
	row, err := NewReader(db.gateway).Get(t.Context(), r.ID)
	if err != nil || row.Verdict != Refused || row.Count != 1 || row.ClientAddress != `10.0.0.1\x00\xff` || row.Class != "expired" {
		t.Errorf("%+v, %v", row, err)
	}
}

func TestRefusalOfACallerWhoLeavesIsCounted(t *testing.T) {
	db := newDatabase(t)
	b := newBook(t, db, forever)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Refuse(ctx, "10.0.0.1", "expired", Entry{Kind: KindRPC}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	b.Close()
	if n := count(t, db.owner, "select sum(count) from audit.entries"); n != 1 {
		t.Errorf("counted %d, want 1", n)
	}
}
