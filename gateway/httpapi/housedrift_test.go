package httpapi

import (
	"context"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// oneDrift is what the stub knows of drift.
func (h *house) oneDrift() control.Drift {
	return control.Drift{
		ID: control.DriftID(numbered(61)), MachineID: numbered(1), MachineName: "worker-1", Cluster: "berlin", State: control.DriftOpen, Since: begin,
		AppliedActive: "hmac-sha256:k1:aa", AppliedPersistent: "hmac-sha256:k1:aa", FoundActive: "hmac-sha256:k1:cc", FoundPersistent: "hmac-sha256:k1:dd",
		Changes: []policy.ConfigChange{{Document: "v1alpha1", Path: "machine.sysctls.x", Before: nil, After: "fp:00112233445566778899"}}, Known: true, EntryID: numbered(62),
	}
}

// settled is what the stub's settlements come to.
func (h *house) settled() control.Change {
	c := h.changes[0]
	c.Kind, c.Drift, c.Why = control.KindAdopt, control.DriftID(numbered(61)), "because"
	return c
}

func (h *house) SettleDrift(ctx context.Context, _ identity.Actor, _ control.DriftID, kind, why string, once *control.Once) (control.Change, bool, error) {
	c, err := act(ctx, h, kind, once, uuid.UUID(h.changes[0].ID), why, h.settled())
	return c, why != "same", err
}

func (h *house) AdoptChange(ctx context.Context, _ identity.Actor, id control.ChangeID, once *control.Once) (control.Change, error) {
	return act(ctx, h, "adopt change", once, uuid.UUID(id), id, h.settled())
}

func (h *house) GetDrift(_ context.Context, id control.DriftID) (control.Drift, error) {
	if d := h.oneDrift(); d.ID == id {
		return d, nil
	}
	return control.Drift{}, &control.ChangeError{Code: "BW-DRIFT-001", Message: "there is no drift " + id.String(), Hint: "bronzeward drift list"}
}

func (h *house) ListDrifts(context.Context, control.DriftFilter) ([]control.Drift, error) {
	return []control.Drift{h.oneDrift()}, nil
}

func (h *house) OpenDrifts(context.Context) ([]control.Drift, error) {
	return []control.Drift{h.oneDrift()}, nil
}

func (h *house) LastSeen(context.Context) (map[uuid.UUID]control.Seen, error) {
	d := h.oneDrift()
	return map[uuid.UUID]control.Seen{d.MachineID: {Active: d.FoundActive, Persistent: d.FoundPersistent, At: begin, Staged: d.Changes}}, nil
}

func (h *house) Watch(_ context.Context, id uuid.UUID) (control.Watched, error) {
	d := h.oneDrift()
	return control.Watched{Drift: &d, Seen: &control.Seen{Active: d.FoundActive, Persistent: d.FoundPersistent, At: begin, Staged: d.Changes}}, nil
}
