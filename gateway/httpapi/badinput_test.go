package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"bronzeward/gateway/control"
)

func contextOf(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithCancel(r.Context())
}

func TestBadRequestsAreRefusedSayWhereAndAreWrittenDown(t *testing.T) {
	revoke, approve := "/identity-revocations", "/changes/"+chg+"/approvals"
	long := strings.Repeat("x", 10_000)
	for _, row := range []struct {
		name, method, target string
		body                 any
		status               int
		code, holds          string
	}{
		{"no JSON", "POST", revoke, `issuer=x`, 400, "BW-HTTP-400", "not JSON at byte 1"},
		{"ends early", "POST", revoke, `{"issuer":"x"`, 400, "BW-HTTP-400", "ends early, at byte 13"},
		{"empty", "POST", revoke, ``, 400, "BW-HTTP-400", "ends early"},
		{"another value behind it", "POST", revoke, `{"issuer":"x","subject":"y","reason":"z"} {}`, 400, "BW-HTTP-400", "follows the body"},
		{"garbage behind it", "POST", revoke, `{"issuer":"x","subject":"y","reason":"z"}}`, 400, "BW-HTTP-400", "follows the body"},
		{"a list", "POST", revoke, `[]`, 400, "BW-HTTP-400", "not a JSON object"},
		{"a text", "POST", revoke, `"x"`, 400, "BW-HTTP-400", "not a JSON object"},
		{"unknown member", "POST", revoke, `{"issuer":"x","subject":"y","reason":"z","forever":true}`, 400, "BW-HTTP-400", "the body has a member whose name ends at byte 50 and that this request does not take; it takes "},
		{"another case", "POST", revoke, `{"Issuer":"x","subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "whose name ends at byte 9 and that"},
		{"unknown member, deep", "POST", "/machines", `{"machines":[{"name":"a","cluster":"b","addresses":[],"adress":1}]}`, 400, "BW-HTTP-400", "machines[0] has a member whose name ends at byte 62 and that this request does not take; it takes addresses, cluster"},
		{"member that looks alike", "POST", revoke, `{"іssuer":"x"}`, 400, "BW-HTTP-400", "whose name ends at byte 10 and that"},
		{"twice", "POST", revoke, `{"issuer":"x","subject":"y","subject":"z","reason":"z"}`, 400, "BW-HTTP-400", "subject is given twice"},
		{"lacking", "POST", revoke, `{"issuer":"x","subject":"y"}`, 400, "BW-HTTP-400", "lacks the member reason"},
		{"null", "POST", revoke, `{"issuer":null,"subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "issuer is null"},
		{"another kind", "POST", revoke, `{"issuer":4711,"subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "issuer is a number; it must be a string"},
		{"a number too large", "POST", "/machines", `{"machines":[{"name":"a","cluster":"b","addresses":[],"port":99999999999999999999}]}`, 400, "BW-HTTP-400", "whole number in range"},
		{"NUL", "POST", revoke, `{"issuer":"x","subject":"a\u0000b","reason":"z"}`, 400, "BW-HTTP-400", "subject holds a NUL"},
		{"NUL in the configuration", "POST", "/changes", `{"machine":"w","mode":"no-reboot","configuration":"a\u0000"}`, 400, "BW-HTTP-400", "configuration holds a NUL"},
		{"half a pair", "POST", "/changes", `{"machine":"w","mode":"no-reboot","configuration":"\ud800"}`, 400, "BW-HTTP-400", "half a surrogate pair"},
		{"not UTF-8", "POST", revoke, "{\"issuer\":\"\xff\"}", 400, "BW-HTTP-400", "not UTF-8 at byte 11"},
		{"too deep", "POST", "/machines", `{"machines":[{"labels":` + strings.Repeat(`{"a":`, 20), 400, "BW-HTTP-400", "machines[0].labels.a is an object; it must be a string"},
		{"a list for a text", "POST", revoke, `{"issuer":["x"],"subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "issuer is an array; it must be a string"},
		{"an object for a list", "POST", "/machines", `{"machines":{"a":1}}`, 400, "BW-HTTP-400", "machines is an object; it must be an array"},
		{"a number for an object", "POST", "/machines", `{"machines":[1,1,1]}`, 400, "BW-HTTP-400", "machines[0] is a number; it must be an object"},
		{"a text for a number", "PATCH", "/machines/worker-1", `{"addresses":[],"labels":{},"port":"1"}`, 400, "BW-HTTP-400", "port is a string; it must be a whole number"},
		{"a broken number", "PATCH", "/machines/worker-1", `{"addresses":[],"labels":{},"port":1.5}`, 400, "BW-HTTP-400", "port is a number; it must be a whole number"},
		{"a boolean for a text", "POST", revoke, `{"issuer":true,"subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "issuer is a boolean"},
		{"a text for a boolean", "POST", "/machines/worker-1/pins", `{"replace":"no"}`, 400, "BW-HTTP-400", "replace is a string; it must be a boolean"},
		{"many addresses", "POST", "/machines", `{"machines":[{"name":"a","cluster":"b","addresses":[` + strings.Repeat(`"",`, 5001) + `""]}]}`, 400, "BW-HTTP-400", "addresses has more than 5000 items"},
		{"many labels", "POST", "/machines", `{"machines":[{"labels":{` + manyMembers(5001) + `}}]}`, 400, "BW-HTTP-400", "labels has more than 5000 members"},
		{"long subject", "POST", revoke, `{"issuer":"x","subject":"` + long + `","reason":"z"}`, 400, "BW-HTTP-400", "subject has 1 to 1000 characters, not 10000"},
		{"newline in a subject", "POST", revoke, `{"issuer":"x","subject":"a\nb","reason":"z"}`, 400, "BW-HTTP-400", "cannot be seen"},
		{"direction in a subject", "POST", revoke, `{"issuer":"x","subject":"a\u202eb","reason":"z"}`, 400, "BW-HTTP-400", "cannot be seen"},
		{"no reason", "POST", revoke, `{"issuer":"x","subject":"y","reason":""}`, 400, "BW-HTTP-400", "reason has 1 to 1000 characters"},
		{"no reason to reject", "POST", "/changes/" + chg + "/rejections", `{}`, 400, "BW-HTTP-400", "lacks the member reason"},
		{"something where nothing is", "POST", "/changes/" + chg + "/applications", `{"force":true}`, 400, "BW-HTTP-400", "this request does not take; it takes none"},
		{"mode", "POST", "/changes", `{"machine":"w","mode":"reboot","configuration":"a"}`, 400, "BW-HTTP-400", "mode is no-reboot, not"},
		{"no configuration", "POST", "/changes", `{"machine":"w","mode":"no-reboot","configuration":""}`, 400, "BW-HTTP-400", "configuration is empty"},
		{"no digest", "POST", approve, `{"digest":""}`, 400, "BW-HTTP-400", "digest has 1 to 200"},
		{"also of another kind", "POST", approve, `{"digest":"d","also":[{"id":"` + apr + `","digest":"d"}]}`, 400, "BW-HTTP-400", "also[0].id: invalid input: " + apr + " is the id of an approval"},
		{"also too many", "POST", approve, `{"digest":"d","also":[` + strings.Repeat(`{"id":"x","digest":"d"},`, 99) + `{"id":"x","digest":"d"}]}`, 400, "BW-HTTP-400", "at most 99"},
		{"address", "POST", "/machines", `{"machines":[{"name":"a","cluster":"b","addresses":["w1.example"]}]}`, 400, "BW-HTTP-400", "machines[0].addresses[0] is"},
		{"port", "PATCH", "/machines/worker-1", `{"addresses":[],"labels":{},"port":70000}`, 400, "BW-HTTP-400", "port is a number from 1 to 65535"},
		{"role", "POST", "/machines", `{"machines":[{"name":"a","cluster":"b","addresses":[],"role":"init"}]}`, 400, "BW-HTTP-400", "role is worker or controlplane"},
		{"no machines", "POST", "/machines", `{"machines":[]}`, 400, "BW-HTTP-400", "1 to 5000"},
		{"id of an approval", "GET", "/changes/" + apr, nil, 400, "BW-HTTP-400", "is the id of an approval, not of a change"},
		{"id of an attempt", "GET", "/changes/" + att, nil, 400, "BW-HTTP-400", "is the id of a decision, attempt or machine"},
		{"id of a change", "POST", "/approvals/" + chg + "/revocations", `{"reason":"x"}`, 400, "BW-HTTP-400", "is the id of a change, not of an approval"},
		{"change for an attempt", "GET", "/attempts/" + chg, nil, 400, "BW-HTTP-400", "id of a change, not of an attempt"},
		{"approval for an attempt", "POST", "/attempts/" + apr + "/accountings", `{}`, 400, "BW-HTTP-400", "id of an approval, not of an attempt"},
		{"no id", "GET", "/attempts/latest", nil, 400, "BW-HTTP-400", "is no id of an attempt"},
		{"NUL in an id", "GET", "/machines/a%00b", nil, 400, "BW-HTTP-400", "cannot be seen"},
		{"a slash in an id", "GET", "/changes/a%2Fdiff", nil, 400, "BW-HTTP-400", "no id of a change"},
		{"a long id", "GET", "/machines/" + long, nil, 400, "BW-HTTP-400", "1 to 256 characters"},
		{"id of a change for a drift", "GET", "/drifts/" + chg, nil, 400, "BW-HTTP-400", "is the id of a change, not of a drift"},
		{"unknown drift", "GET", "/drifts/" + control.DriftID(numbered(7)).String(), nil, 404, "BW-DRIFT-001", "there is no drift"},
		{"no state of a drift", "GET", "/drifts?state=gone", nil, 400, "BW-HTTP-400", "is no state of a drift"},
		{"no reason to adopt", "POST", "/drifts/" + drf + "/adoptions", `{}`, 400, "BW-HTTP-400", "lacks the member reason"},
		{"unknown change", "GET", "/changes/" + control.ChangeID(numbered(7)).String(), nil, 404, "BW-CHANGE-001", "there is no change"},
		{"unknown attempt", "GET", "/attempts/" + numbered(7).String(), nil, 404, "BW-HTTP-404", "not found"},
		{"unknown machine", "GET", "/machines/worker-7", nil, 404, "BW-HTTP-404", "not found"},
		{"unknown machine's changes", "GET", "/changes?machine=worker-7", nil, 404, "BW-HTTP-404", "not found"},
		{"unknown parameter", "GET", "/changes?stat=live", nil, 400, "BW-HTTP-400", "stat"},
		{"a parameter where none is", "GET", "/whoami?as=otto", nil, 400, "BW-HTTP-400", "not a parameter"},
		{"parameter twice", "GET", "/changes?limit=1&limit=2", nil, 400, "BW-HTTP-400", "given twice"},
		{"state", "GET", "/changes?state=sleepy", nil, 400, "BW-HTTP-400", "no state of a change"},
		{"limit", "GET", "/attempts?limit=501", nil, 400, "BW-HTTP-400", "from 1 to 500"},
		{"flag", "GET", "/attempts?held=yes", nil, 400, "BW-HTTP-400", "true or false"},
		{"NUL in a parameter", "GET", "/changes?set=%00", nil, 400, "BW-HTTP-400", "cannot be seen"},
		{"issuer alone", "GET", "/changes?requester_issuer=x", nil, 400, "BW-HTTP-400", "goes with requester"},
		{"query", "GET", "/changes?set=%zz", nil, 400, "BW-HTTP-400", "not well formed"},
		{"cursor", "GET", "/changes?cursor=%21", nil, 400, "BW-HTTP-400", "cursor"},
		{"cursor of another list", "GET", "/changes?cursor=" + cursorOf(listOfMachines, "w1"), nil, 400, "BW-HTTP-400", "cursor"},
		{"path", "GET", "/changes/" + chg + "/approvals/1", nil, 404, "BW-HTTP-404", "no such path"},
		{"path with dots", "GET", "/machines/../changes", nil, 404, "BW-HTTP-404", "no such path"},
		{"method", "DELETE", "/identity-revocations", nil, 405, "BW-HTTP-405", "GET, POST only"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			rec := w.refuses(t, request(row.method, row.target, row.body), row.status, row.code)
			if !strings.Contains(rec.Body.String(), row.holds) {
				t.Errorf("%s does not say %q", rec.Body, row.holds)
			}
			if len(w.entries) != 1 || len(w.did) != 0 {
				t.Errorf("entries %q, did %q", w.entries, w.did)
			}
			if rec.Body.Len() > 4000 {
				t.Errorf("%d bytes of answer", rec.Body.Len())
			}
		})
	}
}

func manyMembers(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "%q:%q,", strconv.Itoa(i), "")
	}
	return strings.TrimSuffix(out.String(), ",")
}

func TestTypesAndEncodingsOfABody(t *testing.T) {
	for _, row := range []struct {
		name, header, value string
		status              int
	}{
		{"none", "Content-Type", "", 415},
		{"form", "Content-Type", "application/x-www-form-urlencoded", 415},
		{"problem", "Content-Type", "application/problem+json", 415},
		{"Latin 1", "Content-Type", "application/json; charset=iso-8859-1", 415},
		{"UTF-8", "Content-Type", "application/json; charset=UTF-8", 200},
		{"gzip", "Content-Encoding", "gzip", 415},
		{"HTML wanted", "Accept", "text/html", 406},
		{"JSON not wanted", "Accept", "application/json;q=0", 406},
		{"anything wanted", "Accept", "text/html, */*;q=0.1", 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			rec := w.do(t, request("POST", "/changes/"+chg+"/rejections", `{"reason":"no"}`, row.header, row.value))
			if rec.Code != row.status || len(w.entries) != 1 {
				t.Errorf("got %d %s, entries %q", rec.Code, rec.Body, w.entries)
			}
		})
	}
}
