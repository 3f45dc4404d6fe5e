package httpapi

import (
	"context"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

func (h *house) RecoveryStatus(context.Context) (control.RecoveryStatus, error) {
	return control.RecoveryStatus{
		Standing: control.Standing{State: control.RecoveryEntered}, Epoch: numbered(90),
		Entered: &control.Recovery{
			Epoch: numbered(90), OldEpoch: numbered(91), Found: control.Found{State: control.RecoveryRolledBack, LostRows: 12, LostFrom: &begin, OldSize: 40},
			By: policy.Person{Issuer: "i", Subject: "rhea"}, Reason: "restored", EntryID: numbered(92), EnteredAt: begin,
		},
		Machines: []control.HeldMachine{{Name: "worker-1", Cluster: "berlin", ObservedAt: &begin, Matches: true}, {Name: "worker-2", ReleasedAt: &begin}},
		Items:    []control.RecoveryItem{{Name: "release", Open: true, Text: "1 machine was observed and not released: worker-1", Do: "bronzeward recovery release NAME"}},
	}, nil
}

func (h *house) EnterRecovery(ctx context.Context, _ identity.Actor, reason string, once *control.Once) (control.Recovery, error) {
	return act(ctx, h, "enter recovery", once, uuid.Nil, reason, control.Recovery{EntryID: h.receipt().ID})
}

func (h *house) ReleaseMachine(ctx context.Context, _ identity.Actor, name string, once *control.Once) (audit.Receipt, error) {
	return act(ctx, h, "release "+name, once, uuid.Nil, name, h.receipt())
}

func (h *house) ExitRecovery(ctx context.Context, _ identity.Actor, settled bool, reason string, once *control.Once) (audit.Receipt, error) {
	return act(ctx, h, "exit recovery", once, uuid.Nil, []any{settled, reason}, h.receipt())
}
