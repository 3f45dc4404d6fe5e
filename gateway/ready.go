package gateway

import (
	"context"
	"slices"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// Ready says what this replica stands on, and what keeps it from deciding. Keys of an
// issuer that are away are no such thing: certificates still open the door.
func (g *Gateway) Ready(ctx context.Context) (map[string]any, []string) {
	var problems []string
	snap, err := g.store.Refresh(ctx, 0)
	if err != nil {
		snap = g.store.Snapshot()
		problems = append(problems, "the database does not answer")
	}
	if age := g.store.Unconfirmed(); age > control.ConfirmLimit {
		problems = append(problems, "the authority version was last confirmed "+age.Round(time.Second).String()+" ago")
	}
	switch {
	case snap.LiveRevision == "":
		problems = append(problems, "no policy is live: bronzeward policy activate DIR")
	case g.judge.Revision() != snap.LiveRevision:
		if err := g.laws.load(ctx, g, snap.LiveRevision); err != nil {
			problem := "the live policy cannot be loaded"
			if why := g.laws.why(snap.LiveRevision); why != nil {
				problem += ": " + why.Error()
			}
			problems = append(problems, problem)
		}
	}
	credentials, warnings := credentialsReady(g.credentials(ctx), time.Now())
	if err == nil { // the database answered
		warnings = append(warnings, g.laggards(ctx)...)
	}
	if g.warnings != nil {
		warnings = append(warnings, g.warnings()...)
	}
	switch {
	case len(credentials) == 0:
		problems = append(problems, "there is no Talos credential, for any cluster")
	case !slices.ContainsFunc(credentials, func(c readyCredential) bool { return c.Ends != "" }):
		problems = append(problems, "no Talos credential is usable; the warnings say why")
	}
	book, more := g.tree.ready(snap.Standing.Doubtful())
	recovery, standing := standingNow(snap.Standing)
	more = append(more, standing...)
	var quorum policy.Quorum
	if g.judge.Revision() != "" { // an engine without a law would log that it has none, each time
		quorum = g.judge.Quorum(ctx)
	}
	return map[string]any{
		"talos_credentials": credentials, "warnings": append(warnings, more...), "book": book, "recovery": recovery,
		"approvals_required": quorum.Required, "approval_groups": quorum.Groups,
		"instance": g.instance, "policy_revision": g.judge.Revision(), "live_revision": snap.LiveRevision,
		"authority_version": snap.AuthorityVersion, "epoch": snap.Epoch, "machines": len(snap.Machines),
		"open_calls": g.sessions.count(),
	}, problems
}
