package httpapi

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// viewDecision is an entry as clients read it.
func viewDecision(r *audit.Row) api.Decision {
	v := api.Decision{
		ID: r.ID.String(), RecordedAt: r.RecordedAt.UTC(), Kind: api.DecisionKind(r.Kind), Verdict: api.Verdict(r.Verdict), Method: r.Method,
		Class: r.Class, Mode: r.Mode, DryRun: r.DryRun, Caller: viewPerson(policy.Person{Issuer: r.Issuer, Subject: r.Subject}),
		CallerKind: r.CallerKind, Proof: r.Proof, ClientAddress: r.ClientAddress, Machine: r.MachineName, MachineID: idIfAny(r.MachineID),
		Cluster: r.Cluster, Digest: r.Digest, Base: api.Digests{Active: r.Base, Persistent: r.Persistent}, ChangeID: r.ChangeID,
		AttemptID: idIfAny(r.AttemptID), Epoch: idIfAny(r.Epoch), AuthorityVersion: r.AuthorityVersion, PolicyRevision: r.PolicyRevision,
		Codes: list(r.Codes), Instance: r.Instance, Count: r.Count, Leaf: hex.EncodeToString(r.Leaf[:]),
	}
	if o := r.Last; o != nil {
		v.LastOutcome = &api.LastOutcome{
			ID: o.ID.String(), RecordedAt: o.RecordedAt.UTC(), Kind: string(o.Kind), State: o.State, Code: o.Code,
			DurationUs: o.Duration.Microseconds(), BytesOut: o.BytesOut,
		}
	}
	return v
}

// wholeDecision is an entry with its outcomes, and its attempt and change as they stand now.
// What is not there any more, or never was, is left out.
func (d *door) wholeDecision(ctx context.Context, r *audit.Row) (api.WholeDecision, error) {
	v := api.WholeDecision{Decision: viewDecision(r), Record: string(r.Record), Outcomes: make([]api.DecisionOutcome, 0, len(r.Outcomes))}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		v.Outcomes = append(v.Outcomes, api.DecisionOutcome{
			ID: o.ID.String(), RecordedAt: o.RecordedAt.UTC(), Leaf: hex.EncodeToString(o.Leaf[:]), Record: string(o.Record),
		})
	}
	if r.AttemptID != uuid.Nil {
		attempt, err := d.Attempts.GetAttempt(ctx, r.AttemptID)
		switch {
		case err == nil:
			one := viewAttempt(&attempt)
			v.Attempt = &one
		case !errors.Is(err, control.ErrNotFound):
			return v, err
		}
	}
	if id, err := control.ParseChangeID(r.ChangeID); err == nil {
		change, err := d.wholeChange(ctx, id)
		var none *control.ChangeError
		switch {
		case err == nil:
			v.Change = &change
		case !errors.As(err, &none) || none.Code != "BW-CHANGE-001":
			return v, err
		}
	}
	return v, nil
}
