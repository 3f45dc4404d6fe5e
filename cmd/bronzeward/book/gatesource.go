package book

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// gateway reads decisions at a gateway, as one person. One reading leaves one entry in the book,
// however many pages it has. It is used by one goroutine.
type gateway struct {
	*ask.Client
	// own asks for the person's own calls alone.
	own bool
	// last is the newest decision followed, for a reading that has to begin anew; shown are those
	// of the first page, some of which may come again because they had no place in the tree then.
	last  string
	shown map[string]bool
}

// params are what a filter asks of the API.
func (g *gateway) params(f audit.Filter) api.ListDecisionsParams {
	p := api.ListDecisionsParams{
		Machine: cli.Given(f.Machine), Cluster: cli.Given(f.Cluster), Subject: cli.Given(f.Subject), Issuer: cli.Given(f.Issuer), Path: cli.Given(f.Path),
		Code: cli.Given(f.Code), Class: cli.Given(f.Class), Method: cli.Given(f.Method), Change: cli.Given(f.ChangeID),
	}
	if len(f.Digests) > 0 {
		p.Digest = &f.Digests
	}
	if f.Verdict != "" {
		p.Verdict = new(api.Verdict(f.Verdict))
	}
	if f.Kind != "" {
		p.Kind = new(api.DecisionKind(f.Kind))
	}
	if f.AttemptID != uuid.Nil {
		p.Attempt = new(f.AttemptID.String())
	}
	if !f.Since.IsZero() {
		p.Since = new(f.Since.UTC())
	}
	if !f.Until.IsZero() {
		p.Until = new(f.Until.UTC())
	}
	if g.own {
		p.Own = &g.own
	}
	return p
}

func (g *gateway) list(ctx context.Context, q question) ([]decision, string, error) {
	params := g.params(q.Filter)
	if q.oldest {
		params.Order = new(api.Oldest)
	}
	all, next, err := ask.Collect(q.limit, q.after, func(limit int, cursor *string) ([]api.Decision, string, error) {
		params.Limit, params.Cursor = &limit, cursor
		page, _, err := ask.Received[api.DecisionList](g.ListDecisions(ctx, &params))
		return page.Items, page.Next, err
	})
	return viewDecisions(all), next, err
}

func (g *gateway) show(ctx context.Context, id uuid.UUID) (*whole, error) {
	var params api.GetDecisionParams
	if g.own {
		params.Own = &g.own
	}
	got, _, err := ask.Received[api.WholeDecision](g.GetDecision(ctx, id.String(), &params))
	if err != nil {
		if !g.own && ask.HasStatus(err, http.StatusForbidden) {
			err = fmt.Errorf("%w\nof your own calls you may see it: bronzeward decisions show --own %s", err, id)
		}
		return nil, err
	}
	w := &whole{Decision: viewDecisions([]api.Decision{got.Decision})[0], Leaf: got.Decision.Leaf, Attempt: got.Attempt, Change: got.Change, Outcomes: []outcome{}}
	w.setRecord([]byte(got.Record))
	for _, o := range got.Outcomes {
		one := outcome{ID: o.ID, Leaf: o.Leaf, Time: o.RecordedAt}
		if said, err := audit.ParseOutcome([]byte(o.Record)); err == nil {
			one.Kind, one.State, one.Code, one.Message = string(said.Kind), said.State, said.Code, said.Message
			one.Digest, one.Persistent, one.Subject, one.Instance = said.Digest, said.Persistent, said.Caller.Subject, said.Instance
		}
		w.Outcomes = append(w.Outcomes, one)
	}
	return w, nil
}

func (g *gateway) follow(ctx context.Context, f audit.Filter, after string, limit int) ([]decision, string, bool, error) {
	if after == "" {
		return g.begin(ctx, f, limit)
	}
	list, next, err := g.ask(ctx, f, after, limit)
	if ask.HasStatus(err, http.StatusBadRequest) && g.last != "" && after != g.last {
		// A reading lasts for an hour and for its epoch: a new one begins behind what was seen.
		list, next, err = g.ask(ctx, f, g.last, limit)
	}
	if err != nil {
		return nil, "", false, gone(err)
	}
	came := len(list) > 0
	list = slices.DeleteFunc(list, func(d decision) bool { return g.shown[d.ID] })
	if len(list) > 0 {
		g.last = list[len(list)-1].ID
	}
	return list, next, came, nil
}

// begin gives the newest decisions, and the place from which to follow. The place comes first: what
// is written meanwhile is seen by one of both, and what both see is shown once.
func (g *gateway) begin(ctx context.Context, f audit.Filter, limit int) ([]decision, string, bool, error) {
	_, next, err := g.ask(ctx, f, "", 1)
	if err != nil {
		return nil, "", false, gone(err)
	}
	list, _, err := g.list(ctx, question{Filter: f, limit: limit})
	if err != nil {
		return nil, "", false, gone(err)
	}
	slices.Reverse(list)
	g.shown = map[string]bool{}
	for _, one := range list {
		g.shown[one.ID] = true
		g.last = one.ID
	}
	return list, next, false, nil
}

// gone marks a refusal that may be over at the next try.
func gone(err error) error {
	if ask.HasStatus(err, http.StatusServiceUnavailable) || ask.HasStatus(err, http.StatusGatewayTimeout) || ask.HasStatus(err, http.StatusTooManyRequests) {
		return cli.Unavailable(err)
	}
	return err
}

// ask asks for one page of what follows an id or a cursor, or with neither for the end of the book.
func (g *gateway) ask(ctx context.Context, f audit.Filter, after string, limit int) ([]decision, string, error) {
	params := g.params(f)
	params.Follow, params.Limit = new(true), new(min(limit, ask.MostPage))
	switch _, err := uuid.Parse(after); {
	case after == "":
	case err == nil:
		params.After = &after
		if g.last == "" {
			g.last = after
		}
	default:
		params.Cursor = &after
	}
	page, _, err := ask.Received[api.DecisionList](g.ListDecisions(ctx, &params))
	return viewDecisions(page.Items), page.Next, err
}

func viewDecisions(all []api.Decision) []decision {
	out := make([]decision, 0, len(all))
	for _, d := range all {
		one := decision{
			ID: d.ID, Time: d.RecordedAt, Kind: string(d.Kind), Verdict: string(d.Verdict), Codes: d.Codes, Issuer: d.Caller.Issuer, Subject: d.Caller.Subject,
			Client: d.ClientAddress, Machine: d.Machine, Cluster: d.Cluster, Method: d.Method, Class: d.Class, Mode: d.Mode, DryRun: d.DryRun, Digest: d.Digest,
			Base: d.Base.Active, Persistent: d.Base.Persistent, Change: d.ChangeID, Attempt: d.AttemptID, Revision: d.PolicyRevision, Count: d.Count,
		}
		if one.Codes == nil {
			one.Codes = []string{}
		}
		if d.LastOutcome != nil {
			one.Outcome = d.LastOutcome.State
			if one.Outcome == "" {
				one.Outcome = d.LastOutcome.Code
			}
		}
		out = append(out, one)
	}
	return out
}
