package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

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

func TestEveryBodyBeyondItsRoutesLimitIsCutOff(t *testing.T) {
	most := map[string]int64{"/changes": 32 << 20, "/machines": 1 << 20, "/digests": 32 << 20, "/policies": 9 << 20} // of all others 64 KiB
	for _, row := range every {
		if row.method == http.MethodGet {
			continue
		}
		limit, ok := most[row.target]
		if !ok {
			limit = 64 << 10
		}
		for _, sent := range []struct {
			name        string
			length      int64 // as announced; -1 is not
			most, least int64 // bytes read
		}{
			{"announced", limit + 1, 0, 0},
			{"announced, far beyond", 40 << 20, 0, 0},
			{"not announced", -1, limit + 1, limit},
		} {
			t.Run(row.name+" "+sent.name, func(t *testing.T) {
				w := newWorld(t)
				body := &counting{inner: spaces{}}
				r := request(row.method, row.target, "{}")
				r.Body, r.ContentLength = body, sent.length
				rec := w.refuses(t, r, 413, "BW-HTTP-413")
				if read := int64(body.read); read > sent.most || read < sent.least || rec.Header().Get("Connection") != "close" {
					t.Errorf("%d bytes were read, %v", read, rec.Header())
				}
				if !strings.Contains(rec.Body.String(), fmt.Sprintf("at most %d bytes", limit)) {
					t.Errorf("%s does not say the limit", rec.Body)
				}
				if diff := cmp.Diff(1, len(w.entries)); diff != "" {
					t.Errorf("entries %q", w.entries)
				}
			})
		}
	}
}

// The longest that people say fits into the small limit: a set of a hundred changes.
func TestASetOfAHundredIsApproved(t *testing.T) {
	w := newWorld(t)
	one := `{"id":"` + chg + `","digest":"` + strings.Repeat("d", mostDigest) + `"}`
	body := `{"digest":"d","comment":"` + strings.Repeat(`\u00e9`, mostName) + `","also":[` + strings.Repeat(one+",", mostAlso-1) + one + `]}`
	if rec := w.do(t, request("POST", "/changes/"+chg+"/approvals", body)); rec.Code != http.StatusCreated {
		t.Errorf("%d bytes: got %d %s", len(body), rec.Code, rec.Body)
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

// A walk of what is not taken would cost seconds of a processor for one body of 32 MiB.
func TestNothingIsWalkedBehindTheFirstValueOfTheWrongKind(t *testing.T) {
	for _, row := range []struct{ name, body string }{
		{"a list for a text", `{"machine":[1,1,`},
		{"an object for a text", `{"machine":{"a":1,`},
		{"a number for a text", `{"machine":1,`},
	} {
		t.Run(row.name, func(t *testing.T) {
			// What follows is no JSON at all: reading on would say so.
			var into api.NewChange
			if err := decodeText([]byte(row.body+"!"), &into); err == nil || !strings.Contains(err.Error(), "machine is a") {
				t.Errorf("%v", err)
			}
		})
	}
	w := &walker{text: wrongKind(largeBody)}
	w.dec = json.NewDecoder(bytes.NewReader(w.text))
	if err := w.value(reflect.TypeFor[api.NewChange](), ""); err == nil || w.dec.InputOffset() > 100 {
		t.Errorf("walked to byte %d: %v", w.dec.InputOffset(), err)
	}
}
