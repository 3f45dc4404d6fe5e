package httpapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

// machine finds a machine by id or name.
func (d *door) machine(ctx context.Context, text string) (*control.Machine, error) {
	if id, ok := byID(text); ok {
		m, err := d.Machines.Machine(ctx, id)
		if !errors.Is(err, control.ErrNotFound) {
			return m, err
		}
	}
	m, err := d.Machines.GetMachine(ctx, text)
	return &m, err
}

// machineName is the name of a machine that is named by id or name, for an act. What is not
// found stays as it is: the act says so, after it has judged who asks.
func (d *door) machineName(ctx context.Context, text string) (string, error) {
	id, ok := byID(text)
	if !ok {
		return text, nil
	}
	m, err := d.Machines.Machine(ctx, id)
	if errors.Is(err, control.ErrNotFound) {
		return text, nil
	}
	if err != nil {
		return "", err
	}
	return m.Name, nil
}

// actOnMachine is the name of the machine of the path, for an act.
func (c *call) actOnMachine() (string, error) {
	text, err := c.word()
	if err != nil {
		return "", err
	}
	return c.machineName(c.ctx, text)
}

// holding are the attempts that hold machines now.
func (d *door) holding(ctx context.Context, f control.AttemptFilter) ([]control.Attempt, error) {
	f.Held, f.Limit = true, mostHolding
	return d.Attempts.ListAttempts(ctx, f)
}

// mostHolding is more attempts than can be open at once: each holds a machine, and a cluster
// has few.
const mostHolding = 1000

func (d *door) listMachines(c *call) (answer, error) {
	q := c.query("cluster", "all", "limit", "cursor")
	cluster, retired, limit, after := q.text("cluster", mostWord), q.flag("all"), q.limit(), q.afterMachine()
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actMachinesRead); err != nil {
		return nil, err
	}
	all, err := d.Machines.ListMachines(c.ctx)
	if err != nil {
		return nil, err
	}
	held, err := d.holding(c.ctx, control.AttemptFilter{})
	if err != nil {
		return nil, err
	}
	drifts, err := d.Drifts.OpenDrifts(c.ctx)
	if err != nil {
		return nil, err
	}
	seen, err := d.Drifts.LastSeen(c.ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b control.Machine) int { return cmp.Compare(a.Name, b.Name) })
	all = slices.DeleteFunc(all, func(m control.Machine) bool {
		return m.Name <= after || cluster != "" && m.Cluster != cluster || m.Retired != nil && !retired
	})
	page, next := pageOf(all, limit, func(m *control.Machine) string { return cursorOf(listOfMachines, m.Name) })
	body := api.MachineList{Items: make([]api.Machine, 0, len(page)), Next: next}
	house := d.houseHolds()
	for i := range page {
		m := &page[i]
		var last *control.Seen
		if one, ok := seen[m.ID]; ok {
			last = &one
		}
		var drift *control.Drift
		if at := slices.IndexFunc(drifts, func(one control.Drift) bool { return one.MachineID == m.ID }); at >= 0 {
			drift = &drifts[at]
		}
		body.Items = append(body.Items, viewMachine(m, last, held, drift, house))
	}
	return api.ListMachines200JSONResponse{Body: body}.VisitListMachinesResponse, nil
}

func (d *door) getMachine(c *call) (answer, error) {
	text, err := c.word()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actMachinesRead); err != nil {
		return nil, err
	}
	v, err := d.wholeMachine(c.ctx, text)
	if err != nil {
		return nil, err
	}
	return api.GetMachine200JSONResponse{OneMachineJSONResponse: api.OneMachineJSONResponse{Body: v}}.VisitGetMachineResponse, nil
}

func (d *door) wholeMachine(ctx context.Context, text string) (api.Machine, error) {
	m, err := d.machine(ctx, text)
	if err != nil {
		return api.Machine{}, err
	}
	held, err := d.holding(ctx, control.AttemptFilter{MachineID: m.ID})
	if err != nil {
		return api.Machine{}, err
	}
	watched, err := d.Drifts.Watch(ctx, m.ID)
	if err != nil {
		return api.Machine{}, err
	}
	v := viewMachine(m, watched.Seen, held, watched.Drift, d.houseHolds())
	if v.Staged != nil && *v.Staged {
		v.NextReboot = viewStaged(watched.Seen)
	}
	return v, nil
}

func (d *door) listTimeline(c *call) (answer, error) {
	text, err := c.word()
	if err != nil {
		return nil, err
	}
	q := c.query("limit", "cursor")
	limit, after := q.limit(), q.afterTimeline()
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actMachinesRead); err != nil {
		return nil, err
	}
	m, err := d.machine(c.ctx, text)
	if err != nil {
		return nil, err
	}
	found, err := d.History.Timeline(c.ctx, m.ID, after, limit+1)
	if err != nil {
		return nil, err
	}
	page, next := pageOf(found, limit, func(t *control.TimelineItem) string {
		return cursorOf(listOfTimeline, t.At.UTC().Format(time.RFC3339Nano), t.ID.String())
	})
	body := api.TimelineItemList{Items: make([]api.TimelineItem, 0, len(page)), Next: next}
	for i := range page {
		body.Items = append(body.Items, viewTimelineItem(&page[i]))
	}
	return api.ListTimeline200JSONResponse{Body: body}.VisitListTimelineResponse, nil
}
