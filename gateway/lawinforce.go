package gateway

import (
	"context"
	"fmt"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// lawInForce is the live law as this process may judge by it: storedLaw, and where keys are pinned its counter is
// above all that were live before, or somebody went back to it on purpose. Whoever made it live may have pinned no
// key, and then asked for no counter.
func lawInForce(ctx context.Context, store *control.Store, keys policy.Keys, revision string) (*policy.Bundle, error) {
	bundle, signed, err := storedLaw(ctx, store, keys, revision)
	if err != nil || len(keys) == 0 {
		return bundle, err
	}
	highest, counts, err := counted(ctx, store, revision, signed.Counter)
	if err != nil {
		return nil, err
	}
	if !counts {
		return nil, &policy.SignatureError{
			KeyID:   signed.KeyID,
			Message: fmt.Sprintf("the law %.12s carries the counter %d, and a law with the counter %d was live before it", revision, signed.Counter, highest),
			Hint:    fmt.Sprintf("sign it with a counter above %d and save it (bronzeward policy save --direct DIR, from a configuration without policy.keys), or from there go back to a law that was live: bronzeward policy rollback --direct REVISION", highest),
		}
	}
	return bundle, nil
}

// counted says whether the live law with this counter is above all that were live before, of which highest is the
// highest, or somebody went back to it.
func counted(ctx context.Context, store *control.Store, revision string, counter int64) (highest int64, counts bool, err error) {
	way, highest, err := store.BundleCame(ctx, revision)
	return highest, way == control.WayRollback || counter > highest, err
}
