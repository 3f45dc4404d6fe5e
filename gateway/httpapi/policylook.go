package httpapi

import (
	"net/http"
	"time"

	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// getPolicyStatus says which law is live, and which replicas have it.
func (d *door) getPolicyStatus(c *call) (answer, error) {
	if err := c.onlyReads(actPolicyRead); err != nil {
		return nil, err
	}
	live, err := d.LawHistory.LiveLaw(c.ctx)
	if err != nil {
		return nil, err
	}
	shipped, err := policy.Shipped()
	if err != nil {
		return nil, err
	}
	body := api.PolicyStatus{
		LiveRevision: live.Live, Counter: live.Counter, ShippedRevision: shipped.Revision(), Opa: policy.OPAVersion(),
		ReplicasAgree: api.PolicyStatusReplicasAgree(live.Agree()), Replicas: make([]api.PolicyReplica, 0, len(live.List)),
	}
	if live.Activation != nil {
		one := viewActivation(live.Activation)
		body.Activated = &one
	}
	if p := live.Proof; p != nil {
		body.Signed = &api.PolicySigned{Key: p.KeyID, Counter: p.Counter}
	}
	for _, r := range live.List {
		body.Replicas = append(body.Replicas, api.PolicyReplica{
			Instance: r.Instance, Process: r.Process.String(), State: api.PolicyReplicaState(live.StateOf(r)), LoadedRevision: r.Loaded, Counter: r.Counter,
			LoadedAt: inUTC(r.LoadedAt), WantedRevision: r.Wanted, FailedWhy: r.FailedWhy, Version: r.Version, StartedAt: r.StartedAt, HeardAt: r.HeardAt,
			SilentSeconds: int64(r.Silent.Seconds()),
		})
	}
	return api.GetPolicyStatus200JSONResponse{Body: body}.VisitGetPolicyStatusResponse, nil
}

// getPolicyArchive gives a kept law as OPA packs one.
func (d *door) getPolicyArchive(c *call) (answer, error) {
	name, err := c.word()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actPolicyRead); err != nil {
		return nil, err
	}
	b, err := d.Laws.SavedLaw(c.ctx, name)
	if err != nil {
		return nil, err
	}
	tag := `"` + b.Revision() + `"`
	c.header.Set("ETag", tag)
	if named(c.r.Header.Values("If-None-Match"), tag) {
		return notModified, nil
	}
	packed, err := b.Packed()
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", gzipType)
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(packed)
		return err
	}, nil
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
