package httpapi

import (
	"context"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

func (d *door) listChanges(c *call) (answer, error) {
	q := c.query("state", "machine", "set", "requester", "requester_issuer", "limit", "cursor")
	f := control.ChangeFilter{States: q.states(), Set: q.text("set", mostWord), After: q.afterChange()}
	limit := q.limit()
	f.Limit = limit + 1
	machine := q.text("machine", mostWord)
	f.Requester = policy.Person{Issuer: q.text("requester_issuer", mostName), Subject: q.text("requester", mostName)}
	switch {
	case q.err != nil:
		return nil, q.err
	case f.Requester.Subject == "" && f.Requester.Issuer != "":
		return nil, malformed("the parameter requester_issuer goes with requester")
	case f.Requester.Subject != "" && f.Requester.Issuer == "":
		f.Requester.Issuer = c.by.Caller.Issuer
	}
	if err := c.reads(actChangesRead); err != nil {
		return nil, err
	}
	if machine != "" {
		m, err := d.machine(c.ctx, machine)
		if err != nil {
			return nil, err
		}
		f.MachineID = m.ID
	}
	return c.unlessKnown(f, func(ctx context.Context) (answer, error) {
		found, err := d.Changes.ListChanges(ctx, f)
		if err != nil {
			return nil, err
		}
		page, next := pageOf(found, limit, func(one *control.Change) string { return cursorOf(listOfChanges, one.ID.String()) })
		body := api.ChangeList{Items: make([]api.Change, 0, len(page)), Next: next}
		epoch := d.Authority.Epoch()
		for i := range page {
			body.Items = append(body.Items, viewChange(&page[i], nil, epoch))
		}
		return api.ListChanges200JSONResponse{Body: body}.VisitListChangesResponse, nil
	})
}

func (d *door) getChange(c *call) (answer, error) {
	id, err := c.changeID()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actChangesRead); err != nil {
		return nil, err
	}
	return c.unlessKnown(id, func(ctx context.Context) (answer, error) {
		v, err := d.wholeChange(ctx, id)
		if err != nil {
			return nil, err
		}
		return api.GetChange200JSONResponse{Body: v}.VisitGetChangeResponse, nil
	})
}

func (d *door) getChangeDiff(c *call) (answer, error) {
	id, err := c.changeID()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actChangesRead); err != nil {
		return nil, err
	}
	change, err := d.Changes.GetChange(c.ctx, id)
	if err != nil {
		return nil, err
	}
	review, err := d.Changes.GetReview(c.ctx, id)
	if err != nil {
		return nil, err
	}
	return api.GetChangeDiff200JSONResponse{Body: viewDiff(&change, &review)}.VisitGetChangeDiffResponse, nil
}

func (d *door) submitChange(c *call) (answer, error) {
	var body api.NewChange
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	set := ""
	if body.Set != nil {
		set = *body.Set
	}
	if p := firstProblem(
		checkText("machine", body.Machine, 1, mostWord),
		checkText("set", set, 0, mostWord),
		oneOf("mode", string(body.Mode), string(api.NoReboot)),
		filled("configuration", body.Configuration),
	); p != nil {
		return nil, p
	}
	name, err := d.machineName(c.ctx, body.Machine)
	if err != nil {
		return nil, err
	}
	once, err := once[control.Change](c, nil)
	if err != nil {
		return nil, err
	}
	change, created, err := d.Proposals.Submit(c.ctx, c.by,
		control.Submission{Machine: name, Text: []byte(body.Configuration), Mode: string(body.Mode), Set: set}, once)
	if err != nil {
		return c.repeated(err, actChangesRead, func(ref uuid.UUID) (answer, error) {
			return d.sameChange(c.ctx, control.ChangeID(ref))
		})
	}
	if !created {
		return d.sameChange(c.ctx, change.ID)
	}
	c.entry.fallback(change.EntryID)
	v, err := d.wholeChange(c.ctx, change.ID)
	if err != nil {
		return nil, c.notShown("the change was captured as "+change.ID.String(), err)
	}
	return api.SubmitChange201JSONResponse{CapturedChangeJSONResponse: api.CapturedChangeJSONResponse{Body: v}}.VisitSubmitChangeResponse, nil
}

// sameChange answers a proposal that was there already.
func (d *door) sameChange(ctx context.Context, id control.ChangeID) (answer, error) {
	v, err := d.wholeChange(ctx, id)
	if err != nil {
		return nil, err
	}
	return api.SubmitChange200JSONResponse{SameChangeJSONResponse: api.SameChangeJSONResponse{Body: v}}.VisitSubmitChangeResponse, nil
}

func (d *door) applyChange(c *call) (answer, error) {
	id, err := c.changeID()
	if err != nil {
		return nil, err
	}
	if err := decode(c, &struct{}{}); err != nil {
		return nil, err
	}
	once, err := once[control.Applied](c, nil)
	if err != nil {
		return nil, err
	}
	applied, err := d.Proposals.ApplyChange(c.ctx, c.by, id, once)
	if err != nil {
		return c.repeated(err, actAttemptsRead, func(ref uuid.UUID) (answer, error) {
			attempt, err := d.Attempts.GetAttempt(c.ctx, ref)
			if err != nil {
				return nil, err
			}
			return application(control.Applied{Attempt: attempt, Message: attempt.Reason}), nil
		})
	}
	c.entry.fallback(applied.Attempt.EntryID)
	return application(applied), nil
}

func application(applied control.Applied) answer {
	return api.ApplyChange201JSONResponse{Body: api.Application{
		Attempt: viewAttempt(&applied.Attempt), Warnings: list(applied.Warnings), Message: applied.Message,
	}}.VisitApplyChangeResponse
}

// wholeChange is a change with all that a person looks at before approving it.
func (d *door) wholeChange(ctx context.Context, id control.ChangeID) (api.Change, error) {
	change, err := d.Changes.GetChange(ctx, id)
	if err != nil {
		return api.Change{}, err
	}
	review, err := d.Changes.GetReview(ctx, id)
	if err != nil {
		return api.Change{}, err
	}
	return viewChange(&change, &review, d.Authority.Epoch()), nil
}
