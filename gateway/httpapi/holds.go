package httpapi

import (
	"context"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/identity"
)

func (d *door) listFreezes(c *call) (answer, error) {
	text, err := c.word()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actMachinesRead); err != nil {
		return nil, err
	}
	m, err := d.machine(c.ctx, text)
	if err != nil {
		return nil, err
	}
	found, err := d.Machines.Freezes(c.ctx, m.ID)
	if err != nil {
		return nil, err
	}
	body := api.FreezeList{Items: make([]api.Freeze, 0, len(found))}
	for i := range found {
		body.Items = append(body.Items, viewFreeze(m.Name, &found[i]))
	}
	return api.ListFreezes200JSONResponse{Body: body}.VisitListFreezesResponse, nil
}

func (d *door) freezeMachine(c *call) (answer, error) {
	return d.setFreeze(c, d.Closings.FreezeMachine, func(body api.OneFreezeJSONResponse) answer {
		return api.FreezeMachine201JSONResponse{OneFreezeJSONResponse: body}.VisitFreezeMachineResponse
	})
}

func (d *door) unfreezeMachine(c *call) (answer, error) {
	return d.setFreeze(c, d.Closings.UnfreezeMachine, func(body api.OneFreezeJSONResponse) answer {
		return api.UnfreezeMachine201JSONResponse{OneFreezeJSONResponse: body}.VisitUnfreezeMachineResponse
	})
}

// freezing sets or lifts a freeze.
type freezing func(ctx context.Context, by identity.Actor, name, reason string, once *control.Once) (control.Freeze, error)

func (d *door) setFreeze(c *call, do freezing, visit func(api.OneFreezeJSONResponse) answer) (answer, error) {
	name, err := c.actOnMachine()
	if err != nil {
		return nil, err
	}
	var body api.NewFreeze
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	if p := checkText("reason", body.Reason, 1, mostName); p != nil {
		return nil, p
	}
	set := func(f control.Freeze) answer { return visit(api.OneFreezeJSONResponse{Body: viewFreeze(name, &f)}) }
	once, err := once(c, set)
	if err != nil {
		return nil, err
	}
	f, err := do(c.ctx, c.by, name, body.Reason, once)
	if err != nil {
		return c.repeated(err, actMachinesRead, nil)
	}
	return set(f), nil
}

func (d *door) retireMachine(c *call) (answer, error) {
	name, err := c.actOnMachine()
	if err != nil {
		return nil, err
	}
	var body api.NewRetirement
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	if p := checkText("reason", body.Reason, 1, mostName); p != nil {
		return nil, p
	}
	once, err := once[control.Machine](c, nil)
	if err != nil {
		return nil, err
	}
	present := func(uuid.UUID) (answer, error) {
		v, err := d.wholeMachine(c.ctx, name)
		if err != nil {
			return nil, err
		}
		return api.RetireMachine201JSONResponse{RetiredMachineJSONResponse: api.RetiredMachineJSONResponse{Body: v}}.VisitRetireMachineResponse, nil
	}
	if _, err := d.Closings.RetireMachine(c.ctx, c.by, name, body.Reason, once); err != nil {
		return c.repeated(err, actMachinesRead, present)
	}
	a, err := present(uuid.Nil)
	if err != nil {
		return nil, c.notShown("machine "+name+" was retired", err)
	}
	return a, nil
}

func (d *door) listClusters(c *call) (answer, error) {
	if err := c.onlyReads(actClustersRead); err != nil {
		return nil, err
	}
	found, err := d.clusters(c.ctx)
	if err != nil {
		return nil, err
	}
	return api.ListClusters200JSONResponse{Body: api.ClusterList{Items: found}}.VisitListClustersResponse, nil
}

func (d *door) updateCluster(c *call) (answer, error) {
	name, err := c.word()
	if err != nil {
		return nil, err
	}
	var body api.ClusterUpdate
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	if err := d.Closings.SetRolloutLimit(c.ctx, c.by, name, body.RolloutLimit); err != nil {
		return nil, err
	}
	all, err := d.clusters(c.ctx)
	for i := range all {
		if all[i].Name == name {
			return api.UpdateCluster200JSONResponse{Body: all[i]}.VisitUpdateClusterResponse, nil
		}
	}
	return nil, c.notShown("the rollout limit of cluster "+name+" was set", err)
}

// clusters are all of them, with the attempts that use up their limits.
func (d *door) clusters(ctx context.Context) ([]api.Cluster, error) {
	found, err := d.Machines.ListClusters(ctx)
	if err != nil {
		return nil, err
	}
	machines, err := d.Machines.ListMachines(ctx)
	if err != nil {
		return nil, err
	}
	held, err := d.holding(ctx, control.AttemptFilter{})
	if err != nil {
		return nil, err
	}
	out := make([]api.Cluster, 0, len(found))
	for _, one := range found {
		v := api.Cluster{Name: one.Name, RolloutLimit: one.RolloutLimit, Holds: []api.Hold{}}
		for i := range machines {
			if machines[i].Cluster == one.Name && machines[i].Retired == nil {
				v.Machines++
			}
		}
		for i := range held {
			if held[i].Cluster == one.Name {
				v.Holds = append(v.Holds, viewHold(held[i].Hold("cluster")))
			}
		}
		out = append(out, v)
	}
	return out, nil
}

func viewFreeze(machine string, f *control.Freeze) api.Freeze {
	v := api.Freeze{ID: f.ID.String(), Machine: machine, By: viewPerson(f.By), Since: f.Since.UTC(), Reason: f.Reason, DecisionID: f.EntryID.String()}
	if l := f.Lifted; l != nil {
		v.Lifted = &api.Lifting{By: viewPerson(l.By), At: l.At.UTC(), Reason: l.Reason, DecisionID: l.EntryID.String()}
	}
	return v
}

func viewRetirement(r *control.Retirement) *api.Retirement {
	if r == nil {
		return nil
	}
	return &api.Retirement{By: viewPerson(r.By), At: r.At.UTC(), Reason: r.Reason, DecisionID: r.EntryID.String()}
}
