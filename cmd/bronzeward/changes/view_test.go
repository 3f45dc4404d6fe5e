package changes

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

// withChanges makes a stub know both changes; the other one is approved.
func withChanges(t *testing.T) *clitest.Stub {
	t.Helper()
	s := clitest.NewStub(t)
	for _, c := range []api.Change{clitest.OneChange(), clitest.Approved(clitest.OtherChange())} {
		s.On("GET /changes/"+c.ID, clitest.Gives(http.StatusOK, c))
		s.On("GET /changes/"+c.ID+"/diff", clitest.Gives(http.StatusOK, clitest.DiffOf(c)))
	}
	s.On("GET /whoami", clitest.Gives(http.StatusOK, api.Caller{Subject: "olga", Issuer: clitest.StubIssuer, Groups: []string{"a", "b"}, Kind: api.Human, Proof: api.Certificate, ProofEnds: clitest.StubNow}))
	return s
}

func TestChangesAreShown(t *testing.T) {
	s := withChanges(t)
	spent := clitest.Approved(clitest.OneChange())
	spent.State, spent.AttemptID, spent.UseBy, spent.Sealed = api.ChangeStateSpent, clitest.AttemptA, nil, false
	late := clitest.OneChange()
	late.ApproveBy = clitest.StubNow
	s.On("GET /changes", clitest.Gives(http.StatusOK, api.ChangeList{Items: []api.Change{clitest.Approved(clitest.OtherChange()), clitest.OneChange(), late, spent}}))
	for name, args := range map[string][]string{
		"changes-list": {"changes", "list"}, "changes-show": {"changes", "show", clitest.ChangeOne}, "changes-show-approved": {"changes", "show", clitest.ChangeTwo},
		"changes-diff": {"changes", "diff", clitest.ChangeOne},
	} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(t, args...)
			if got.Code != cli.ExitOK {
				t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
			}
			got.Out = strings.ReplaceAll(got.Out, s.URL, "https://GATEWAY")
			clitest.Golden(t, name, got)
		})
	}
}

func TestJSONOfAChangeIsTheAPIsOwnWithItsDiff(t *testing.T) {
	withChanges(t)
	got := runProgram(t, "changes", "show", clitest.ChangeOne, "-o", "json")
	var whole struct {
		api.Change
		Diff api.ChangeDiff `json:"diff"`
	}
	decoder := json.NewDecoder(strings.NewReader(got.Out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&whole); err != nil {
		t.Fatal(err)
	}
	want := clitest.DiffOf(clitest.OneChange())
	want.Changes[1].Before = float64(1000000)
	if diff := cmp.Diff(clitest.OneChange(), whole.Change); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, whole.Diff); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if !strings.Contains(got.Out, `"before": 1000000`) {
		t.Errorf("a number is not written as it came:\n%s", got.Out)
	}
}

func TestAListIsAskedForAsItsFlagsSay(t *testing.T) {
	s := withChanges(t)
	s.On("GET /changes", clitest.Gives(http.StatusOK, api.ChangeList{Items: []api.Change{clitest.OneChange()}, Next: "c2"}))
	got := runProgram(t, "changes", "list", "--state", "spent", "--state", "expired", "--live", "-m", "worker-1", "--set", "a b", "--mine", "--limit", "1", "--after", "c1")
	seen := s.Requests()
	want := "state=spent&state=expired&state=live&machine=worker-1&set=a%20b&requester=olga&requester_issuer=https%3A%2F%2Fpeople.example&limit=1&cursor=c1"
	if query := strings.ReplaceAll(seen[len(seen)-1].Query, "+", "%20"); query != want {
		t.Errorf("asked for %s\nwant %s", query, want)
	}
	if want := "more: --after c2\nthis may not be all of the set; to look at all of it: bronzeward changes show --set 'a b'\n"; got.ErrOut != want {
		t.Errorf("said %q", got.ErrOut)
	}
}

func TestAWatchPrintsWhatMoved(t *testing.T) {
	s := clitest.NewStub(t)
	ctx, stop := context.WithCancel(t.Context())
	one, two := clitest.OneChange(), clitest.OtherChange()
	older := one
	older.CreatedAt = older.CreatedAt.Add(1) // nothing that is shown
	gone := one
	gone.State, gone.Reason = api.ChangeStateRejected, "no"
	s.On("GET /changes",
		clitest.Tagged(`"1"`, api.ChangeList{Items: []api.Change{one}}),
		clitest.Same304(`"1"`),
		clitest.Tagged(`"2"`, api.ChangeList{Items: []api.Change{two, one}}),
		clitest.Refuses(http.StatusServiceUnavailable, "BW-BOOK-001", "away", ""),
		clitest.Tagged(`"3"`, api.ChangeList{Items: []api.Change{clitest.Approved(two), older}}),
		clitest.Tagged(`"4"`, api.ChangeList{Items: []api.Change{clitest.Approved(two)}}),
		func(_ http.ResponseWriter, r *http.Request) { stop(); <-r.Context().Done() },
	)
	s.On("GET /changes/"+clitest.ChangeOne, clitest.Gives(http.StatusOK, gone))
	got := runAt(ctx, cli.Console{}, "changes", "list", "--watch", "--live")
	if got.Code != cli.ExitOK || got.ErrOut != "" {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	clitest.Golden(t, "changes-watch", got)
	var tags []string
	for _, r := range s.Requests() {
		if r.Path != "/changes" {
			continue
		}
		tags = append(tags, r.Header.Get("If-None-Match"))
		if wait := r.Header.Get("Prefer"); (wait == "wait=50") != (len(tags) > 1) {
			t.Errorf("request %d prefers %q", len(tags), wait)
		}
	}
	if diff := cmp.Diff([]string{"", `"1"`, `"1"`, `"2"`, `"2"`, `"3"`, `"4"`}, tags); diff != "" {
		t.Errorf("what is known already (-want +got):\n%s", diff)
	}
}

func TestAWatchThatNeverBeganSaysWhy(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /changes", clitest.Refuses(http.StatusServiceUnavailable, "BW-BOOK-001", "away", ""))
	if got := runProgram(t, "changes", "list", "-w"); got.Code != cli.ExitUnavailable || len(s.Requests()) != ask.MostTries {
		t.Errorf("code %d after %d requests", got.Code, len(s.Requests()))
	}
}
