package httpapi

import (
	"slices"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

func (d *door) listIdentityRevocations(c *call) (answer, error) {
	q := c.query("limit", "cursor")
	limit, after := q.limit(), q.afterRevocation()
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actIdentitiesRead); err != nil {
		return nil, err
	}
	all, err := d.Revocations.Revocations(c.ctx)
	if err != nil {
		return nil, err
	}
	if after != (policy.Person{}) {
		// A revocation is for good, so the last one of the page before is still in the list.
		i := slices.IndexFunc(all, func(r control.IdentityRevocation) bool { return r.Person == after })
		if i < 0 {
			return nil, malformed("the parameter cursor is not one that this list gave as next")
		}
		all = all[i+1:]
	}
	page, next := pageOf(all, limit, func(r *control.IdentityRevocation) string {
		return cursorOf(listOfRevocations, r.Issuer, r.Subject)
	})
	body := api.IdentityRevocationList{Items: make([]api.IdentityRevocation, 0, len(page)), Next: next}
	for i := range page {
		body.Items = append(body.Items, viewRevocation(&page[i]))
	}
	return api.ListIdentityRevocations200JSONResponse{Body: body}.VisitListIdentityRevocationsResponse, nil
}

func (d *door) revokeIdentity(c *call) (answer, error) {
	var body api.NewIdentityRevocation
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	if err := firstProblem(
		checkText("issuer", body.Issuer, 1, mostName), checkText("subject", body.Subject, 1, mostName), checkText("reason", body.Reason, 1, mostName),
	); err != nil {
		return nil, err
	}
	revoked := func(r control.IdentityRevocation) answer {
		return api.RevokeIdentity201JSONResponse{Body: viewRevocation(&r)}.VisitRevokeIdentityResponse
	}
	once, err := once(c, revoked)
	if err != nil {
		return nil, err
	}
	who := policy.Person{Issuer: body.Issuer, Subject: body.Subject}
	done, err := d.Revokes.RevokeIdentity(c.ctx, c.by, who, body.Reason, once)
	if err != nil {
		return c.repeated(err, actIdentitiesRead, nil)
	}
	c.entry.fallback(done.EntryID)
	return revoked(done), nil
}

func (d *door) whoami(c *call) (answer, error) {
	if err := c.onlyReads(actOwn); err != nil {
		return nil, err
	}
	who := c.by.Caller
	return api.Whoami200JSONResponse{Body: api.Caller{
		Issuer: who.Issuer, Subject: who.Subject, Name: who.Name, Kind: api.Kind(who.Kind), Groups: list(who.Groups),
		Proof: api.CallerProof(who.Proof), ProofEnds: who.ProofEnds.UTC(), Revoked: d.Authority.Revoked(who.Issuer, who.Subject), Address: c.by.Address,
	}}.VisitWhoamiResponse, nil
}

func (d *door) listNotices(c *call) (answer, error) {
	q := c.query("dead", "limit")
	f := control.NoticeFilter{Dead: q.flag("dead"), Limit: q.limit()}
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actNoticesRead); err != nil {
		return nil, err
	}
	found, err := d.Notices.Notices(c.ctx, f)
	if err != nil {
		return nil, err
	}
	body := api.NoticeList{Items: make([]api.Notice, 0, len(found))}
	for i := range found {
		body.Items = append(body.Items, viewNotice(&found[i]))
	}
	return api.ListNotices200JSONResponse{Body: body}.VisitListNoticesResponse, nil
}
