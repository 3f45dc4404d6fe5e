package control

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// highest is the highest authority version that this process has read of an epoch. A database that
// is restored under a running gateway is noticed by it at once: the comparison with the anchor only
// comes around every few seconds. Safe for concurrent use.
type highest struct {
	mu      sync.Mutex
	epoch   uuid.UUID // guarded by mu
	version int64     // guarded by mu
}

// mark is what was known before something was asked.
type mark struct {
	epoch   uuid.UUID
	version int64
}

// before is taken before the version is asked for: whatever is answered then is as high, or the
// database went back.
func (h *highest) before() mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return mark{h.epoch, h.version}
}

// hold holds an answer against what was known before it was asked for. When it is lower the house is
// doubtful to this process, until the version is reached again or another epoch has begun.
func (h *highest) hold(was mark, epoch uuid.UUID, version int64, now time.Time, into *Standing) {
	if was.epoch == epoch && version < was.version {
		if !into.Stops() {
			*into = Standing{State: RecoveryRolledBack, Since: now, Message: fmt.Sprintf(
				"this database is older than it was: it is at authority version %d, and this gateway has seen version %d of it", version, was.version)}
		}
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch != epoch {
		h.epoch, h.version = epoch, version
	}
	h.version = max(h.version, version)
}
