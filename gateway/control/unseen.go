package control

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// unseen is whether the evidence of a decision shows a drift that no sight has opened yet: an
// apply may come before the watch has looked. It judges as a sight does, under the same locks: the
// serial has not moved since it was noted, nothing is under way, digests are of one key, and no
// attempt that was accounted for has landed since. Where a drift is open that one holds.
func unseen(ctx context.Context, tx pgx.Tx, r Request, v *view) (bool, error) {
	m := &v.locked.Machine
	switch {
	case r.Serial == 0 || r.Serial != m.Serial || v.locked.Drift != nil || v.holder(m.ID) != nil:
		return false, nil
	case !sameKey(m.ActiveDigest, r.Active) || !sameKey(m.PersistentDigest, r.Persistent):
		return false, nil // digests of two keys are never compared
	case m.ActiveDigest == r.Active && m.PersistentDigest == r.Persistent:
		return false, nil
	}
	a, err := explaining(ctx, tx, m.ID, r.Active)
	if err != nil {
		return false, err
	}
	return a == nil || !a.mayLandLate(v.locked.Now) || !a.explains(m, r.Active, r.Persistent), nil
}
