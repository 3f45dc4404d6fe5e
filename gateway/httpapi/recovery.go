package httpapi

import (
	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

func (d *door) getRecovery(c *call) (answer, error) {
	if err := c.onlyReads(actMachinesRead); err != nil {
		return nil, err
	}
	status, err := d.Recoveries.RecoveryStatus(c.ctx)
	if err != nil {
		return nil, err
	}
	return api.GetRecovery200JSONResponse{OneRecoveryJSONResponse: api.OneRecoveryJSONResponse{Body: viewRecovery(&status)}}.VisitGetRecoveryResponse, nil
}

// recoveryNow is the answer of every act of recovery: how it stands now. done says what was done, for when that cannot be
// read.
func (d *door) recoveryNow(c *call, done string) (answer, error) {
	status, err := d.Recoveries.RecoveryStatus(c.ctx)
	if err != nil {
		return nil, c.notShown(done, err)
	}
	return api.GetRecovery200JSONResponse{OneRecoveryJSONResponse: api.OneRecoveryJSONResponse{Body: viewRecovery(&status)}}.VisitGetRecoveryResponse, nil
}

func (d *door) enterRecovery(c *call) (answer, error) {
	var body api.Reason
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	if p := checkText("reason", body.Reason, 1, mostName); p != nil {
		return nil, p
	}
	once, err := once[control.Recovery](c, nil)
	if err != nil {
		return nil, err
	}
	done, err := d.Recoveries.EnterRecovery(c.ctx, c.by, body.Reason, once)
	if err != nil {
		return c.repeated(err, actMachinesRead, func(uuid.UUID) (answer, error) { return d.recoveryNow(c, "recovery was entered") })
	}
	c.entry.fallback(done.EntryID)
	return d.recoveryNow(c, "recovery was entered")
}

func (d *door) releaseMachine(c *call) (answer, error) {
	name, err := c.actOnMachine()
	if err != nil {
		return nil, err
	}
	if err := decode(c, &struct{}{}); err != nil {
		return nil, err
	}
	once, err := once[control.Recovery](c, nil)
	if err != nil {
		return nil, err
	}
	receipt, err := d.Recoveries.ReleaseMachine(c.ctx, c.by, name, once)
	if err != nil {
		return c.repeated(err, actMachinesRead, func(uuid.UUID) (answer, error) { return d.recoveryNow(c, "machine "+name+" was released") })
	}
	c.entry.fallback(receipt.ID)
	return d.recoveryNow(c, "machine "+name+" was released")
}

func (d *door) exitRecovery(c *call) (answer, error) {
	var body api.NewRecoveryEnding
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	reason, settled := "", body.RevocationsSettled != nil && *body.RevocationsSettled
	if body.Reason != nil {
		reason = *body.Reason
		if p := checkText("reason", reason, 1, mostName); p != nil {
			return nil, p
		}
	}
	once, err := once[control.Recovery](c, nil)
	if err != nil {
		return nil, err
	}
	receipt, err := d.Recoveries.ExitRecovery(c.ctx, c.by, settled, reason, once)
	if err != nil {
		return c.repeated(err, actMachinesRead, func(uuid.UUID) (answer, error) { return d.recoveryNow(c, "recovery was ended") })
	}
	c.entry.fallback(receipt.ID)
	return d.recoveryNow(c, "recovery was ended")
}

func viewRecovery(s *control.RecoveryStatus) api.RecoveryStatus {
	out := api.RecoveryStatus{
		State: api.RecoveryState(s.Standing.State), Message: s.Standing.Message, Since: moment(s.Standing.Since), Epoch: s.Epoch.String(),
		Items: []api.RecoveryItem{}, HeldMachines: []api.HeldMachine{},
	}
	for _, i := range s.Items {
		out.Items = append(out.Items, api.RecoveryItem{Name: i.Name, Open: i.Open, Text: i.Text, Do: i.Do})
	}
	for _, m := range s.Machines {
		if m.ReleasedAt == nil {
			v := api.HeldMachine{Name: m.Name, Cluster: m.Cluster, ObservedAt: utc(m.ObservedAt)}
			if m.ObservedAt != nil { // nobody knows what nobody has looked at
				v.Matches = &m.Matches
			}
			out.HeldMachines = append(out.HeldMachines, v)
		}
	}
	if r := s.Entered; r != nil {
		out.Entered = &api.EnteredRecovery{
			OldEpoch: r.OldEpoch.String(), OldSize: r.OldSize, OldRoot: r.OldRoot, Cause: api.RecoveryState(r.State),
			LostRows: r.LostRows, LostFrom: utc(r.LostFrom), LostUntil: utc(r.LostUntil), LostRevocations: r.LostRevocations,
			ApprovalsVoided: r.ApprovalsVoided, ChangesEnded: r.ChangesEnded, By: viewPerson(r.By), Reason: r.Reason,
			DecisionID: r.EntryID.String(), EnteredAt: r.EnteredAt.UTC(), EndedAt: utc(r.ExitedAt),
		}
	}
	return out
}
