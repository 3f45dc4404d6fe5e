package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bronzeward/gateway/vault"
)

// holdAnchor has OpenBao remember the database's epoch at the first start, and refuses a database
// of another one at every start after that: revocations and approvals of the one mean nothing in
// the other. epoch and now are the database's.
func holdAnchor(ctx context.Context, anchors anchors, epoch string, now time.Time) error {
	there, version, err := anchors.Read(ctx)
	if err == nil && version == 0 {
		_, err = anchors.Write(ctx, vault.Anchor{Epoch: epoch, Written: now}, 0)
		if known := (*vault.Error)(nil); errors.As(err, &known) && known.Kind == vault.KindMoved {
			there, version, err = anchors.Read(ctx) // another replica was first, or it was deleted
		} else if err == nil {
			return nil
		}
	}
	switch {
	case err != nil:
		return err
	case version == 0:
		return errors.New("the anchor in OpenBao was deleted: bring it back (bao kv undelete), or remove what is left of it to begin anew (bao kv metadata delete -mount=bronzeward anchor)")
	case there.Epoch != epoch:
		return fmt.Errorf("OpenBao remembers the epoch %s, and this database is of epoch %s: one of them is not the other's; docs/outages.md says what to do", there.Epoch, epoch)
	}
	return nil
}

// anchors is OpenBao's memory of the book.
type anchors interface {
	Read(ctx context.Context) (vault.Anchor, int, error)
	Write(ctx context.Context, next vault.Anchor, over int) (int, error)
}
