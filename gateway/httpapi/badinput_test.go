package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		{"unknown member", "POST", revoke, `{"issuer":"x","subject":"y","reason":"z","forever":true}`, 400, "BW-HTTP-400", "forever is not a member"},
		{"another case", "POST", revoke, `{"Issuer":"x","subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "Issuer is not a member"},
		{"unknown member, deep", "POST", "/machines", `{"machines":[{"name":"a","cluster":"b","addresses":[],"adress":1}]}`, 400, "BW-HTTP-400", "machines[0].adress is not a member"},
		{"member that looks alike", "POST", revoke, `{"іssuer":"x"}`, 400, "BW-HTTP-400", `\\u0456ssuer`},
		{"twice", "POST", revoke, `{"issuer":"x","subject":"y","subject":"z","reason":"z"}`, 400, "BW-HTTP-400", "subject is given twice"},
		{"lacking", "POST", revoke, `{"issuer":"x","subject":"y"}`, 400, "BW-HTTP-400", "lacks the member reason"},
		{"null", "POST", revoke, `{"issuer":null,"subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "issuer is null"},
		{"another kind", "POST", revoke, `{"issuer":4711,"subject":"y","reason":"z"}`, 400, "BW-HTTP-400", "issuer is a number; it must be a string"},
		{"a number too large", "POST", "/machines", `{"machines":[{"name":"a","cluster":"b","addresses":[],"port":99999999999999999999}]}`, 400, "BW-HTTP-400", "whole number in range"},
		{"NUL", "POST", revoke, `{"issuer":"x","subject":"a\u0000b","reason":"z"}`, 400, "BW-HTTP-400", "subject holds a NUL"},
		{"NUL in the configuration", "POST", "/changes", `{"machine":"w","mode":"no-reboot","configuration":"a\u0000"}`, 400, "BW-HTTP-400", "configuration holds a NUL"},
		{"half a pair", "POST", "/changes", `{"machine":"w","mode":"no-reboot","configuration":"\ud800"}`, 400, "BW-HTTP-400", "half a surrogate pair"},
		{"not UTF-8", "POST", revoke, "{\"issuer\":\"\xff\"}", 400, "BW-HTTP-400", "not UTF-8 at byte 11"},
		{"too deep", "POST", "/machines", `{"machines":[{"labels":` + strings.Repeat(`{"a":`, 20), 400, "BW-HTTP-400", "nests deeper"},
		{"long subject", "POST", revoke, `{"issuer":"x","subject":"` + long + `","reason":"z"}`, 400, "BW-HTTP-400", "subject has 1 to 1000 characters, not 10000"},
		{"newline in a subject", "POST", revoke, `{"issuer":"x","subject":"a\nb","reason":"z"}`, 400, "BW-HTTP-400", "cannot be seen"},
		{"direction in a subject", "POST", revoke, `{"issuer":"x","subject":"a\u202eb","reason":"z"}`, 400, "BW-HTTP-400", "cannot be seen"},
		{"no reason", "POST", revoke, `{"issuer":"x","subject":"y","reason":""}`, 400, "BW-HTTP-400", "reason has 1 to 1000 characters"},
		{"no reason to reject", "POST", "/changes/" + chg + "/rejections", `{}`, 400, "BW-HTTP-400", "lacks the member reason"},
		{"something where nothing is", "POST", "/changes/" + chg + "/applications", `{"force":true}`, 400, "BW-HTTP-400", "force is not a member"},
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

// counting counts what is read of an upload that never ends.
type counting struct {
	read  int
	inner io.Reader
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.inner.Read(p)
	c.read += n
	return n, err
}

func (c *counting) Close() error { return nil }

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestLargeBodiesAreCutOff(t *testing.T) {
	for _, row := range []struct {
		name, target string
		length       int64 // as announced; -1 is not
		most, least  int   // bytes read
	}{
		{"announced, small route", "/identity-revocations", smallBody + 1, 0, 0},
		{"not announced, small route", "/identity-revocations", -1, smallBody + 1, smallBody},
		{"40 MiB announced", "/changes", 40 << 20, 0, 0},
		{"not announced, large route", "/changes", -1, largeBody + 1, largeBody},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			body := &counting{inner: spaces{}}
			r := request("POST", row.target, "{}")
			r.Body, r.ContentLength = body, row.length
			rec := w.refuses(t, r, 413, "BW-HTTP-413")
			if body.read > row.most || body.read < row.least || rec.Header().Get("Connection") != "close" {
				t.Errorf("%d bytes were read, %v", body.read, rec.Header())
			}
			if diff := cmp.Diff(1, len(w.entries)); diff != "" {
				t.Errorf("entries %q", w.entries)
			}
		})
	}
}

func TestALargeConfigurationIsTaken(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat(`a: \"b\"\n`, 1<<20)
	rec := w.do(t, request("POST", "/changes", `{"machine":"worker-1","mode":"no-reboot","configuration":"`+text+`"}`))
	given, _ := w.last.(control.Submission)
	if rec.Code != http.StatusCreated || len(given.Text) != len("a: \"b\"\n")<<20 {
		t.Errorf("got %d, %d bytes", rec.Code, len(given.Text))
	}
}

func TestAnUploadThatEndsEarlyIsRefused(t *testing.T) {
	w := newWorld(t)
	r := request("POST", "/identity-revocations", io.MultiReader(strings.NewReader(`{"issuer":`), failing{}))
	w.refuses(t, r, 400, "BW-HTTP-400")
	if !strings.Contains(w.log.String(), io.ErrUnexpectedEOF.Error()) {
		t.Errorf("the log does not say why: %s", w.log)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// The whole way over a real connection: an upload beyond the limit is answered and cut off.
func TestAnUploadBeyondTheLimitIsCutOffOnTheWire(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	r := must(http.NewRequest("POST", server.URL+"/changes", io.LimitReader(spaces{}, 40<<20)))(t)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = -1
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Skipf("the connection was cut before the answer was read: %v", err) // legal: RFC 9110, section 15.5.14
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d", resp.StatusCode)
	}
}
