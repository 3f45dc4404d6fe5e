package httpapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/audit"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// lines are a page of records as a client sees it.
func lines(t testing.TB, rec *httptest.ResponseRecorder) (records []api.DecisionRecord, end api.DecisionRecordsEnd) {
	t.Helper()
	if got := rec.Header().Get("Content-Type"); rec.Code != 200 || got != linesType {
		t.Fatalf("got %d %s %s", rec.Code, got, rec.Body)
	}
	var all []string
	for s := bufio.NewScanner(strings.NewReader(rec.Body.String())); s.Scan(); {
		all = append(all, s.Text())
	}
	for _, line := range all[:len(all)-1] {
		var one api.DecisionRecord
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		records = append(records, one)
	}
	if err := json.Unmarshal([]byte(all[len(all)-1]), &end); err != nil {
		t.Fatal(err)
	}
	return records, end
}

func (w *world) records(t testing.TB, target string, headers ...string) ([]api.DecisionRecord, api.DecisionRecordsEnd) {
	t.Helper()
	return lines(t, w.do(t, takes(t, request("GET", target, nil, headers...))))
}

// Whole records come in order, under one entry, in the bytes that the book has; and what was recorded after the reading
// began is none of it.
func TestRecordsAreReadWholeUnderOneEntry(t *testing.T) {
	w := newWorld(t)
	w.now = begin.Add(time.Hour)
	late := shelved(numbered(49), "vera", w.now)
	w.shelf.rows = append(w.shelf.rows, late)
	var got []api.DecisionRecord
	page, end := w.records(t, "/decisions/records?limit=1&count=true", "Accept", linesType)
	if end.Total == nil || *end.Total != 3 || !end.Until.Equal(w.now) {
		t.Fatalf("%+v", end)
	}
	for got = append(got, page...); end.Next != ""; got = append(got, page...) {
		if page, end = w.records(t, "/decisions/records?limit=2&cursor="+end.Next); end.Total != nil || !end.Until.Equal(w.now) {
			t.Errorf("%+v", end)
		}
	}
	if len(got) != 3 || len(w.entries) != 1 || !w.shelf.page.Records || w.shelf.page.Order != audit.OldestFirst {
		t.Fatalf("%d records, entries %q, %+v", len(got), w.entries, w.shelf.page)
	}
	for i, r := range w.shelf.rows[:3] {
		want := api.DecisionRecord{ID: r.ID.String(), RecordedAt: r.RecordedAt, Record: string(r.Record)}
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Error(diff)
		}
	}
	if page, _ := w.records(t, "/decisions/records?after="+numbered(41).String()); len(page) != 1 || page[0].ID != numbered(42).String() {
		t.Errorf("behind the second: %+v", page)
	}
	if page, end := w.records(t, "/decisions/records?since="+w.now.Add(time.Hour).Format(time.RFC3339)); len(page) != 0 || end.Next != "" {
		t.Errorf("from later on: %+v %+v", page, end)
	}
	w.shelf.uncounted = errors.New("too many")
	if page, end := w.records(t, "/decisions/records?count=true"); len(page) != 3 || end.Total != nil {
		t.Errorf("uncounted: %d, %+v", len(page), end)
	}
}

// A reading of lines is none of records: its entry does not say that they were read whole. And whoever may not read all of the
// book reads none of them.
func TestRecordsAreForThoseWhoReadTheBook(t *testing.T) {
	w := newWorld(t)
	listed := w.list(t, "/decisions?limit=1&order=oldest")
	_, place, _ := strings.Cut(listed.next, "")
	for name, target := range map[string]string{
		"a cursor of the list":                   "/decisions/records?cursor=" + place,
		"the list's reading, with a place in it": "/decisions/records?cursor=" + cursorOf(listOfRecords, listed.reading, w.epoch.String(), w.shelf.rows[0].Cursor().String()),
		"a number that is none":                  "/decisions/records?limit=501",
		"an entry and a cursor":                  "/decisions/records?after=" + numbered(41).String() + "&cursor=x",
		"a count in the middle":                  "/decisions/records?count=true&cursor=x",
		"one's own":                              "/decisions/records?own=true",
	} {
		if rec := w.refuses(t, request("GET", target, nil), 400, "BW-HTTP-400"); strings.Contains(rec.Body.String(), `"record"`) {
			t.Errorf("%s: %s", name, rec.Body)
		}
	}
	_, end := w.records(t, "/decisions/records?limit=1")
	w.denies[actDecisionsRead] = deniedAct{[]policy.Reason{deny("BW-ACT-003", "no role")}}
	for _, target := range []string{"/decisions/records", "/decisions/records?cursor=" + end.Next} {
		if rec := w.refuses(t, request("GET", target, nil), 403, "BW-ACT-003"); strings.Contains(rec.Body.String(), `"record"`) {
			t.Errorf("%s", rec.Body)
		}
	}
}
