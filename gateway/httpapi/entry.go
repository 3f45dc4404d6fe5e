package httpapi

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"bronzeward/audit"
)

// leftEntry is the entry a request left in the book, told by whoever wrote it.
type leftEntry struct {
	mu      sync.Mutex // guards receipt
	receipt audit.Receipt
}

type entryKey struct{}

func (e *leftEntry) set(receipt audit.Receipt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.receipt = receipt
}

// fallback sets the entry by its id alone unless whoever did the act has told it.
func (e *leftEntry) fallback(id uuid.UUID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.receipt.ID == uuid.Nil {
		e.receipt = audit.Receipt{ID: id}
	}
}

func (e *leftEntry) get() audit.Receipt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.receipt
}

// Decided tells the request that ctx belongs to which entry it left in the book, for the
// headers Bronzeward-Decision and Bronzeward-Leaf. Whoever does an act calls it once the entry
// is durable; the last call counts. A context of no request is left alone.
func Decided(ctx context.Context, entry audit.Receipt) {
	if e, ok := ctx.Value(entryKey{}).(*leftEntry); ok && entry.ID != uuid.Nil {
		e.set(entry)
	}
}
