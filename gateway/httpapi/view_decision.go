package httpapi

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"

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

// listCheckpoints is a page of the signed heads, newest first.
func (d *door) listCheckpoints(c *call) (answer, error) {
	q := c.query("limit", "cursor")
	limit := q.limit()
	number, size := q.afterCheckpoint()
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actProofsRead); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	found, err := d.Checkpoints.CheckpointsBefore(ctx, number, size, limit+1)
	if err != nil {
		return nil, unread(err)
	}
	page, next := pageOf(found, limit, func(one *audit.StoredCheckpoint) string {
		return cursorOf(listOfCheckpoints, strconv.Itoa(int(one.Tree)), strconv.FormatInt(one.Size, 10))
	})
	body := api.CheckpointList{Items: make([]api.Checkpoint, 0, len(page)), Next: next}
	for _, one := range page {
		body.Items = append(body.Items, api.Checkpoint{
			Tree: one.Tree, Origin: one.Origin, Epoch: one.Epoch.String(), Size: one.Size, Root: one.Root, SignedAt: one.SignedAt.UTC(), Note: one.Note,
		})
	}
	return api.ListCheckpoints200JSONResponse{Body: body}.VisitListCheckpointsResponse, nil
}

// afterCheckpoint is the checkpoint a page begins behind; zero begins the list.
func (q *query) afterCheckpoint() (tree int32, size int64) {
	key := q.cursor(listOfCheckpoints, 2)
	if key == nil {
		return 0, 0
	}
	number, err := strconv.ParseInt(key[0], 10, 32)
	size, errSize := strconv.ParseInt(key[1], 10, 64)
	if err != nil || errSize != nil || number < 1 || size < 1 || cursorOf(listOfCheckpoints, strconv.FormatInt(number, 10), strconv.FormatInt(size, 10)) != q.values.Get("cursor") {
		q.fail(malformed("the parameter cursor is not one that this list gave as next"))
		return 0, 0
	}
	return int32(number), size
}
