package httpapi

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed openapi.yaml
var openAPI []byte

// route is one row of the table.
type route struct {
	method, path string
	// act is how the request stands in the book, and what a reading act is judged as.
	act string
	// most is the largest body in bytes.
	most   int64
	handle handler
}

// changes is whether the route changes something.
func (rt *route) changes() bool { return rt.method == http.MethodPost || rt.method == http.MethodPatch }

// first is what such a request is judged as before its body is read and anything looked up.
// Two acts go by more than the route: a pin may be a repin, and a cancellation of one's own
// change is another act. They are judged as looking, because both answer with what is there.
func (rt *route) first() string {
	switch rt.act {
	case "changes.cancel":
		return actChangesRead
	case actPin:
		return actMachinesRead
	}
	return rt.act
}

// gives is the type of what the route answers when it refuses nothing.
func (rt *route) gives() string {
	switch {
	case rt.method != http.MethodGet:
	case rt.path == "/policies/{id}":
		return gzipType
	case rt.path == "/decisions/records":
		return linesType
	}
	return jsonType
}

// within is how long a body of the largest size may take to arrive.
func (rt *route) within() time.Duration {
	if rt.most > mediumBody {
		return largeWithin
	}
	return smallWithin
}

// routes is the table of what needs a credential.
func (d *door) routes() []route {
	return []route{
		{http.MethodGet, "/changes", actChangesRead, 0, waits(d.listChanges)},
		{http.MethodPost, "/changes", "changes.submit", largeBody, d.submitChange},
		{http.MethodGet, "/changes/{id}", actChangesRead, 0, waits(d.getChange)},
		{http.MethodGet, "/changes/{id}/diff", actChangesRead, 0, d.getChangeDiff},
		{http.MethodPost, "/changes/{id}/approvals", "changes.approve", smallBody, d.approveChange},
		{http.MethodPost, "/changes/{id}/rejections", "changes.reject", smallBody, d.rejectChange},
		{http.MethodPost, "/changes/{id}/cancellations", "changes.cancel", smallBody, d.cancelChange},
		{http.MethodPost, "/changes/{id}/applications", "changes.apply", smallBody, d.applyChange},
		{http.MethodPost, "/changes/{id}/adoptions", "changes.apply", smallBody, d.adoptChange},
		{http.MethodGet, "/drifts", actDriftRead, 0, d.listDrifts},
		{http.MethodGet, "/drifts/{id}", actDriftRead, 0, d.getDrift},
		{http.MethodPost, "/drifts/{id}/adoptions", "drift.adopt", smallBody, d.adoptDrift},
		{http.MethodPost, "/drifts/{id}/reversions", "drift.revert", smallBody, d.revertDrift},
		{http.MethodPost, "/approvals/{id}/revocations", "approvals.revoke", smallBody, d.revokeApproval},
		{http.MethodGet, "/identity-revocations", actIdentitiesRead, 0, d.listIdentityRevocations},
		{http.MethodPost, "/identity-revocations", "identities.revoke", smallBody, d.revokeIdentity},
		{http.MethodGet, "/machines", actMachinesRead, 0, d.listMachines},
		{http.MethodPost, "/machines", "machines.add", mediumBody, d.addMachines},
		{http.MethodGet, "/machines/{id}", actMachinesRead, 0, d.getMachine},
		{http.MethodPatch, "/machines/{id}", "machines.update", smallBody, d.updateMachine},
		{http.MethodPost, "/machines/{id}/observations", "machines.observe", smallBody, d.observeMachine},
		{http.MethodPost, "/machines/{id}/pins", actPin, smallBody, d.pinMachine},
		{http.MethodGet, "/machines/{id}/freezes", actMachinesRead, 0, d.listFreezes},
		{http.MethodPost, "/machines/{id}/freezes", "machines.freeze", smallBody, d.freezeMachine},
		{http.MethodPost, "/machines/{id}/unfreezings", "machines.unfreeze", smallBody, d.unfreezeMachine},
		{http.MethodPost, "/machines/{id}/retirements", "machines.retire", smallBody, d.retireMachine},
		{http.MethodGet, "/clusters", actClustersRead, 0, d.listClusters},
		{http.MethodPatch, "/clusters/{id}", "clusters.limit", smallBody, d.updateCluster},
		{http.MethodGet, "/machines/{id}/timeline", actMachinesRead, 0, d.listTimeline},
		{http.MethodGet, "/attempts", actAttemptsRead, 0, d.listAttempts},
		{http.MethodGet, "/attempts/{id}", actAttemptsRead, 0, d.getAttempt},
		{http.MethodPost, "/attempts/{id}/accountings", "attempts.account", smallBody, d.accountAttempt},
		{http.MethodGet, "/recovery", actMachinesRead, 0, d.getRecovery},
		{http.MethodPost, "/recovery", "recovery.enter", smallBody, d.enterRecovery},
		{http.MethodPost, "/recovery/endings", "recovery.exit", smallBody, d.exitRecovery},
		{http.MethodPost, "/machines/{id}/releases", "machines.release", smallBody, d.releaseMachine},
		{http.MethodGet, "/policy", actPolicyRead, 0, d.getPolicyStatus},
		{http.MethodGet, "/policies", actPolicyRead, 0, d.listPolicies},
		{http.MethodPost, "/policies", "policy.save", bundleBody, d.savePolicy},
		{http.MethodGet, "/policies/{id}", actPolicyRead, 0, d.getPolicyArchive},
		{http.MethodGet, "/policies/{id}/differences", actPolicyRead, 0, d.getPolicyDifferences},
		{http.MethodPost, "/policies/{id}/approvals", "policy.approve", smallBody, d.approvePolicy},
		{http.MethodPost, "/policies/{id}/activations", "policy.activate", smallBody, d.activatePolicy},
		{http.MethodPost, "/policies/{id}/rollbacks", "policy.rollback", smallBody, d.rollBackPolicy},
		{http.MethodPost, "/certificates", "certificates.issue", smallBody, d.issueCertificate},
		{http.MethodPost, "/digests", "digests.compute", largeBody, d.computeDigest},
		{http.MethodGet, "/digest-keys", actDigestKeysRead, 0, d.listDigestKeys},
		{http.MethodPost, "/digest-keys", "digest-keys.add", smallBody, d.addDigestKey},
		{http.MethodGet, "/decisions", actDecisionsRead, 0, d.listDecisions},
		{http.MethodGet, "/decisions/records", actDecisionsRead, 0, d.listDecisionRecords},
		{http.MethodGet, "/decisions/{id}", actDecisionsRead, 0, d.getDecision},
		{http.MethodGet, "/decisions/{id}/proof", actProofsRead, 0, d.getDecisionProof},
		{http.MethodGet, "/checkpoints", actProofsRead, 0, d.listCheckpoints},
		{http.MethodGet, "/checkpoints/consistency", actProofsRead, 0, d.getConsistency},
		{http.MethodGet, "/whoami", actOwn, 0, d.whoami},
		{http.MethodGet, "/notices", actNoticesRead, 0, d.listNotices},
	}
}

