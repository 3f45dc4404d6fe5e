package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// chg, apr, drf and att are ids of the stub's things.
var (
	chg = newHouse().changes[0].ID.String()
	apr = newHouse().changes[0].Approvals[0].ID.String()
	drf = newHouse().oneDrift().ID.String()
	att = newHouse().attempts[0].ID.String()
)

func TestTheRouteTableIsWhatOpenAPISays(t *testing.T) {
	doc := must(openapi3.NewLoader().LoadFromData(openAPI))(t)
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	var described, served []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	cfg := newWorld(t).config()
	for path := range (&door{Config: cfg}).openRoutes() {
		served = append(served, "GET "+path)
	}
	for _, rt := range (&door{}).routes() {
		served = append(served, rt.method+" "+rt.path)
	}
	slices.Sort(described)
	slices.Sort(served)
	if diff := cmp.Diff(described, served); diff != "" {
		t.Errorf("openapi.yaml (-) and the table (+) differ:\n%s", diff)
	}
}

// every is a good request to each route, and what it leaves in the book.
var every = []struct {
	name, method, target string
	body                 any
	status               int
	entry                string
}{
	{"list changes", "GET", "/changes?state=live&machine=worker-1&limit=3&requester=otto", nil, 200, "read changes.read "},
	{"list changes of a machine's id", "GET", "/changes?machine=" + numbered(1).String(), nil, 200, "read changes.read "},
	{"submit", "POST", "/changes", `{"machine":"worker-1","configuration":"a: b\n","mode":"no-reboot"}`, 201, "act submit"},
	{"submit what is there", "POST", "/changes", `{"machine":"worker-1","configuration":"a","mode":"no-reboot","set":"same"}`, 200, "act submit"},
	{"show a change", "GET", "/changes/" + chg, nil, 200, "read changes.read " + chg},
	{"show its diff", "GET", "/changes/" + chg + "/diff", nil, 200, "read changes.read " + chg},
	{"approve", "POST", "/changes/" + chg + "/approvals", `{"digest":"hmac-sha256:k1:bb","comment":"ok","also":[{"id":"` + chg + `","digest":"x"}]}`, 201, "act approve"},
	{"reject", "POST", "/changes/" + chg + "/rejections", `{"reason":"no"}`, 200, "act reject"},
	{"cancel", "POST", "/changes/" + chg + "/cancellations", `{"reason":"no"}`, 200, "act cancel"},
	{"apply", "POST", "/changes/" + chg + "/applications", `{}`, 201, "act apply"},
	{"carry out an adoption", "POST", "/changes/" + chg + "/adoptions", `{}`, 200, "act adopt change"},
	{"list drifts", "GET", "/drifts?state=open&machine=worker-1&limit=3", nil, 200, "read drift.read "},
	{"show a drift", "GET", "/drifts/" + drf, nil, 200, "read drift.read " + drf},
	{"adopt a drift", "POST", "/drifts/" + drf + "/adoptions", `{"reason":"wanted"}`, 201, "act adopt"},
	{"adopt it again", "POST", "/drifts/" + drf + "/adoptions", `{"reason":"same"}`, 200, "act adopt"},
	{"revert a drift", "POST", "/drifts/" + drf + "/reversions", `{"reason":"not wanted"}`, 201, "act revert"},
	{"revert it again", "POST", "/drifts/" + drf + "/reversions", `{"reason":"same"}`, 200, "act revert"},
	{"revoke an approval", "POST", "/approvals/" + apr + "/revocations", `{"reason":"no"}`, 200, "act revoke approval"},
	{"list revocations", "GET", "/identity-revocations", nil, 200, "read identities.read "},
	{"revoke an identity", "POST", "/identity-revocations", `{"issuer":"https://id.example","subject":"mallory","reason":"left"}`, 201, "act revoke identity"},
	{"list machines", "GET", "/machines?cluster=berlin", nil, 200, "read machines.read "},
	{"add machines", "POST", "/machines", `{"machines":[{"name":"w9","cluster":"c","role":"worker","addresses":["10.0.0.9"],"port":50000,"labels":{"a":"b"}}]}`, 201, "act add machines"},
	{"show a machine", "GET", "/machines/worker-1", nil, 200, "read machines.read worker-1"},
	{"show a machine by id", "GET", "/machines/" + numbered(2).String(), nil, 200, "read machines.read " + numbered(2).String()},
	{"update a machine", "PATCH", "/machines/" + numbered(1).String(), `{"addresses":["10.0.0.9"],"port":50000,"labels":{}}`, 200, "act update worker-1"},
	{"observe a machine", "POST", "/machines/worker-1/observations", `{}`, 201, "act observe worker-1"},
	{"pin a machine", "POST", "/machines/worker-1/pins", `{"replace":true}`, 201, "act pin worker-1 true"},
	{"list machines with the retired", "GET", "/machines?all=true", nil, 200, "read machines.read "},
	{"list freezes", "GET", "/machines/worker-1/freezes", nil, 200, "read machines.read worker-1"},
	{"freeze a machine", "POST", "/machines/worker-1/freezes", `{"reason":"stop"}`, 201, "act freeze worker-1"},
	{"unfreeze a machine", "POST", "/machines/" + numbered(1).String() + "/unfreezings", `{"reason":"go"}`, 201, "act unfreeze worker-1"},
	{"retire a machine", "POST", "/machines/worker-1/retirements", `{"reason":"gone"}`, 201, "act retire worker-1"},
	{"recovery", "GET", "/recovery", nil, 200, "read machines.read "},
	{"enter recovery", "POST", "/recovery", `{"reason":"restored"}`, 200, "act enter recovery"},
	{"release a machine", "POST", "/machines/worker-1/releases", `{}`, 200, "act release worker-1"},
	{"end recovery", "POST", "/recovery/endings", `{"revocations_settled":true,"reason":"gone"}`, 200, "act exit recovery"},
	{"list clusters", "GET", "/clusters", nil, 200, "read clusters.read "},
	{"limit a cluster", "PATCH", "/clusters/berlin", `{"rollout_limit":2}`, 200, "act limit berlin 2"},
	{"timeline", "GET", "/machines/worker-1/timeline", nil, 200, "read machines.read worker-1"},
	{"list attempts", "GET", "/attempts?held=false&machine=worker-1", nil, 200, "read attempts.read "},
	{"show an attempt", "GET", "/attempts/" + att, nil, 200, "read attempts.read " + att},
	{"account", "POST", "/attempts/" + att + "/accountings", `{"landed":true,"reason":"I looked"}`, 200, "act account"},
	{"the live law", "GET", "/policy", nil, 200, "read policy.read "},
	{"list laws", "GET", "/policies", nil, 200, "read policy.read "},
	{"bring a law", "POST", "/policies", packed, 201, "act save law"},
	{"a law itself", "GET", "/policies/1f4af373", nil, 200, "read policy.read 1f4af373"},
	{"what a law changes", "GET", "/policies/1f4af373/differences?from=previous", nil, 200, "read policy.read 1f4af373"},
	{"what a law changes of the live one", "GET", "/policies/" + lawRevision + "/differences", nil, 200, "read policy.read " + lawRevision[:12]},
	{"agree to a law", "POST", "/policies/" + lawRevision + "/approvals", `{}`, 201, "act approve law " + lawRevision},
	{"make a law live", "POST", "/policies/1f4af373/activations", `{}`, 201, "act activate law 1f4af373"},
	{"go back to a law", "POST", "/policies/previous/rollbacks", `{"replay":{"since":"2026-03-02T10:00:00Z","max_newly_denied":1,"decisions":4,"same":1,"now_denied":1,"now_allowed":0,"other_reasons":0,"by_gateway":1,"unjudged":1}}`, 201, "act roll back law previous"},
	{"get a certificate", "POST", "/certificates", `{"csr":` + csr + `,"lifetime_seconds":3600}`, 201, "act issue"},
	{"get one for as long as there is", "POST", "/certificates", `{"csr":` + csr + `}`, 201, "act issue"},
	{"digest", "POST", "/digests", "a: b\n", 201, "act digest"},
	{"list digest keys", "GET", "/digest-keys", nil, 200, "read digest-keys.read "},
	{"add a digest key", "POST", "/digest-keys", `{}`, 201, "act add digest key"},
	{"list decisions", "GET", "/decisions", nil, 200, "read decisions.read " + readingOf("") + "everything"},
	{"list some decisions", "GET", "/decisions?verdict=allow&limit=2&order=oldest", nil, 200, "read decisions.read " + readingOf("order=oldest&verdict=allow") + "order=oldest verdict=allow"},
	{"read records", "GET", "/decisions/records?limit=2&count=true&reasoned=false", nil, 200, "read decisions.read " + readingOf("records=whole&reasoned=false") + "reasoned=false records=whole"},
	{"show a decision", "GET", "/decisions/" + numbered(42).String(), nil, 200, "read decisions.read " + numbered(42).String()},
	{"prove a decision", "GET", "/decisions/" + numbered(42).String() + "/proof", nil, 200, "read proofs.read " + numbered(42).String()},
	{"list checkpoints", "GET", "/checkpoints?limit=1", nil, 200, "read proofs.read "},
	{"prove a tree's growth", "GET", "/checkpoints/consistency?tree=2&from=1&to=2", nil, 200, "read proofs.read "},
	{"who am I", "GET", "/whoami", nil, 200, "read decisions.own "},
	{"notices", "GET", "/notices?dead=true&limit=5", nil, 200, "read notices.read "},
}

