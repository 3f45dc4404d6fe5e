package changes

import (
	"net/http"
	"testing"

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
