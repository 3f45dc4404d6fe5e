package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// withChanges makes a stub know both changes; the other one is approved.
func withChanges(t *testing.T) *stub {
	t.Helper()
	s := newStub(t)
	for _, c := range []api.Change{oneChange(), approved(otherChange())} {
		s.on("GET /changes/"+c.ID, gives(http.StatusOK, c))
		s.on("GET /changes/"+c.ID+"/diff", gives(http.StatusOK, diffOf(c)))
	}
	s.on("GET /whoami", gives(http.StatusOK, api.Caller{Subject: "olga", Issuer: stubIssuer, Groups: []string{"a", "b"}, Kind: api.Human, Proof: api.Certificate, ProofEnds: stubNow}))
	return s
}

func TestChangesAreShown(t *testing.T) {
	s := withChanges(t)
	spent := approved(oneChange())
	spent.State, spent.AttemptID, spent.UseBy, spent.Sealed = api.ChangeStateSpent, attemptA, nil, false
	late := oneChange()
	late.ApproveBy = stubNow
	s.on("GET /changes", gives(http.StatusOK, api.ChangeList{Items: []api.Change{approved(otherChange()), oneChange(), late, spent}}))
	for name, args := range map[string][]string{
		"changes-list": {"changes", "list"}, "changes-show": {"changes", "show", changeOne}, "changes-show-approved": {"changes", "show", changeTwo},
		"changes-diff": {"changes", "diff", changeOne}, "whoami": {"whoami"}, "help": {"--help"}, "changes-help": {"changes", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(t, args...)
			if got.code != cli.ExitOK {
				t.Fatalf("code %d\n%s", got.code, got.errOut)
			}
			got.out = strings.ReplaceAll(got.out, s.URL, "https://GATEWAY")
			golden(t, name, got)
		})
	}
}

func TestJSONOfAChangeIsTheAPIsOwnWithItsDiff(t *testing.T) {
	withChanges(t)
	got := runProgram(t, "changes", "show", changeOne, "-o", "json")
	var whole struct {
		api.Change
		Diff api.ChangeDiff `json:"diff"`
	}
	decoder := json.NewDecoder(strings.NewReader(got.out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&whole); err != nil {
		t.Fatal(err)
	}
	want := diffOf(oneChange())
	want.Changes[1].Before = float64(1000000)
	if diff := cmp.Diff(oneChange(), whole.Change); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, whole.Diff); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if !strings.Contains(got.out, `"before": 1000000`) {
		t.Errorf("a number is not written as it came:\n%s", got.out)
	}
}

func TestAListIsAskedForAsItsFlagsSay(t *testing.T) {
	s := withChanges(t)
	s.on("GET /changes", gives(http.StatusOK, api.ChangeList{Items: []api.Change{oneChange()}, Next: "c2"}))
	got := runProgram(t, "changes", "list", "--state", "spent", "--state", "expired", "--live", "-m", "worker-1", "--set", "a b", "--mine", "--limit", "1", "--after", "c1")
	seen := s.requests()
	want := "state=spent&state=expired&state=live&machine=worker-1&set=a%20b&requester=olga&requester_issuer=https%3A%2F%2Fpeople.example&limit=1&cursor=c1"
	if query := strings.ReplaceAll(seen[len(seen)-1].query, "+", "%20"); query != want {
		t.Errorf("asked for %s\nwant %s", query, want)
	}
	if want := "more: --after c2\nthis may not be all of the set; to look at all of it: bronzeward changes show --set 'a b'\n"; got.errOut != want {
		t.Errorf("said %q", got.errOut)
	}
}

func TestAWatchPrintsWhatMoved(t *testing.T) {
	s := newStub(t)
	ctx, stop := context.WithCancel(t.Context())
	one, two := oneChange(), otherChange()
	older := one
	older.CreatedAt = older.CreatedAt.Add(1) // nothing that is shown
	gone := one
	gone.State, gone.Reason = api.ChangeStateRejected, "no"
	s.on("GET /changes",
		tagged(`"1"`, api.ChangeList{Items: []api.Change{one}}),
		same304(`"1"`),
		tagged(`"2"`, api.ChangeList{Items: []api.Change{two, one}}),
		refuses(http.StatusServiceUnavailable, "BW-BOOK-001", "away", ""),
		tagged(`"3"`, api.ChangeList{Items: []api.Change{approved(two), older}}),
		tagged(`"4"`, api.ChangeList{Items: []api.Change{approved(two)}}),
		func(_ http.ResponseWriter, r *http.Request) { stop(); <-r.Context().Done() },
	)
	s.on("GET /changes/"+changeOne, gives(http.StatusOK, gone))
	got := runAt(ctx, cli.Console{}, "changes", "list", "--watch", "--live")
	if got.code != cli.ExitOK || got.errOut != "" {
		t.Fatalf("code %d\n%s", got.code, got.errOut)
	}
	golden(t, "changes-watch", got)
	var tags []string
	for _, r := range s.requests() {
		if r.path != "/changes" {
			continue
		}
		tags = append(tags, r.header.Get("If-None-Match"))
		if wait := r.header.Get("Prefer"); (wait == "wait=50") != (len(tags) > 1) {
			t.Errorf("request %d prefers %q", len(tags), wait)
		}
	}
	if diff := cmp.Diff([]string{"", `"1"`, `"1"`, `"2"`, `"2"`, `"3"`, `"4"`}, tags); diff != "" {
		t.Errorf("what is known already (-want +got):\n%s", diff)
	}
}

func TestAWatchThatNeverBeganSaysWhy(t *testing.T) {
	s := newStub(t)
	s.on("GET /changes", refuses(http.StatusServiceUnavailable, "BW-BOOK-001", "away", ""))
	if got := runProgram(t, "changes", "list", "-w"); got.code != cli.ExitUnavailable || len(s.requests()) != ask.MostTries {
		t.Errorf("code %d after %d requests", got.code, len(s.requests()))
	}
}
