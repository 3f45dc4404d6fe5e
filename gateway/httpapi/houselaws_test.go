package httpapi

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// packed is the shipped law as OPA packs one.
var packed = func() string {
	b, err := policy.Shipped()
	if err != nil {
		panic(err)
	}
	out, err := b.Packed()
	if err != nil {
		panic(err)
	}
	return string(out)
}()

const lawRevision = "1f4af3731c21b68007e1797cccc5eba0f81fa3aaf6e81b4862b5db4b71bdaa97"

func (h *house) onLaw(ctx context.Context, what string, once *control.Once, given any) (string, audit.Receipt, error) {
	revision, err := act(ctx, h, what, once, uuid.Nil, given, lawRevision)
	return revision, h.receipt(), err
}

func (h *house) BringLaw(ctx context.Context, _ identity.Actor, archive []byte, once *control.Once) (string, audit.Receipt, error) {
	_, receipt, err := h.onLaw(ctx, "save law", once, len(archive))
	if err != nil {
		return "", receipt, err
	}
	b, err := policy.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return "", receipt, err
	}
	return b.Revision(), receipt, nil
}

func (h *house) ApproveLaw(ctx context.Context, _ identity.Actor, name string, once *control.Once) (string, audit.Receipt, error) {
	return h.onLaw(ctx, "approve law "+name, once, name)
}

func (h *house) ActivateLaw(ctx context.Context, _ identity.Actor, name, replay string, once *control.Once) (string, audit.Receipt, error) {
	return h.onLaw(ctx, "activate law "+name, once, name+replay)
}

func (h *house) RollBackLaw(ctx context.Context, _ identity.Actor, name, replay string, once *control.Once) (string, audit.Receipt, error) {
	return h.onLaw(ctx, "roll back law "+name, once, name+replay)
}

func (h *house) SavedLaw(context.Context, string) (*policy.Bundle, error) {
	if h.fails != nil {
		return nil, h.fails
	}
	return policy.Shipped()
}

func (h *house) LiveLaw(context.Context) (control.LiveLaw, error) {
	all, err := h.BundleActivations(context.Background())
	if err != nil {
		return control.LiveLaw{}, err
	}
	at := begin
	return control.LiveLaw{Activation: &all[0], Proof: &control.BundleProof{KeyID: "2026", Counter: 7}, Replicas: control.Replicas{
		Live: lawRevision, Counter: 2, List: []control.Replica{
			{Instance: "gateway-1", Process: numbered(71), Loaded: lawRevision, Counter: 2, LoadedAt: &at, Wanted: lawRevision, Version: "1.0.0", StartedAt: begin, HeardAt: begin},
			{Instance: "gateway-2", Process: numbered(72), Wanted: lawRevision, FailedWhy: "the key 2026 is missing", StartedAt: begin, HeardAt: begin, Silent: 61 * time.Second},
		},
	}}, nil
}

func (h *house) LawDifference(_ context.Context, from, _ string) (policy.Difference, error) {
	if h.fails != nil {
		return policy.Difference{}, h.fails
	}
	return policy.Difference{
		From: from, To: lawRevision, Files: []policy.FileDifference{{Path: "bronzeward/data.yaml", How: policy.DiffChanged}},
		Rules: []policy.RuleDifference{{Code: "BW-SITE-001", Title: "a rule", How: policy.DiffAdded, File: "bronzeward/rules/site/site.rego"}},
		Data:  []policy.DataDifference{{Key: "quorum.required", How: policy.DiffChanged, Before: []byte("1"), After: []byte("2")}, {Key: "x", How: policy.DiffAdded, After: []byte("{}")}},
	}, nil
}

func (h *house) BundleActivations(context.Context) ([]control.BundleActivation, error) {
	if h.fails != nil {
		return nil, h.fails
	}
	return []control.BundleActivation{
		{Counter: 2, Revision: lawRevision, Way: control.WayRollback, Signed: 7, Required: 1, Person: policy.Person{Issuer: "i", Subject: "sven"}, EntryID: numbered(61), At: begin},
		{Counter: 1, Revision: lawRevision, Way: control.WayActivate, EntryID: numbered(60), At: begin},
	}, nil
}