// readingOf begins the subject of the reading that these parameters ask for.
func readingOf(query string) string {
	values, _ := url.ParseQuery(query)
	return (&reading{asked: values}).mark()
}

func TestEveryRouteAnswersAsOpenAPISaysAndLeavesOneEntry(t *testing.T) {
	tried := map[string]bool{}
	for _, row := range every {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			r := takes(t, request(row.method, row.target, row.body))
			rec := w.do(t, r)
			if rec.Code != row.status {
				t.Fatalf("got %d %s", rec.Code, rec.Body)
			}
			if diff := cmp.Diff([]string{row.entry}, w.entries); diff != "" {
				t.Errorf("entries: %s", diff)
			}
			if got := rec.Header().Get(DecisionHeader); got != numbered(1001).String() {
				t.Errorf("%s: %q", DecisionHeader, got)
			}
			if got, want := rec.Header().Get(LeafHeader), leafOf(numbered(1001)); got != want {
				t.Errorf("%s: %q, want %q", LeafHeader, got, want)
			}
			if n := strings.Count(w.log.String(), "\n"); n != 1 {
				t.Errorf("%d log lines: %s", n, w.log)
			}
		})
		tried[row.method+" "+inputOf(t, request(row.method, row.target, row.body)).Route.Path] = true
	}
	for _, rt := range (&door{}).routes() {
		if !tried[rt.method+" "+rt.path] {
			t.Errorf("nothing here asks for %s %s", rt.method, rt.path)
		}
	}
}

