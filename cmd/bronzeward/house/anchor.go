package house

import (
	"context"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
)

// anchors is OpenBao's memory of the book and of authority.
type anchors interface {
	Forward(ctx context.Context, raise func(*vault.Anchor)) (vault.Anchor, error)
}

// watchedAnchors tells of the size each Forward found or made.
type watchedAnchors struct {
	anchors
	seen func(size int64)
}

// Forward implements anchors.
func (w watchedAnchors) Forward(ctx context.Context, raise func(*vault.Anchor)) (vault.Anchor, error) {
	there, err := w.anchors.Forward(ctx, raise)
	if err == nil {
		w.seen(there.Size)
	}
	return there, err
}

// holdAnchor has OpenBao remember the database's epoch, and how far its authority is, at the first
// start, and refuses a database of another epoch at every start after that: revocations and
// approvals of the one mean nothing in the other.
func holdAnchor(ctx context.Context, anchors anchors, snap *control.Snapshot) error {
	_, err := anchors.Forward(ctx, func(a *vault.Anchor) { setAuthority(a, snap) })
	return err
}

// setAuthority puts in what a snapshot knows of authority.
func setAuthority(a *vault.Anchor, snap *control.Snapshot) {
	a.Epoch, a.AuthorityVersion, a.Revocations = snap.Epoch.String(), snap.AuthorityVersion, snap.Revocations()
}

// actsAnchor is the anchor as the gateway's acts tell it.
type actsAnchor struct{ anchors anchors }

// ForwardAuthority implements gateway.Anchor.
func (a actsAnchor) ForwardAuthority(ctx context.Context, epoch uuid.UUID, version, revocations int64) error {
	_, err := a.anchors.Forward(ctx, func(there *vault.Anchor) {
		there.Epoch, there.AuthorityVersion, there.Revocations = epoch.String(), version, revocations
	})
	return err
}
