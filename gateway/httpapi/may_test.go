package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// shippedActs are the acts that the shipped law knows, with who may do them.
func shippedActs(t *testing.T) map[string]any {
	t.Helper()
	bundle := must(policy.Shipped())(t)
	for _, f := range bundle.Files() {
		if f.Path == "bronzeward/api/data.yaml" {
			var data struct{ Acts map[string]any }
			if err := yaml.Unmarshal(f.Body, &data); err != nil {
				t.Fatal(err)
			}
			return data.Acts
		}
	}
	t.Fatal("the shipped law has no bronzeward/api/data.yaml")
	return nil
}

func TestEveryRouteIsAnActOfTheShippedLaw(t *testing.T) {
	want := map[string][2]string{ // as it stands in the book, and as it is judged first
		"GET /changes":                     {"changes.read"},
		"POST /changes":                    {"changes.submit", "changes.submit"},
		"GET /changes/{id}":                {"changes.read"},
		"GET /changes/{id}/diff":           {"changes.read"},
		"POST /changes/{id}/approvals":     {"changes.approve", "changes.approve"},
		"POST /changes/{id}/rejections":    {"changes.reject", "changes.reject"},
		"POST /changes/{id}/cancellations": {"changes.cancel", "changes.read"},
		"POST /changes/{id}/applications":  {"changes.apply", "changes.apply"},
		"POST /changes/{id}/adoptions":     {"changes.apply", "changes.apply"},
		"GET /drifts":                      {"drift.read"},
		"GET /drifts/{id}":                 {"drift.read"},
		"POST /drifts/{id}/adoptions":      {"drift.adopt", "drift.adopt"},
		"POST /drifts/{id}/reversions":     {"drift.revert", "drift.revert"},
		"POST /approvals/{id}/revocations": {"approvals.revoke", "approvals.revoke"},
		"GET /identity-revocations":        {"identities.read"},
		"POST /identity-revocations":       {"identities.revoke", "identities.revoke"},
		"GET /machines":                    {"machines.read"},
		"POST /machines":                   {"machines.add", "machines.add"},
		"GET /machines/{id}":               {"machines.read"},
		"PATCH /machines/{id}":             {"machines.update", "machines.update"},
		"POST /machines/{id}/observations": {"machines.observe", "machines.observe"},
		"POST /machines/{id}/pins":         {"machines.pin", "machines.read"},
		"GET /machines/{id}/timeline":      {"machines.read"},
		"GET /machines/{id}/freezes":       {"machines.read"},
		"POST /machines/{id}/freezes":      {"machines.freeze", "machines.freeze"},
		"POST /machines/{id}/unfreezings":  {"machines.unfreeze", "machines.unfreeze"},
		"POST /machines/{id}/retirements":  {"machines.retire", "machines.retire"},
		"GET /clusters":                    {"clusters.read"},
		"PATCH /clusters/{id}":             {"clusters.limit", "clusters.limit"},
		"GET /attempts":                    {"attempts.read"},
		"GET /attempts/{id}":               {"attempts.read"},
		"POST /attempts/{id}/accountings":  {"attempts.account", "attempts.account"},
		"POST /certificates":               {"certificates.issue", "certificates.issue"},
		"POST /digests":                    {"digests.compute", "digests.compute"},
		"GET /digest-keys":                 {"digest-keys.read"},
		"POST /digest-keys":                {"digest-keys.add", "digest-keys.add"},
		"GET /whoami":                      {"decisions.own"},
		"GET /notices":                     {"notices.read"},
		"GET /recovery":                    {"machines.read"},
		"POST /recovery":                   {"recovery.enter", "recovery.enter"},
		"POST /recovery/endings":           {"recovery.exit", "recovery.exit"},
		"POST /machines/{id}/releases":     {"machines.release", "machines.release"},
		"GET /policy":                      {"policy.read"},
		"GET /policies/{id}":               {"policy.read"},
		"GET /policies":                    {"policy.read"},
		"POST /policies":                   {"policy.save", "policy.save"},
		"GET /policies/{id}/differences":   {"policy.read"},
		"POST /policies/{id}/approvals":    {"policy.approve", "policy.approve"},
		"POST /policies/{id}/activations":  {"policy.activate", "policy.activate"},
		"POST /policies/{id}/rollbacks":    {"policy.rollback", "policy.rollback"},
		"GET /decisions":                   {"decisions.read"},
		"GET /decisions/records":           {"decisions.read"},
		"GET /decisions/{id}":              {"decisions.read"},
		"GET /decisions/{id}/proof":        {"proofs.read"},
		"GET /checkpoints":                 {"proofs.read"},
		"GET /checkpoints/consistency":     {"proofs.read"},
	}
	got, acts := map[string][2]string{}, shippedActs(t)
	for _, rt := range (&door{}).routes() {
		named := [2]string{rt.act}
		if rt.changes() {
			named[1] = rt.first()
		}
		got[rt.method+" "+rt.path] = named
		for _, act := range named {
			if _, ok := acts[act]; !ok && act != "" {
				t.Errorf("%s %s is %s, which the shipped law does not know", rt.method, rt.path, act)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, ok := acts[actRepin]; !ok {
		t.Errorf("%s is no act of the shipped law", actRepin)
	}
}

// What the handlers ask is what the table says: reads are judged by Book.Read as their act,
// and what changes something by May first.
func TestEveryRequestIsJudgedAsItsRouteSays(t *testing.T) {
	for _, row := range every {
		t.Run(row.name, func(t *testing.T) {
			rt := routeOf(t, row.method, row.target)
			w := newWorld(t)
			w.do(t, request(row.method, row.target, row.body))
			if !rt.changes() {
				if len(w.asked) > 0 || !strings.HasPrefix(w.entries[0], "read "+rt.act+" ") {
					t.Errorf("asked %q, entries %q", w.asked, w.entries)
				}
				return
			}
			if len(w.asked) == 0 || w.asked[0] != rt.first() {
				t.Errorf("asked %q, want %s first", w.asked, rt.first())
			}
		})
	}
}

// routeOf is the row of the table that a request is served by.
func routeOf(t *testing.T, method, target string) *route {
	t.Helper()
	described := inputOf(t, request(method, target, nil)).Route.Path
	for _, rt := range (&door{}).routes() {
		if rt.method == method && rt.path == described {
			return &rt
		}
	}
	t.Fatalf("no route serves %s %s", method, target)
	return nil
}

func TestWhoMayNotIsRefusedBeforeTheBodyIsReadAndAnythingIsLookedUp(t *testing.T) {
	for _, row := range every {
		rt := routeOf(t, row.method, row.target)
		if !rt.changes() {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			target := row.target
			if strings.HasPrefix(target, "/machines/") {
				target = strings.Replace(target, "worker-1", numbered(1).String(), 1) // an id is looked up
			}
			endless := func() (*http.Request, *counting) {
				body := &counting{inner: spaces{}}
				r := request(row.method, target, "{}")
				r.Body, r.ContentLength = body, -1
				return r, body
			}
			w := newWorld(t)
			w.denies[rt.first()] = deniedAct{[]policy.Reason{deny("BW-ACT-003", "no role")}}
			r, body := endless()
			rec := w.refuses(t, r, 403, "BW-ACT-003")
			if body.read > 0 || w.looked > 0 || len(w.did) > 0 {
				t.Errorf("%d bytes read, %d looked up, did %q", body.read, w.looked, w.did)
			}
			if diff := cmp.Diff([]string{"denied " + rt.first()}, w.entries); diff != "" {
				t.Errorf("entries: %s", diff)
			}
			if rec.Header().Get(DecisionHeader) != numbered(55).String() {
				t.Errorf("entry %q", rec.Header().Get(DecisionHeader))
			}

			// The control: who may has the body read.
			w = newWorld(t)
			r, body = endless()
			w.refuses(t, r, 413, "BW-HTTP-413")
			if body.read == 0 {
				t.Error("nothing is read of anybody's body, so this test shows nothing")
			}
		})
	}
}

func TestWhatThereIsIsToldToThoseAloneWhoMay(t *testing.T) {
	ids := strings.NewReplacer(
		chg, control.ChangeID(numbered(7)).String(), apr, control.ApprovalID(numbered(7)).String(), att, numbered(7).String(),
		"worker-1", "worker-7", numbered(1).String(), numbered(7).String(), numbered(2).String(), numbered(7).String(),
		numbered(42).String(), numbered(7).String(), drf, control.DriftID(numbered(7)).String(),
	)
	for _, row := range every {
		rt := routeOf(t, row.method, row.target)
		if !strings.Contains(rt.path, "{id}") {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			unknown := strings.Split(ids.Replace(row.target), "?")[0]
			judged := rt.act
			if rt.changes() {
				judged = rt.first()
			}
			refusal := func(target string) string {
				w := newWorld(t)
				w.denies[judged] = deniedAct{[]policy.Reason{deny("BW-ACT-003", "no role")}}
				rec := w.refuses(t, request(row.method, target, row.body), 403, "BW-ACT-003")
				return strings.ReplaceAll(rec.Body.String(), target, "the path")
			}
			if diff := cmp.Diff(refusal(strings.Split(row.target, "?")[0]), refusal(unknown)); diff != "" {
				t.Errorf("what there is and what there is not are refused differently: %s", diff)
			}
			w := newWorld(t)
			w.fails = fmt.Errorf("looking: %w", control.ErrNotFound) // of an act
			if rec := w.do(t, request(row.method, unknown, row.body)); rec.Code != 404 || len(w.entries) != 1 {
				t.Errorf("who may got %d %s, entries %q", rec.Code, rec.Body, w.entries)
			}
		})
	}
}

func TestAPinIsJudgedAsWhatItIsBeforeTheMachineIsLookedUp(t *testing.T) {
	pins := path.Join("/machines", numbered(1).String(), "pins")
	for _, row := range []struct{ name, body, act string }{
		{"a pin", `{"replace":false}`, actPin},
		{"a pin in place of another", `{"replace":true}`, actRepin},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.do(t, request("POST", pins, row.body))
			if diff := cmp.Diff([]string{actMachinesRead, row.act}, w.asked); diff != "" {
				t.Errorf("asked: %s", diff)
			}
			w = newWorld(t)
			w.denies[row.act] = deniedAct{}
			w.refuses(t, request("POST", pins, row.body), 403, "BW-POLICY-001")
			if w.looked > 0 || len(w.did) > 0 || len(w.entries) != 1 {
				t.Errorf("%d looked up, did %q, entries %q", w.looked, w.did, w.entries)
			}
		})
	}
}

func TestARefusalOfMayThatCouldNotBeWrittenDownRefusesAllTheSame(t *testing.T) {
	w := newWorld(t)
	w.denies["changes.submit"] = fmt.Errorf("judging: %w", control.ErrUnavailable)
	w.refuses(t, request("POST", "/changes", io.LimitReader(spaces{}, 10)), 503, "BW-BOOK-001")
	if len(w.did) > 0 {
		t.Errorf("did %q", w.did)
	}
}
