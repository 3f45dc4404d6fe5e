package httpapi

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// entryID is the entry a request left in the book, told by whoever wrote it.
type entryID struct {
	mu sync.Mutex // guards id
	id uuid.UUID
}

type entryKey struct{}

func (e *entryID) set(id uuid.UUID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.id = id
}

// fallback sets the id unless whoever did the act has told it.
func (e *entryID) fallback(id uuid.UUID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.id == uuid.Nil {
		e.id = id
	}
}

func (e *entryID) get() uuid.UUID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id
}

// Decided tells the request that ctx belongs to which entry it left in the book, for the
// header Bronzeward-Decision. Whoever does an act calls it once the entry is durable; the
// last call counts. A context of no request is left alone.
func Decided(ctx context.Context, entry uuid.UUID) {
	if e, ok := ctx.Value(entryKey{}).(*entryID); ok && entry != uuid.Nil {
		e.set(entry)
	}
}