// Wherever the description promises the id of an entry, it promises its leaf.
func TestTheDescriptionHasALeafBesideEachDecision(t *testing.T) {
	doc := must(openapi3.NewLoader().LoadFromData(openAPI))(t)
	answers := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, answer := range op.Responses.Map() {
				decision, leaf := answer.Value.Headers[DecisionHeader], answer.Value.Headers[LeafHeader]
				if (decision == nil) != (leaf == nil) || decision != nil && decision.Value.Required != leaf.Value.Required {
					t.Errorf("%s %s answers %s with one of the two, or demands one alone", method, path, status)
				}
				if leaf != nil {
					answers++
				}
			}
		}
	}
	if answers < 30 {
		t.Errorf("%d answers with a leaf were looked at", answers)
	}
}

func TestOpenRoutesAskForNoCredentialAndLeaveNoEntry(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "bronzeward_test", Help: "A test's."}))
	for _, row := range []struct {
		name, method, path string
		problems           readiness
		status             int
		contentType, holds string
	}{
		{"alive", http.MethodGet, "/healthz", nil, 200, "application/json", `"status":"ok"`},
		{"alive though not ready", http.MethodGet, "/healthz", readiness{"no policy is live"}, 200, "application/json", `"status":"ok"`},
		{"ready", http.MethodGet, "/readyz", nil, 200, "application/json", `"ready":true`},
		{"not ready, and why", http.MethodGet, "/readyz", readiness{"no policy is live"}, 503, "application/json", `"problems":["no policy is live"]`},
		{"how to log in", http.MethodGet, "/login", nil, 200, "application/json", `"talos_endpoints":["gate.example:50000"]`},
		{"how to log in, by another method", http.MethodPost, "/login", nil, 405, "application/problem+json", `"code":"BW-HTTP-405"`},
		{"metrics", http.MethodGet, "/metrics", nil, 200, "text/plain", "bronzeward_test 0"},
		{"description", http.MethodGet, "/openapi.yaml", nil, 200, "application/yaml", "openapi: 3.0.3"},
		{"another method", http.MethodPost, "/readyz", nil, 405, "application/problem+json", `"code":"BW-HTTP-405"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			world := newWorld(t)
			cfg := world.config()
			cfg.Ready, cfg.Gatherer = row.problems, registry
			w := httptest.NewRecorder()
			r := httptest.NewRequest(row.method, row.path, nil)
			must(New(cfg))(t).ServeHTTP(w, r)
			if w.Code != row.status || !strings.HasPrefix(w.Header().Get("Content-Type"), row.contentType) || !strings.Contains(w.Body.String(), row.holds) {
				t.Errorf("got %d, %s, %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			conforms(t, r, w)
			if len(world.entries) > 0 {
				t.Errorf("entries: %q", world.entries)
			}
		})
	}
}

// RFC 9457, section 3.1: what a problem document says of itself.
func TestAProblemIsAWholeProblemDocument(t *testing.T) {
	w := newWorld(t)
	rec := w.refuses(t, request("GET", "/nowhere", nil), 404, "BW-HTTP-404")
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "about:blank", "title": "Not Found", "status": 404.0, "instance": "/nowhere", "code": "BW-HTTP-404",
		"detail": "there is no such path", "hint": "see /openapi.yaml", "decision": numbered(1001).String(),
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Error(diff)
	}
}

func TestAConfigSaysAllThatIsMissing(t *testing.T) {
	_, err := New(Config{})
	for _, name := range []string{"Identity", "Notices", "Logger"} {
		if err == nil || !strings.Contains(err.Error(), name+" is not set") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
