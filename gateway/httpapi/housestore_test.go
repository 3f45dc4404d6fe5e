package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// The acts of the stub.

func (h *house) Submit(ctx context.Context, _ identity.Actor, s control.Submission, once *control.Once) (control.Change, bool, error) {
	c, err := act(ctx, h, "submit", once, uuid.UUID(h.changes[0].ID), s, h.changes[0])
	return c, s.Set != "same", err
}

func (h *house) ApplyChange(ctx context.Context, _ identity.Actor, id control.ChangeID, once *control.Once) (control.Applied, error) {
	return act(ctx, h, "apply", once, h.attempts[0].ID, id, control.Applied{Attempt: h.attempts[0], Message: "applied"})
}

func (h *house) Approve(ctx context.Context, _ identity.Actor, list []control.ApproveOne, once *control.Once) ([]control.Approval, error) {
	return act(ctx, h, "approve", once, uuid.Nil, list, h.changes[0].Approvals)
}

func (h *house) Reject(ctx context.Context, _ identity.Actor, id control.ChangeID, reason string, once *control.Once) (control.Change, error) {
	return act(ctx, h, "reject", once, uuid.Nil, reason, h.changes[0])
}

func (h *house) Cancel(ctx context.Context, _ identity.Actor, id control.ChangeID, reason string, once *control.Once) (control.Change, error) {
	return act(ctx, h, "cancel", once, uuid.Nil, reason, h.changes[0])
}

func (h *house) RevokeApproval(ctx context.Context, _ identity.Actor, id control.ApprovalID, reason string, once *control.Once) (control.Approval, error) {
	return act(ctx, h, "revoke approval", once, uuid.Nil, id, h.changes[0].Approvals[0])
}

func (h *house) RevokeIdentity(ctx context.Context, _ identity.Actor, who policy.Person, reason string, once *control.Once) (control.IdentityRevocation, error) {
	return act(ctx, h, "revoke identity", once, uuid.Nil, who, control.IdentityRevocation{Person: who, Reason: reason, RevokedAt: begin})
}

func (h *house) AddMachines(ctx context.Context, _ identity.Actor, list []control.NewMachine, once *control.Once) (audit.Receipt, error) {
	return act(ctx, h, "add machines", once, uuid.Nil, list, h.receipt())
}

func (h *house) UpdateMachine(ctx context.Context, _ identity.Actor, name string, u control.MachineUpdate, once *control.Once) (audit.Receipt, error) {
	return act(ctx, h, "update "+name, once, uuid.Nil, u, h.receipt())
}

func (h *house) FreezeMachine(ctx context.Context, _ identity.Actor, name, reason string, once *control.Once) (control.Freeze, error) {
	return act(ctx, h, "freeze "+name, once, uuid.Nil, reason, control.Freeze{ID: numbered(41), Reason: reason, Since: begin, EntryID: numbered(42)})
}

func (h *house) UnfreezeMachine(ctx context.Context, _ identity.Actor, name, reason string, once *control.Once) (control.Freeze, error) {
	return act(ctx, h, "unfreeze "+name, once, uuid.Nil, reason, control.Freeze{
		ID: numbered(41), Since: begin, EntryID: numbered(42), Lifted: &control.Lifting{Reason: reason, At: begin, EntryID: numbered(43)},
	})
}

func (h *house) RetireMachine(ctx context.Context, _ identity.Actor, name, reason string, once *control.Once) (control.Machine, error) {
	return act(ctx, h, "retire "+name, once, uuid.Nil, reason, h.machines[0])
}

func (h *house) SetRolloutLimit(ctx context.Context, _ identity.Actor, cluster string, limit int) error {
	_, err := act(ctx, h, fmt.Sprintf("limit %s %d", cluster, limit), nil, uuid.Nil, limit, 0)
	return err
}

func (h *house) Freezes(context.Context, uuid.UUID) ([]control.Freeze, error) {
	return []control.Freeze{
		{ID: numbered(44), Reason: "again", Since: begin, EntryID: numbered(45)},
		{ID: numbered(41), Reason: "stop", Since: begin, EntryID: numbered(42), Lifted: &control.Lifting{Reason: "go", At: begin, EntryID: numbered(43)}},
	}, nil
}

func (h *house) ListClusters(context.Context) ([]control.Cluster, error) {
	return []control.Cluster{{Name: "berlin", RolloutLimit: 1}, {Name: "hamburg", RolloutLimit: 3}}, nil
}

func (h *house) Observe(ctx context.Context, _ identity.Actor, name string, once *control.Once) (control.Observation, error) {
	return act(ctx, h, "observe "+name, once, uuid.Nil, name, control.Observation{Version: "v1.13.6", Stage: "running", Type: "worker"})
}

func (h *house) Pin(ctx context.Context, _ identity.Actor, name string, replace bool, once *control.Once) (control.Identity, error) {
	return act(ctx, h, fmt.Sprintf("pin %s %v", name, replace), once, uuid.Nil, name, h.machines[0].Identity)
}

func (h *house) Account(ctx context.Context, _ identity.Actor, id uuid.UUID, landed bool, reason string, once *control.Once) (audit.Receipt, error) {
	return act(ctx, h, "account", once, uuid.Nil, reason, h.receipt())
}

