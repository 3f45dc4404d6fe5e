package httpapi

import (
	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

func (d *door) listAttempts(c *call) (answer, error) {
	q := c.query("machine", "held", "limit", "cursor")
	machine, limit := q.text("machine", mostWord), q.limit()
	f := control.AttemptFilter{Held: q.flag("held"), Before: q.afterAttempt(), Limit: limit + 1}
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actAttemptsRead); err != nil {
		return nil, err
	}
	if machine != "" {
		m, err := d.machine(c.ctx, machine)
		if err != nil {
			return nil, err
		}
		f.MachineID = m.ID
	}
	found, err := d.Attempts.ListAttempts(c.ctx, f)
	if err != nil {
		return nil, err
	}
	page, next := pageOf(found, limit, func(a *control.Attempt) string { return cursorOf(listOfAttempts, a.ID.String()) })
	body := api.AttemptList{Items: make([]api.Attempt, 0, len(page)), Next: next}
	for i := range page {
		body.Items = append(body.Items, viewAttempt(&page[i]))
	}
	return api.ListAttempts200JSONResponse{Body: body}.VisitListAttemptsResponse, nil
}

func (d *door) getAttempt(c *call) (answer, error) {
	id, err := c.attemptID()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actAttemptsRead); err != nil {
		return nil, err
	}
	attempt, err := d.Attempts.GetAttempt(c.ctx, id)
	if err != nil {
		return nil, err
	}
	return api.GetAttempt200JSONResponse{OneAttemptJSONResponse: api.OneAttemptJSONResponse{Body: viewAttempt(&attempt)}}.VisitGetAttemptResponse, nil
}

func (d *door) accountAttempt(c *call) (answer, error) {
	id, err := c.attemptID()
	if err != nil {
		return nil, err
	}
	var body api.NewAccounting
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	if p := checkText("reason", body.Reason, 1, mostName); p != nil {
		return nil, p
	}
	once, err := once[control.Attempt](c, nil)
	if err != nil {
		return nil, err
	}
	present := func(uuid.UUID) (answer, error) {
		attempt, err := d.Attempts.GetAttempt(c.ctx, id)
		if err != nil {
			return nil, err
		}
		return api.AccountAttempt200JSONResponse{OneAttemptJSONResponse: api.OneAttemptJSONResponse{Body: viewAttempt(&attempt)}}.VisitAccountAttemptResponse, nil
	}
	receipt, err := d.Accounts.Account(c.ctx, c.by, id, body.Landed, body.Reason, once)
	if err != nil {
		return c.repeated(err, actAttemptsRead, present)
	}
	c.entry.fallback(receipt.ID)
	a, err := present(uuid.Nil)
	if err != nil {
		return nil, c.notShown("attempt "+id.String()+" was accounted for", err)
	}
	return a, nil
}
