package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// A law comes as OPA packs one: whoever gets it finds by its digest that it is the one of that name.
func TestALawIsGivenWhole(t *testing.T) {
	w, shipped := newWorld(t), must(policy.Shipped())(t)
	rec := w.do(t, request("GET", "/policies/live", nil, "Accept", gzipType))
	if rec.Code != 200 || rec.Header().Get("Content-Type") != gzipType || rec.Header().Get("ETag") != `"`+shipped.Revision()+`"` {
		t.Fatalf("%d %v", rec.Code, rec.Header())
	}
	if b := must(policy.LoadArchive(bytes.NewReader(rec.Body.Bytes())))(t); b.Revision() != shipped.Revision() {
		t.Errorf("it is %s", b.Revision())
	}
	if rec := w.do(t, request("GET", "/policies/live", nil, "If-None-Match", rec.Header().Get("ETag"))); rec.Code != 304 || rec.Body.Len() != 0 {
		t.Errorf("who has it got %d, %d bytes", rec.Code, rec.Body.Len())
	}
	if rec := w.do(t, request("GET", "/policies/live", nil, "If-None-Match", `"`+lawRevision+`"`)); rec.Code != 200 {
		t.Errorf("who has another got %d", rec.Code)
	}
	w.refuses(t, request("GET", "/policies/live", nil, "Accept", "text/html"), 406, "BW-HTTP-406")
	w.refuses(t, request("GET", "/policies", nil, "Accept", gzipType), 406, "BW-HTTP-406")
}

func TestTheLiveLawIsTold(t *testing.T) {
	var got api.PolicyStatus
	if err := json.Unmarshal(newWorld(t).do(t, request("GET", "/policy", nil)).Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.LiveRevision != lawRevision || got.Counter != 2 || got.Activated.By.Subject != "sven" || got.Signed.Key != "2026" || got.ReplicasAgree != "unknown" || got.Opa != policy.OPAVersion() {
		t.Errorf("%+v", got)
	}
	if len(got.Replicas) != 2 || got.Replicas[0].State != "current" || got.Replicas[1].State != "silent" || got.Replicas[1].SilentSeconds != 61 || got.Replicas[1].FailedWhy == "" {
		t.Errorf("%+v", got.Replicas)
	}
}

// What a caller says of a replay goes to the act as what they say, and what contradicts itself is refused.
func TestWhatACallerSaysOfAReplay(t *testing.T) {
	const good = `"since":"2026-03-02T10:00:00Z","max_newly_denied":1,"decisions":4,"same":1,"now_denied":1,"now_allowed":0,"other_reasons":0,"by_gateway":1,"unjudged":1`
	post := func(replay string) (*world, string, int) {
		w := newWorld(t)
		rec := w.do(t, request("POST", "/policies/previous/activations", `{"replay":{`+replay+`}}`))
		return w, rec.Body.String(), rec.Code
	}
	w, body, code := post(good)
	if said, _ := w.last.(string); code != 201 || !strings.HasPrefix(said, "previousas the caller says, since 2026-03-02T10:00:00Z, at most 1 newly denied: 4 decisions: 1 the same, 1 now denied, ") {
		t.Errorf("%d %s: %v", code, body, w.last)
	}
	for name, row := range map[string]struct{ from, to, says string }{
		"more than the limit": {`"max_newly_denied":1`, `"max_newly_denied":0`, "more than the 0"},
		"a sum that is none":  {`"same":1`, `"same":2`, "not the sum"},
		"beyond all numbers":  {`"same":1,"now_denied":1`, `"same":9223372036854775807,"now_denied":1`, "not the sum"},
		"below zero":          {`"now_allowed":0`, `"now_allowed":-1`, "below zero"},
		"no time":             {`2026-03-02T10:00:00Z`, `yesterday`, "RFC 3339"},
		"something left out":  {`,"unjudged":1`, ``, "unjudged"},
	} {
		if w, body, code := post(strings.Replace(good, row.from, row.to, 1)); code != 400 || !strings.Contains(body, row.says) || len(w.did) > 0 {
			t.Errorf("%s: %d %s, did %q", name, code, body, w.did)
		}
	}
}