// openRoutes is the table of what needs no credential and leaves no entry. All of it is read
// by GET. What costs more than a few bytes is limited by address.
func (d *door) openRoutes() map[string]http.Handler {
	return map[string]http.Handler{
		"/healthz":      http.HandlerFunc(healthz),
		"/readyz":       d.limited(http.HandlerFunc(d.readyz)),
		"/metrics":      d.limited(promhttp.HandlerFor(d.Gatherer, promhttp.HandlerOpts{})),
		"/login":        d.limited(http.HandlerFunc(d.login)),
		"/openapi.yaml": http.HandlerFunc(serveOpenAPI),
	}
}

// router is the whole door. Paths are taken as they come: none is cleaned or redirected.
func (d *door) router() *mux.Router {
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	open := d.openRoutes()
	for path, handler := range open {
		r.Path(path).Methods(http.MethodGet).Handler(handler)
	}
	for _, rt := range d.routes() {
		r.Path(rt.path).Methods(rt.method).HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			d.serve(w, req, &rt, mux.Vars(req)["id"])
		})
	}
	r.NotFoundHandler = d.refusing(noPath())
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		allowed := allowedMethods(r, req)
		if _, ok := open[req.URL.Path]; ok {
			otherMethod(allowed).write(w, req)
			return
		}
		d.refusing(otherMethod(allowed)).ServeHTTP(w, req)
	})
	return r
}

// allowedMethods are those that the path takes.
func allowedMethods(r *mux.Router, req *http.Request) string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodPost} {
		other, match := req.Clone(req.Context()), mux.RouteMatch{}
		other.Method = method
		if r.Match(other, &match) && match.MatchErr == nil {
			allowed = append(allowed, method)
		}
	}
	slices.Sort(allowed)
	return strings.Join(allowed, ", ")
}