func (h *house) IssueCertificate(ctx context.Context, _ identity.Actor, key crypto.PublicKey, lifetime time.Duration, once *control.Once) (control.IssuedCertificate, error) {
	return act(ctx, h, "issue", once, uuid.Nil, []any{key, lifetime}, control.IssuedCertificate{
		PEM: "-----BEGIN CERTIFICATE-----\n", Serial: "beef", NotAfter: begin.Add(time.Hour), Clusters: []string{"berlin"}, EntryID: numbered(78),
	})
}

func (h *house) ComputeDigest(ctx context.Context, _ identity.Actor, text []byte, once *control.Once) (control.ComputedDigest, error) {
	return act(ctx, h, "digest", once, uuid.Nil, text, control.ComputedDigest{
		Digest: "hmac-sha256:k2:bb", Under: map[string]string{"k1": "hmac-sha256:k1:aa", "k2": "hmac-sha256:k2:bb"}, EntryID: numbered(79),
	})
}

func (h *house) ListDigestKeys() []control.DigestKey {
	h.look()
	return []control.DigestKey{{Version: "k1"}, {Version: "k2", UsableFrom: begin}}
}

func (h *house) AddDigestKey(ctx context.Context, _ identity.Actor, once *control.Once) (control.AddedDigestKey, error) {
	return act(ctx, h, "add digest key", once, uuid.Nil, nil, control.AddedDigestKey{
		DigestKey: control.DigestKey{Version: "k3", UsableFrom: begin.Add(time.Minute)}, EntryID: numbered(80),
	})
}

// What the stub's store holds.

func (h *house) GetChange(_ context.Context, id control.ChangeID) (control.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked++
	i := slices.IndexFunc(h.changes, func(c control.Change) bool { return c.ID == id })
	if h.read != nil || i < 0 {
		return control.Change{}, cmp.Or[error](h.read, &control.ChangeError{Code: "BW-CHANGE-001", Message: "there is no change " + id.String()})
	}
	return h.changes[i], nil
}

func (h *house) ListChanges(_ context.Context, f control.ChangeFilter) ([]control.Change, error) {
	h.pauses()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked++
	h.last = f
	out := slices.Clone(h.changes)
	slices.SortFunc(out, func(a, b control.Change) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	out = slices.DeleteFunc(out, func(c control.Change) bool {
		return f.After != (control.ChangeID{}) && bytes.Compare(c.ID[:], f.After[:]) >= 0 ||
			len(f.States) > 0 && !slices.Contains(f.States, c.State) || f.MachineID != uuid.Nil && c.MachineID != f.MachineID
	})
	return out[:min(len(out), f.Limit)], h.read
}

func (h *house) GetReview(context.Context, control.ChangeID) (control.Review, error) {
	return h.review, h.read
}

func (h *house) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked++
}

func (h *house) looks() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.looked
}

func (h *house) GetMachine(_ context.Context, name string) (control.Machine, error) {
	h.look()
	for _, m := range h.machines {
		if m.Name == name {
			return m, h.read
		}
	}
	return control.Machine{}, fmt.Errorf("reading machine %q: %w", name, control.ErrNotFound)
}

func (h *house) Machine(_ context.Context, id uuid.UUID) (*control.Machine, error) {
	h.look()
	for i := range h.machines {
		if h.machines[i].ID == id {
			return &h.machines[i], h.read
		}
	}
	return nil, fmt.Errorf("reading machine %s: %w", id, control.ErrNotFound)
}

func (h *house) ListMachines(context.Context) ([]control.Machine, error) {
	return slices.Clone(h.machines), h.read
}

func (h *house) Timeline(_ context.Context, _ uuid.UUID, before control.TimelineItem, limit int) ([]control.TimelineItem, error) {
	out := h.timeline
	if before.ID != uuid.Nil {
		out = out[1+slices.IndexFunc(out, func(t control.TimelineItem) bool { return t.ID == before.ID && t.At.Equal(before.At) }):]
	}
	return out[:min(len(out), limit)], h.read
}

func (h *house) GetAttempt(_ context.Context, id uuid.UUID) (control.Attempt, error) {
	h.look()
	for _, a := range h.attempts {
		if a.ID == id {
			return a, h.read
		}
	}
	return control.Attempt{}, fmt.Errorf("reading attempt %s: %w", id, control.ErrNotFound)
}

func (h *house) ListAttempts(_ context.Context, f control.AttemptFilter) ([]control.Attempt, error) {
	var out []control.Attempt
	for _, a := range h.attempts {
		if (!f.Held || a.State.Held()) && (f.Before == uuid.Nil || bytes.Compare(a.ID[:], f.Before[:]) < 0) {
			out = append(out, a)
		}
	}
	return out[:min(len(out), f.Limit)], h.read
}

func (h *house) Revocations(context.Context) ([]control.IdentityRevocation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.revoked), h.read
}

func (h *house) Notices(context.Context, control.NoticeFilter) ([]control.Notice, error) {
	return h.notices, h.read
}
