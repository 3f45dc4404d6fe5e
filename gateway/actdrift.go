package gateway

import (
	"context"

	"bronzeward/gateway/control"
)

// SettleDrift proposes the change that settles a drift; see Gateway.ProposeDrift.
func (a *Acts) SettleDrift(ctx context.Context, by Actor, id control.DriftID, kind, why string, once *control.Once) (control.Change, bool, error) {
	name := ActDriftAdopt
	if kind == control.KindRevert {
		name = ActDriftRevert
	}
	c, created, entry, err := a.Gate.ProposeDrift(ctx, by, id, kind, why, once)
	if err == nil && a.Told != nil {
		a.Told(ctx, entry)
	}
	return c, created, a.replayed(ctx, by, name, id.String(), err)
}

// AdoptChange carries out an approved adoption; see Gateway.AdoptChange.
func (a *Acts) AdoptChange(ctx context.Context, by Actor, id control.ChangeID, once *control.Once) (control.Change, error) {
	ch, entry, err := a.Gate.AdoptChange(ctx, by, id, once)
	if err == nil && a.Told != nil {
		a.Told(ctx, entry)
	}
	return ch, a.replayed(ctx, by, ActChangesApply, id.String(), err)
}
