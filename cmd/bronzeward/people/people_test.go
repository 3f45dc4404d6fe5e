package people

import (
	"net/http"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

func TestPeopleAreShown(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /whoami", clitest.Gives(http.StatusOK, api.Caller{Subject: "olga", Issuer: clitest.StubIssuer, Groups: []string{"a", "b"}, Kind: api.Human, Proof: api.Certificate, ProofEnds: clitest.StubNow}))
	s.On("GET /identity-revocations", clitest.Gives(http.StatusOK, api.IdentityRevocationList{Items: []api.IdentityRevocation{
		{Issuer: clitest.StubIssuer, Subject: "\u043etto\n", Reason: "laptop\tstolen", RevokedAt: clitest.StubNow, Seen: true},
	}}))
	for name, args := range map[string][]string{"whoami": {"whoami"}, "identities-list": {"identities", "list"}} {
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

func TestRevokingSomebodyAsksAPerson(t *testing.T) {
	for name, row := range map[string]struct {
		there bool
		typed string
		args  []string
		code  int
		sent  int
	}{
		"a script":                   {code: cli.ExitUsage},
		"a script that says --yes":   {args: []string{"--yes"}, sent: 1},
		"a person who says yes":      {there: true, typed: "yes\n", sent: 1},
		"a person who says no":       {there: true, typed: "no\n", code: cli.ExitFailed},
		"a person who said --yes":    {there: true, args: []string{"--yes"}, sent: 1},
		"a person who says yes, not": {there: true, typed: "yes, not\n", code: cli.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("POST /identity-revocations", clitest.Gives(http.StatusCreated, api.IdentityRevocation{Issuer: clitest.StubIssuer, Subject: "\u043etto", Reason: "r"}))
			args := append([]string{"identities", "revoke", "--issuer", clitest.StubIssuer, "--subject", "\u043etto", "--reason", "r"}, row.args...)
			got := runAt(t.Context(), cli.Console{In: strings.NewReader(row.typed), Interactive: row.there}, args...)
			sent := clitest.Posted[api.NewIdentityRevocation](t, s, "/identity-revocations")
			if got.Code != row.code || len(sent) != row.sent {
				t.Fatalf("code %d, sent %d times\n%s", got.Code, len(sent), got.ErrOut)
			}
			if row.sent > 0 && (sent[0].Subject != "\u043etto" || !strings.Contains(got.Out, `"\u043etto" of "https://people.example" is revoked for good (decision `) || !strings.Contains(got.ErrOut, "warning: nobody of that name")) {
				t.Errorf("%v\n%s%s", sent, got.Out, got.ErrOut)
			}
		})
	}
}
