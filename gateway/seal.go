package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
)

// Sealer keeps the exact bytes of changes from whoever reads the database. Context is
// authenticated with them: bytes sealed for one change open for no other. Safe for
// concurrent use.
type Sealer interface {
	Seal(ctx context.Context, plaintext, context []byte) ([]byte, error)
	Open(ctx context.Context, sealed, context []byte) ([]byte, error)
}

// sealWithin bounds the wait for a key that is a network away: a call that waits for it holds
// a connection to its machine.
const sealWithin = 10 * time.Second

// sealContext is what a change's bytes are sealed with.
func sealContext(id control.ChangeID, machine uuid.UUID, digest string) []byte {
	return fmt.Appendf(nil, "bronzeward/change/v1\x00%s\x00%s\x00%s", id, machine, digest)
}

// openChange gives the exact bytes of a change. An error is an outage of the sealer or the
// database, or says that the bytes are not those that were sealed: then nothing is sent.
func (g *Gateway) openChange(ctx context.Context, ch *control.Change) ([]byte, error) {
	sealed, err := g.store.Sealed(ctx, ch.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sealWithin)
	defer cancel()
	return g.sealer.Open(ctx, sealed, sealContext(ch.ID, ch.MachineID, ch.Digest))
}
