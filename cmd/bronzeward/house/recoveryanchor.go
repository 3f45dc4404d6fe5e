package house

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
)

// rememberedAnchors is the anchor that the database remembers having written: an OpenBao that is
// older than the database is not written to.
type rememberedAnchors struct {
	place anchorPlace
	store *control.Store
}

// Forward implements anchors.
func (r rememberedAnchors) Forward(ctx context.Context, raise func(*vault.Anchor)) (vault.Anchor, error) {
	least, err := r.store.AnchorVersion(ctx)
	if err != nil {
		return vault.Anchor{}, err
	}
	there, version, err := r.place.ForwardOver(ctx, int(least), raise)
	if err != nil {
		return there, err
	}
	// A crash here leaves an anchor that is newer than the database knows, which is no sign of anything.
	return there, r.store.RememberAnchor(ctx, int64(version))
}

// change is a change of recovery, remembered.
func (c *comparing) change(ctx context.Context, change func(*vault.Anchor) error) (vault.Anchor, error) {
	there, version, err := c.place.Change(ctx, change)
	if err != nil {
		return there, err
	}
	return there, c.store.RememberAnchor(ctx, int64(version))
}

// Begin implements gateway.RecoveryAnchor. The two are compared before: whoever enters in the seconds
// until a restore is noticed has it written down what was lost.
func (c *comparing) Begin(ctx context.Context, old, next uuid.UUID) (uuid.UUID, int64, string, error) {
	if _, err := c.check(ctx); err != nil {
		return uuid.Nil, 0, "", err
	}
	there, _, err := c.place.Change(ctx, func(a *vault.Anchor) error {
		if a.Epoch == "" {
			a.Epoch = old.String()
		}
		if pending, err := uuid.Parse(a.Pending); err != nil || pending == old {
			a.Pending = next.String()
		}
		a.Installation = c.store.InstallationID().String()
		return nil
	})
	if err != nil {
		return uuid.Nil, 0, "", err
	}
	epoch, err := uuid.Parse(there.Pending)
	return epoch, there.Size, there.Root, err
}

// Finish implements gateway.RecoveryAnchor.
func (c *comparing) Finish(ctx context.Context, epoch uuid.UUID) error {
	snap, err := c.store.Refresh(ctx, 0)
	if err != nil {
		return err
	}
	if snap.Epoch != epoch {
		return fmt.Errorf("the database is of epoch %s, not of %s", snap.Epoch, epoch)
	}
	_, err = c.change(ctx, func(a *vault.Anchor) error {
		if a.Epoch == epoch.String() {
			return nil
		}
		*a = vault.Anchor{
			Installation: snap.InstallationID.String(), Epoch: epoch.String(), AuthorityVersion: snap.AuthorityVersion, Revocations: snap.Revocations(),
			Written: a.Written, Recovering: true, Old: &vault.Head{Epoch: a.Epoch, Size: a.Size, Root: a.Root},
		}
		return nil
	})
	return err
}

// Unfinished implements gateway.RecoveryAnchor.
func (c *comparing) Unfinished(ctx context.Context, epoch uuid.UUID) (bool, error) {
	a, _, err := c.place.Read(ctx)
	return err == nil && a.Epoch != epoch.String(), err
}

// End implements gateway.RecoveryAnchor.
func (c *comparing) End(ctx context.Context, epoch uuid.UUID) error {
	_, err := c.change(ctx, func(a *vault.Anchor) error {
		if a.Epoch != epoch.String() {
			return &vault.Error{
				Doing: "ending the recovery", Class: vault.ErrRefused, Kind: vault.KindOtherEpoch,
				Reason: "OpenBao was not told that the epoch began: enter recovery once more, which tells it",
			}
		}
		a.Recovering = false
		return nil
	})
	return err
}

// permit is asked before a head is signed: what the anchor remembers must be the beginning of it. So
// a tree that was forged, with all its checkpoints deleted, is not signed.
func (c *comparing) permit(ctx context.Context, of tree.Tree, next tree.Checkpoint) error {
	const doing = "asking OpenBao what was signed before"
	wrote, err := c.store.AnchorVersion(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	a, version, err := c.place.Read(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case int64(version) < wrote:
		return fmt.Errorf("%s: OpenBao is older than this database", doing)
	case version == 0:
		return nil
	}
	remembered := vault.Head{Epoch: a.Epoch, Size: a.Size, Root: a.Root}
	epoch, abandoned := of.Epoch.String(), false
	switch {
	case a.Epoch == epoch && a.Latched != nil:
		return fmt.Errorf("%s: %s", doing, a.Latched.Message)
	case a.Epoch == epoch:
	case a.Pending == epoch:
		return fmt.Errorf("%s: entering recovery was cut short; enter it once more", doing)
	case a.Old != nil && a.Old.Epoch == epoch:
		remembered, abandoned = *a.Old, true
	case of.Epoch == c.store.Snapshot().Epoch:
		return fmt.Errorf("%s: OpenBao remembers epoch %s, and not %s", doing, a.Epoch, epoch)
	default:
		return fmt.Errorf("%s: OpenBao remembers nothing of epoch %s: %w", doing, epoch, tree.ErrAbandoned)
	}
	err = c.begins(ctx, of, next, remembered)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, tree.ErrRolledBack) && !errors.Is(err, tree.ErrForked) && !errors.Is(err, tree.ErrMissing):
		return fmt.Errorf("%s: %w", doing, err)
	case abandoned:
		return fmt.Errorf("%s: %w: %w", doing, tree.ErrAbandoned, err)
	}
	if _, bad := c.check(ctx); bad != nil { // latches it; when it cannot, the timer does
		return fmt.Errorf("%s: %w; %w", doing, err, bad)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// begins demands that a head begins with one that is remembered.
func (c *comparing) begins(ctx context.Context, of tree.Tree, next tree.Checkpoint, remembered vault.Head) error {
	if remembered.Size == 0 {
		return nil
	}
	older := tree.Checkpoint{Origin: next.Origin, Size: remembered.Size}
	root, err := hex.DecodeString(remembered.Root)
	if err != nil || len(root) != tlog.HashSize {
		return errors.New("the anchor's root is no hash")
	}
	copy(older.Root[:], root)
	var proof tlog.TreeProof
	if next.Size > older.Size {
		if proof, err = tree.Consistency(ctx, c.store.Pool(), of.Tree, older.Size, next.Size); err != nil {
			return err
		}
	}
	return tree.CheckConsistency(older, next, proof)
}
