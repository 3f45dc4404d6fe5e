package house

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/control"
)

// ownEpoch is the epoch that this process serves. Another one begins with a recovery: the process
// that enters it goes on, and every other ends, so that nothing it holds in memory of the old one
// outlives it. Safe for concurrent use.
type ownEpoch struct {
	mu             sync.Mutex
	own, beginning uuid.UUID // guarded by mu
}

// begin says that this process is about to begin the epoch.
func (o *ownEpoch) begin(epoch uuid.UUID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.beginning = epoch
}

// serves is whether this process goes on in the epoch.
func (o *ownEpoch) serves(epoch uuid.UUID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if epoch == o.beginning {
		o.own = epoch
	}
	return epoch == o.own
}

// epochEvery is how often the epoch is looked at without being told that authority moved.
const epochEvery = 500 * time.Millisecond

// follow gives an error when another epoch began elsewhere, and nil when ctx ends.
func (o *ownEpoch) follow(ctx context.Context, store *control.Store, log *slog.Logger) error {
	tick := time.NewTicker(epochEvery)
	defer tick.Stop()
	for {
		snap := store.Snapshot()
		if !o.serves(snap.Epoch) {
			log.ErrorContext(ctx, "recovery was entered at another gateway: this process ends, and is to be started again", slog.String("epoch", snap.Epoch.String()))
			return cli.OtherEpoch(fmt.Errorf("recovery was entered at another gateway, and epoch %s began: start this one again", snap.Epoch))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-snap.Superseded():
		case <-tick.C:
		}
	}
}
