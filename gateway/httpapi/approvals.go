package httpapi

import (
	"context"
	"fmt"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/identity"
)

func (d *door) approveChange(c *call) (answer, error) {
	id, err := c.changeID()
	if err != nil {
		return nil, err
	}
	var body api.NewApproval
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	named, err := namedChanges(id, &body)
	if err != nil {
		return nil, err
	}
	once, err := once(c, approvalList)
	if err != nil {
		return nil, err
	}
	approvals, err := d.Verdicts.Approve(c.ctx, c.by, named, once)
	if err != nil {
		return c.repeated(err, actChangesRead, nil)
	}
	if len(approvals) > 0 {
		c.entry.fallback(approvals[0].EntryID)
	}
	return approvalList(approvals), nil
}

// namedChanges are the change of the path and those of its set, with the digests shown.
func namedChanges(id control.ChangeID, body *api.NewApproval) ([]control.ApproveOne, error) {
	comment, also := "", []api.AlsoApproved(nil)
	if body.Comment != nil {
		comment = *body.Comment
	}
	if body.Also != nil {
		also = *body.Also
	}
	if err := firstProblem(checkText("digest", body.Digest, 1, mostDigest), checkText("comment", comment, 0, mostName)); err != nil {
		return nil, err
	}
	if len(also) > mostAlso {
		return nil, malformed("also has at most %d changes, not %d", mostAlso, len(also))
	}
	named := []control.ApproveOne{{ID: id, Digest: body.Digest, Comment: comment}}
	for i, one := range also {
		if p := checkText(fmt.Sprintf("also[%d].digest", i), one.Digest, 1, mostDigest); p != nil {
			return nil, p
		}
		other, err := control.ParseChangeID(one.ID)
		if err != nil {
			return nil, fmt.Errorf("also[%d].id: %w", i, err)
		}
		named = append(named, control.ApproveOne{ID: other, Digest: one.Digest, Comment: comment})
	}
	return named, nil
}

const (
	// mostAlso is how many changes one act approves besides the one of the path.
	mostAlso = 99
	// mostDigest is the longest digest, in characters.
	mostDigest = 200
)

func approvalList(approvals []control.Approval) answer {
	body := api.ApprovalList{Items: make([]api.Approval, 0, len(approvals))}
	for i := range approvals {
		body.Items = append(body.Items, viewApproval(&approvals[i], nil))
	}
	return api.ApproveChange201JSONResponse{Body: body}.VisitApproveChangeResponse
}

func (d *door) rejectChange(c *call) (answer, error) {
	return d.endChange(c, d.Verdicts.Reject, func(r api.EndedChangeJSONResponse) answer {
		return api.RejectChange200JSONResponse{EndedChangeJSONResponse: r}.VisitRejectChangeResponse
	})
}

func (d *door) cancelChange(c *call) (answer, error) {
	return d.endChange(c, d.Verdicts.Cancel, func(r api.EndedChangeJSONResponse) answer {
		return api.CancelChange200JSONResponse{EndedChangeJSONResponse: r}.VisitCancelChangeResponse
	})
}

// endsChange is rejecting or cancelling.
type endsChange func(ctx context.Context, by identity.Actor, id control.ChangeID, reason string, once *control.Once) (control.Change, error)

// endChange is what rejecting and cancelling have in common.
func (d *door) endChange(c *call, end endsChange, visit func(api.EndedChangeJSONResponse) answer) (answer, error) {
	id, err := c.changeID()
	if err != nil {
		return nil, err
	}
	reason, err := c.reason()
	if err != nil {
		return nil, err
	}
	ended := func(change control.Change) answer {
		return visit(api.EndedChangeJSONResponse{Body: viewChange(&change, nil, d.Authority.Epoch())})
	}
	once, err := once(c, ended)
	if err != nil {
		return nil, err
	}
	change, err := end(c.ctx, c.by, id, reason, once)
	if err != nil {
		return c.repeated(err, actChangesRead, nil)
	}
	return ended(change), nil
}

// reason is the body of an act that needs a sentence and nothing else.
func (c *call) reason() (string, error) {
	var body api.Reason
	if err := decode(c, &body); err != nil {
		return "", err
	}
	if p := checkText("reason", body.Reason, 1, mostName); p != nil {
		return "", p
	}
	return body.Reason, nil
}

func (d *door) revokeApproval(c *call) (answer, error) {
	id, err := c.approvalID()
	if err != nil {
		return nil, err
	}
	reason, err := c.reason()
	if err != nil {
		return nil, err
	}
	revoked := func(a control.Approval) answer {
		return api.RevokeApproval200JSONResponse{Body: viewApproval(&a, nil)}.VisitRevokeApprovalResponse
	}
	once, err := once(c, revoked)
	if err != nil {
		return nil, err
	}
	approval, err := d.Revokes.RevokeApproval(c.ctx, c.by, id, reason, once)
	if err != nil {
		return c.repeated(err, actChangesRead, nil)
	}
	return revoked(approval), nil
}
