package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// gzipType is the type of a bundle as OPA packs one.
const gzipType = "application/gzip"

// shortRevision is how many digits of a revision messages show.
const shortRevision = 12

var wholeRevision = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (d *door) listPolicies(c *call) (answer, error) {
	if err := c.onlyReads(actPolicyRead); err != nil {
		return nil, err
	}
	all, err := d.LawHistory.BundleActivations(c.ctx)
	if err != nil {
		return nil, err
	}
	body := api.PolicyActivationList{Items: make([]api.PolicyActivation, 0, len(all))}
	for i := range all {
		body.Items = append(body.Items, viewActivation(&all[i]))
	}
	return api.ListPolicies200JSONResponse{Body: body}.VisitListPoliciesResponse, nil
}

func viewActivation(a *control.BundleActivation) api.PolicyActivation {
	one := api.PolicyActivation{
		Counter: a.Counter, Revision: a.Revision, Way: api.PolicyActivationWay(a.Way), SignedCounter: a.Signed, Required: a.Required,
		DecisionID: a.EntryID.String(), At: a.At.UTC(),
	}
	if a.Person != (policy.Person{}) {
		by := viewPerson(a.Person)
		one.By = &by
	}
	return one
}

func (d *door) savePolicy(c *call) (answer, error) {
	if err := c.checkType(gzipType); err != nil {
		return nil, err
	}
	if err := c.readBody(); err != nil {
		return nil, err
	}
	once, err := once[any](c, nil)
	if err != nil {
		return nil, err
	}
	revision, receipt, err := d.Laws.BringLaw(c.ctx, c.by, c.text, once)
	if err != nil {
		return c.repeated(err, actPolicyRead, func(uuid.UUID) (answer, error) {
			b, err := policy.LoadArchive(bytes.NewReader(c.text))
			if err != nil {
				return nil, err
			}
			return savedPolicy(b.Revision()), nil
		})
	}
	c.entry.fallback(receipt.ID)
	return savedPolicy(revision), nil
}

func savedPolicy(revision string) answer {
	return api.SavePolicy201JSONResponse{OnePolicyActJSONResponse: api.OnePolicyActJSONResponse{Body: api.PolicyAct{Revision: revision}}}.VisitSavePolicyResponse
}

// lawAct is an act on a saved law that gives its revision.
type lawAct func(ctx context.Context, by identity.Actor, name string, once *control.Once) (string, audit.Receipt, error)

// onLaw does an act on the law of the path. The body was read.
func (d *door) onLaw(c *call, do lawAct, visit func(api.OnePolicyActJSONResponse) answer) (answer, error) {
	name, err := c.word()
	if err != nil {
		return nil, err
	}
	done := func(revision string) answer {
		return visit(api.OnePolicyActJSONResponse{Body: api.PolicyAct{Revision: revision}})
	}
	once, err := once(c, done)
	if err != nil {
		return nil, err
	}
	revision, receipt, err := do(c.ctx, c.by, name, once)
	if err != nil {
		return c.repeated(err, actPolicyRead, func(uuid.UUID) (answer, error) { return done(revision), nil })
	}
	c.entry.fallback(receipt.ID)
	return done(revision), nil
}

func (d *door) approvePolicy(c *call) (answer, error) {
	if err := decode(c, &struct{}{}); err != nil {
		return nil, err
	}
	return d.onLaw(c, d.Laws.ApproveLaw, func(body api.OnePolicyActJSONResponse) answer {
		return api.ApprovePolicy201JSONResponse{OnePolicyActJSONResponse: body}.VisitApprovePolicyResponse
	})
}

// toLive is an act that makes a law live, with what its caller says of a replay.
type toLive func(ctx context.Context, by identity.Actor, name, replay string, once *control.Once) (string, audit.Receipt, error)

func (d *door) lawToLive(c *call, do toLive, visit func(api.OnePolicyActJSONResponse) answer) (answer, error) {
	var body api.PolicyToLive
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	said, err := claimOf(body.Replay)
	if err != nil {
		return nil, err
	}
	return d.onLaw(c, func(ctx context.Context, by identity.Actor, name string, once *control.Once) (string, audit.Receipt, error) {
		return do(ctx, by, name, said, once)
	}, visit)
}

func (d *door) activatePolicy(c *call) (answer, error) {
	return d.lawToLive(c, d.Laws.ActivateLaw, func(body api.OnePolicyActJSONResponse) answer {
		return api.ActivatePolicy201JSONResponse{OnePolicyActJSONResponse: body}.VisitActivatePolicyResponse
	})
}

func (d *door) rollBackPolicy(c *call) (answer, error) {
	return d.lawToLive(c, d.Laws.RollBackLaw, func(body api.OnePolicyActJSONResponse) answer {
		return api.RollBackPolicy201JSONResponse{OnePolicyActJSONResponse: body}.VisitRollBackPolicyResponse
	})
}

func (d *door) getPolicyDifferences(c *call) (answer, error) {
	to, err := c.word()
	if err != nil {
		return nil, err
	}
	q := c.query("from")
	from := q.text("from", mostWord)
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actPolicyRead); err != nil {
		return nil, err
	}
	if from == "" {
		from = "live"
	}
	diff, err := d.Laws.LawDifference(c.ctx, from, to)
	if err != nil {
		return nil, err
	}
	return api.GetPolicyDifferences200JSONResponse{Body: viewDifference(&diff)}.VisitGetPolicyDifferencesResponse, nil
}

func viewDifference(diff *policy.Difference) api.PolicyDifferences {
	out := api.PolicyDifferences{
		From: diff.From, To: diff.To,
		Files: []api.PolicyFileDifference{}, Rules: []api.PolicyRuleDifference{}, Data: []api.PolicyDataDifference{},
	}
	for _, f := range diff.Files {
		out.Files = append(out.Files, api.PolicyFileDifference{Path: f.Path, How: api.PolicyDifferenceKind(f.How)})
	}
	for _, r := range diff.Rules {
		out.Rules = append(out.Rules, api.PolicyRuleDifference{Code: r.Code, Title: r.Title, How: api.PolicyDifferenceKind(r.How), File: r.File})
	}
	for _, v := range diff.Data {
		out.Data = append(out.Data, api.PolicyDataDifference{Key: v.Key, How: api.PolicyDifferenceKind(v.How), Before: asText(v.Before), After: asText(v.After)})
	}
	return out
}

// asText is a value of the data as JSON; null where it is not there.
func asText(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	text := string(raw)
	return &text
}
