package httpapi

import (
	"context"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

func (d *door) listDrifts(c *call) (answer, error) {
	q := c.query("state", "machine", "limit", "cursor")
	f := control.DriftFilter{States: q.driftStates(), After: q.afterDrift()}
	limit, machine := q.limit(), q.text("machine", mostWord)
	f.Limit = limit + 1
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actDriftRead); err != nil {
		return nil, err
	}
	if machine != "" {
		m, err := d.machine(c.ctx, machine)
		if err != nil {
			return nil, err
		}
		f.MachineID = m.ID
	}
	found, err := d.Drifts.ListDrifts(c.ctx, f)
	if err != nil {
		return nil, err
	}
	page, next := pageOf(found, limit, func(one *control.Drift) string { return cursorOf(listOfDrifts, one.ID.String()) })
	body := api.DriftList{Items: make([]api.Drift, 0, len(page)), Next: next}
	for i := range page {
		body.Items = append(body.Items, viewDrift(&page[i]))
	}
	return api.ListDrifts200JSONResponse{Body: body}.VisitListDriftsResponse, nil
}

func (d *door) getDrift(c *call) (answer, error) {
	id, err := c.driftID()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actDriftRead); err != nil {
		return nil, err
	}
	drift, err := d.Drifts.GetDrift(c.ctx, id)
	if err != nil {
		return nil, err
	}
	return api.GetDrift200JSONResponse{Body: viewDrift(&drift)}.VisitGetDriftResponse, nil
}

func (d *door) adoptDrift(c *call) (answer, error) {
	return d.settleDrift(c, control.KindAdopt, func(v api.Change, created bool) answer {
		if !created {
			return api.AdoptDrift200JSONResponse{SameChangeJSONResponse: api.SameChangeJSONResponse{Body: v}}.VisitAdoptDriftResponse
		}
		return api.AdoptDrift201JSONResponse{CapturedChangeJSONResponse: api.CapturedChangeJSONResponse{Body: v}}.VisitAdoptDriftResponse
	})
}

func (d *door) revertDrift(c *call) (answer, error) {
	return d.settleDrift(c, control.KindRevert, func(v api.Change, created bool) answer {
		if !created {
			return api.RevertDrift200JSONResponse{SameChangeJSONResponse: api.SameChangeJSONResponse{Body: v}}.VisitRevertDriftResponse
		}
		return api.RevertDrift201JSONResponse{CapturedChangeJSONResponse: api.CapturedChangeJSONResponse{Body: v}}.VisitRevertDriftResponse
	})
}

// settleDrift is what adopting and reverting have in common: a change is proposed.
func (d *door) settleDrift(c *call, kind string, visit func(v api.Change, created bool) answer) (answer, error) {
	id, err := c.driftID()
	if err != nil {
		return nil, err
	}
	why, err := c.reason()
	if err != nil {
		return nil, err
	}
	once, err := once[control.Change](c, nil)
	if err != nil {
		return nil, err
	}
	change, created, err := d.Settlements.SettleDrift(c.ctx, c.by, id, kind, why, once)
	if err != nil {
		return c.repeated(err, actChangesRead, func(ref uuid.UUID) (answer, error) {
			v, err := d.wholeChange(c.ctx, control.ChangeID(ref))
			return visit(v, false), err
		})
	}
	if created {
		c.entry.fallback(change.EntryID)
	}
	v, err := d.wholeChange(c.ctx, change.ID)
	if err != nil {
		return nil, c.notShown("the change was captured as "+change.ID.String(), err)
	}
	return visit(v, created), nil
}

func (d *door) adoptChange(c *call) (answer, error) {
	id, err := c.changeID()
	if err != nil {
		return nil, err
	}
	if err := decode(c, &struct{}{}); err != nil {
		return nil, err
	}
	once, err := once[control.Change](c, nil)
	if err != nil {
		return nil, err
	}
	if _, err := d.Settlements.AdoptChange(c.ctx, c.by, id, once); err != nil {
		return c.repeated(err, actChangesRead, func(uuid.UUID) (answer, error) { return d.adopted(c.ctx, id) })
	}
	a, err := d.adopted(c.ctx, id)
	if err != nil {
		return nil, c.notShown("the drift is adopted by change "+id.String(), err)
	}
	return a, nil
}

// adopted is the change of an adoption as it stands.
func (d *door) adopted(ctx context.Context, id control.ChangeID) (answer, error) {
	change, err := d.Changes.GetChange(ctx, id)
	if err != nil {
		return nil, err
	}
	ended := api.EndedChangeJSONResponse{Body: viewChange(&change, nil, d.Authority.Epoch())}
	return api.AdoptChange200JSONResponse{EndedChangeJSONResponse: ended}.VisitAdoptChangeResponse, nil
}

// viewDrift is a drift as clients read it.
func viewDrift(d *control.Drift) api.Drift {
	return api.Drift{
		ID: d.ID.String(), State: api.DriftState(d.State), Machine: d.MachineName, MachineID: d.MachineID.String(), Cluster: d.Cluster, Since: d.Since.UTC(),
		Applied: api.Digests{Active: d.AppliedActive, Persistent: d.AppliedPersistent}, Found: api.Digests{Active: d.FoundActive, Persistent: d.FoundPersistent},
		Versions: api.DriftVersions{
			Before: api.Digests{Active: d.BeforeActive, Persistent: d.BeforePersistent}, Found: api.Digests{Active: d.ActiveVersion, Persistent: d.PersistentVersion},
		},
		Changes: viewConfigChanges(d.Changes), Compared: d.Known, Staged: d.Staged(), DecisionID: d.EntryID.String(),
		ClosedWith: closedWith(d), ClosedAt: utc(d.ClosedAt), ClosedDecisionID: idIfAny(d.ClosedEntryID), ChangeID: d.ChangeID.String(),
	}
}

// closedWith is what the machine held when a drift was closed; null while it is open.
func closedWith(d *control.Drift) *api.Digests {
	if d.State == control.DriftOpen {
		return nil
	}
	return &api.Digests{Active: d.ClosedActive, Persistent: d.ClosedPersistent}
}

// viewStaged is what the next reboot brings; null when that is what runs.
func viewStaged(n *control.Seen) *api.Staged {
	if n == nil || n.Staged == nil {
		return nil
	}
	return &api.Staged{Active: n.Active, Persistent: n.Persistent, At: n.At.UTC(), Changes: viewConfigChanges(n.Staged)}
}
