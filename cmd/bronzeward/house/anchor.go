package house

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"bronzeward/gateway"
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

// Memory is what OpenBao remembers, for a command that acts by itself.
type Memory struct{ place anchorPlace }

// Hold compares the database with it, as a gateway does when it starts: what is wrong is marked, and
// the law's judge then refuses the act as over HTTP. It gives the anchor that the acts are told to.
// An error says that the two could not be compared, or are not of one house: nothing is to be done then.
// Null holds nothing, and gives null.
func (m *Memory) Hold(ctx context.Context, store *control.Store, log *slog.Logger) (gateway.Anchor, error) {
	if m == nil {
		return nil, nil
	}
	if _, err := (&comparing{place: m.place, store: store, log: log}).check(ctx); err != nil {
		return nil, fmt.Errorf("comparing the database with what OpenBao remembers: %w", err)
	}
	return actsAnchor{rememberedAnchors{m.place, store}}, nil
}

// holdAnchor compares the database with what OpenBao remembers, before anything is taken, sequenced
// or signed; at the first start it has OpenBao remember the database's epoch, and how far its
// authority is. A database that is older than it was is served: reads go on, and nothing else. One of
// another house is not, because revocations and approvals of the one mean nothing in the other; and
// neither is any while OpenBao does not answer.
func holdAnchor(ctx context.Context, c *comparing, anchors anchors) error {
	s, err := c.check(ctx)
	if err != nil || s.found != nil || s.unfinished {
		return err
	}
	return raiseAnchor(ctx, anchors, s.snap)
}

// raiseAnchor tells what a snapshot knows of authority.
func raiseAnchor(ctx context.Context, anchors anchors, snap *control.Snapshot) error {
	_, err := anchors.Forward(ctx, func(a *vault.Anchor) { setAuthority(a, snap) })
	return err
}

// setAuthority puts in what a snapshot knows of authority.
func setAuthority(a *vault.Anchor, snap *control.Snapshot) {
	a.Installation = snap.InstallationID.String()
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
