package changes

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

func TestAttemptsAndNoticesAreShown(t *testing.T) {
	s := clitest.NewStub(t)
	unresolved := clitest.Attempt(clitest.OneChange(), api.AttemptStateUnresolved)
	unresolved.CredentialVersion = new(int64(4))
	s.On("GET /attempts", clitest.Gives(http.StatusOK, api.AttemptList{Items: []api.Attempt{unresolved}, Next: "c2"}))
	s.On("GET /attempts/"+clitest.AttemptA, clitest.Gives(http.StatusOK, unresolved))
	settled := clitest.Attempt(clitest.OneChange(), api.AttemptStateAccounted)
	settled.Landed, settled.ClosedAt = new(true), &clitest.StubNow
	s.On("POST /attempts/{id}/accountings", clitest.Gives(http.StatusOK, settled))
	s.On("GET /notices", clitest.Gives(http.StatusOK, api.NoticeList{Items: []api.Notice{
		{ID: clitest.AttemptA, ChangeID: clitest.ChangeOne, State: api.NoticeStateDead, Tries: 9, CreatedAt: clitest.StubNow, NextAt: clitest.StubNow, EndedAt: &clitest.StubNow, Error: "the receiver answered 500"},
	}}))
	for name, args := range map[string][]string{
		"attempts-list": {"attempts", "list", "--held", "--limit", "1"}, "attempts-show": {"attempts", "show", clitest.AttemptA},
		"attempts-account": {"attempts", "account", clitest.AttemptA, "--landed", "--reason", "I saw it"},
		"notices-list":     {"notices", "list", "--dead"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(t, args...)
			if got.Code != cli.ExitOK {
				t.Errorf("code %d", got.Code)
			}
			clitest.Golden(t, name, got)
		})
	}
	if sent := clitest.Posted[api.NewAccounting](t, s, "/attempts/"+clitest.AttemptA+"/accountings"); len(sent) != 1 || !sent[0].Landed || sent[0].Reason != "I saw it" {
		t.Errorf("accounted as %v", sent)
	}
}

// An attempt says what was judged, what was seen, and of what is over nothing that is still to come.
func TestAnAttemptSaysWhatIsKnown(t *testing.T) {
	for name, row := range map[string]struct {
		state     api.AttemptState
		change    func(*api.Attempt)
		want, not []string
	}{
		"unresolved": {api.AttemptStateUnresolved, nil, []string{"may be accounted from", "The machine is held.", "--landed|--not-landed"}, []string{"landed   ", "retired"}},
		"unresolved on a retired machine": {
			api.AttemptStateUnresolved, func(a *api.Attempt) { a.Retired = true },
			[]string{"Its machine is retired: the attempt stays unresolved for good, and holds nobody."},
			[]string{"may be accounted", "observed", "--landed"},
		},
		"completed": {api.AttemptStateCompleted, nil, []string{"completed"}, []string{"landed", "may be accounted"}},
		"judged not landed, and seen later": {api.AttemptStateAccounted, func(a *api.Attempt) {
			a.Landed, a.ClosedBy, a.LateAt = new(false), "rhea", &clitest.StubNow
		}, []string{"judged not landed by rhea\n", "2026-11-30 08:00:00 UTC: the machine holds what was sent, " + clitest.DigestOne}, []string{"landed late", "may be accounted", "  no\n"}},
		"judged landed, and contradicted": {
			api.AttemptStateFailed, func(a *api.Attempt) { a.Landed, a.ClosedBy = new(true), "rhea" },
			[]string{"judged landed by rhea, and the machine held what it held before"},
			[]string{"may be accounted"},
		},
		"not sent": {api.AttemptStateNotSent, nil, []string{"digest not sent"}, []string{"digest sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			a := clitest.Attempt(clitest.OneChange(), row.state)
			if row.change != nil {
				row.change(&a)
			}
			s.On("GET /attempts/"+clitest.AttemptA, clitest.Gives(http.StatusOK, a))
			says(t, []string{"attempts", "show", clitest.AttemptA}, row.want, row.not)
		})
	}
}

// Who judged what the observation contradicts is told so.
func TestAnAccountingThatIsContradictedSaysSo(t *testing.T) {
	for state, want := range map[api.AttemptState]string{
		api.AttemptStateFailed:    " is failed, because the machine holds what it held before, and not what was judged landed; machine worker-1 is free",
		api.AttemptStateCompleted: " is completed; machine worker-1 is free",
	} {
		s := clitest.NewStub(t)
		a := clitest.Attempt(clitest.OneChange(), state)
		a.Landed = new(true)
		s.On("POST /attempts/{id}/accountings", clitest.Gives(http.StatusOK, a))
		says(t, []string{"attempts", "account", clitest.AttemptA, "--landed", "--reason", "I saw it"}, []string{want}, nil)
	}
}

// An attempt in JSON is of one shape, alone, in a list and in an application.
func TestAnAttemptHasOneShapeInJSON(t *testing.T) {
	s := clitest.NewStub(t)
	c := clitest.Approved(clitest.OneChange())
	want := clitest.Attempt(c, api.AttemptStateCompleted)
	s.On("GET /attempts", clitest.Gives(http.StatusOK, api.AttemptList{Items: []api.Attempt{want}}))
	s.On("GET /attempts/"+clitest.AttemptA, clitest.Gives(http.StatusOK, want))
	s.On("POST /attempts/{id}/accountings", clitest.Gives(http.StatusOK, want))
	s.On("GET /changes/"+c.ID, clitest.Gives(http.StatusOK, c))
	s.On("POST /changes/"+c.ID+"/applications", clitest.Gives(http.StatusCreated, clitest.Applied(c, want.State)))
	var list []api.Attempt
	var one, accounted api.Attempt
	var applied api.Application
	for into, args := range map[any][]string{
		&list: {"attempts", "list"}, &one: {"attempts", "show", clitest.AttemptA}, &applied: {"changes", "apply", c.ID},
		&accounted: {"attempts", "account", clitest.AttemptA, "--landed", "--reason", "I saw it"},
	} {
		decoder := json.NewDecoder(strings.NewReader(runProgram(t, append(args, "-o", "json")...).Out))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	if len(list) != 1 {
		t.Fatalf("%d attempts are listed", len(list))
	}
	for what, got := range map[string]api.Attempt{"alone": one, "in a list": list[0], "accounted for": accounted, "applied": applied.Attempt} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
