package book

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// pastAtStub is the past at a stub, asked as olga.
func pastAtStub(t *testing.T, s *clitest.Stub) Past {
	t.Helper()
	client, err := ask.Flags{
		ServerFlags: ask.ServerFlags{Server: s.URL, ServerCA: s.CA}, CredentialFlags: ask.CredentialFlags{Certificate: s.Certificate, Key: s.Key},
	}.Open(&cli.Globals{Output: "table", Console: cli.Console{Pause: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	past := PastAt(client)
	t.Cleanup(past.Close)
	return past
}

var readingEnds = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// recordsPage writes a page of records, the numbers of which are given.
func recordsPage(w http.ResponseWriter, next string, total *int64, numbers ...int) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	for _, n := range numbers {
		_ = lines.Encode(api.DecisionRecord{ID: recordID(n).String(), RecordedAt: readingEnds.Add(-time.Hour), Record: fmt.Sprintf("{\"n\":%d,\"text\":\"<ä>\"}", n)})
	}
	_ = lines.Encode(api.DecisionRecordsEnd{Next: next, Until: readingEnds, Total: total})
}

func recordID(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("019a5c3e-7b1d-7f00-8000-%012d", n))
}

// A reading goes on page by page, over empty ones too, asking the same as at first; and when its hour is over a new one goes on
// behind what was read, to the same end.
func TestAReadingAtAGatewayGoesOn(t *testing.T) {
	s := clitest.NewStub(t)
	var asked []string
	s.Mux.HandleFunc("GET /decisions/records", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, strings.Join([]string{q.Get("machine"), q.Get("reasoned"), q.Get("count"), q.Get("cursor"), q.Get("until"), q.Get("after")}, "|"))
		switch {
		case q.Get("cursor") == "" && q.Get("after") == "":
			recordsPage(w, "a", new(int64(4)), 1, 2)
		case q.Get("cursor") == "a":
			recordsPage(w, "b", nil)
		case q.Get("cursor") == "b":
			recordsPage(w, "c", nil, 3)
		case q.Get("cursor") == "c":
			clitest.Refuses(http.StatusBadRequest, "BW-HTTP-400", "the parameter cursor is of a reading that began more than an hour ago", "")(w, r)
		default:
			recordsPage(w, "", nil, 4)
		}
	})
	past := pastAtStub(t, s)
	r, n, err := past.Bound(t.Context(), Range{Machine: "worker-1", Said: true})
	if err != nil || n != 4 || !r.until.Equal(readingEnds) {
		t.Fatalf("%d until %s, %v", n, r.until, err)
	}
	var got []string
	for pages := past.Pages(r); ; {
		rows, err := pages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			got = append(got, row.ID.String()[35:]+string(row.Record))
		}
	}
	if want := []string{`1{"n":1,"text":"<ä>"}`, `2{"n":2,"text":"<ä>"}`, `3{"n":3,"text":"<ä>"}`, `4{"n":4,"text":"<ä>"}`}; !slices.Equal(got, want) {
		t.Errorf("read %q", got)
	}
	want := []string{
		"worker-1|true|true|||", "worker-1|true||a||", "worker-1|true||b||", "worker-1|true||c||",
		"worker-1|true|||2026-03-02T10:00:00Z|" + recordID(3).String(),
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
}

// What ends in the middle, or is none of ours, is no page: nothing is judged on half of the past.
func TestHalfAPageIsNone(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":             "",
		"no end":              `{"id":"` + recordID(1).String() + `","recorded_at":"2026-03-02T10:00:00Z","record":"{}"}` + "\n",
		"half a line":         `{"id":"`,
		"something else":      `{"items":[]}` + "\n",
		"an end without time": `{"next":""}` + "\n",
	} {
		if page, err := readRecords([]byte(body)); err == nil {
			t.Errorf("%s: %d rows", name, len(page.rows))
		}
	}
	if page, err := readRecords([]byte(`{"next":"","until":"2026-03-02T10:00:00Z","total":null}` + "\n")); err != nil || len(page.rows) != 0 {
		t.Errorf("control: %v", err)
	}
}

// A gateway cannot pass one law off as another: the revision is computed of what came. The control is the law itself.
func TestALawFromAGatewayIsTheOneOfItsName(t *testing.T) {
	shipped, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	other, err := policy.OverlayFiles(shipped, policy.File{Path: "bronzeward/data.yaml", Body: []byte("quorum: {required: 3}\n")})
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		given     *policy.Bundle
		tag, asks string
		says      string
	}{
		"control: the law":             {shipped, shipped.Revision(), shipped.Revision(), ""},
		"control: by its beginning":    {shipped, shipped.Revision(), shipped.Revision()[:8], ""},
		"control: the one before":      {shipped, shipped.Revision(), "previous", ""},
		"another, by its own name":     {other, other.Revision(), shipped.Revision(), "was changed"},
		"another, by the name of that": {other, shipped.Revision(), shipped.Revision()[:8], "was changed"},
		"another than it says":         {other, shipped.Revision(), "previous", "was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.Mux.HandleFunc("GET /policies/{id}", func(w http.ResponseWriter, _ *http.Request) {
				body, err := row.given.Packed()
				if err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/gzip")
				w.Header().Set("ETag", `"`+row.tag+`"`)
				_, _ = w.Write(body)
			})
			b, err := pastAtStub(t, s).Law(t.Context(), row.asks)
			if row.says == "" {
				if err != nil || b.Revision() != shipped.Revision() {
					t.Errorf("%v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
