package recovery

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

const (
	oldEpoch = "019a5c3e-7b1d-7f00-8000-0000000000e1"
	newEpoch = "019a5c3e-7b1d-7f00-8000-0000000000e2"
)

// rolledBack is a house whose database was found to be older.
func rolledBack() api.RecoveryStatus {
	return api.RecoveryStatus{
		State: api.RolledBack, Message: "this database is older than OpenBao remembers, or was changed: up to 12 signed entries and outcomes are lost; 1 revocation is lost",
		Since: &clitest.StubNow, Epoch: oldEpoch, HeldMachines: []api.HeldMachine{},
		Items: []api.RecoveryItem{{Name: "enter", Open: true, Text: "this database is older than OpenBao remembers", Do: "bronzeward recovery enter --reason TEXT"}},
	}
}

// entered is a recovery under way, with so many of its list open.
func entered(open int) api.RecoveryStatus {
	items := []api.RecoveryItem{
		{Name: "revocations", Text: "1 of 1 lost revocation was not made again; whose, only people know", Do: "bronzeward identities revoke --issuer ISSUER --subject SUBJECT --reason TEXT"},
		{Name: "observe", Text: "2 machines were not observed since: worker-1, worker-2", Do: "bronzeward machines observe NAME"},
		{Name: "release", Text: "0 machines were observed and not released"},
	}
	for i := range items[:open] {
		items[i].Open = true
	}
	from := clitest.StubNow.Add(-time.Hour)
	return api.RecoveryStatus{
		State: api.Entered, Epoch: newEpoch,
		HeldMachines: []api.HeldMachine{{Name: "worker-1", Cluster: "lab", ObservedAt: &clitest.StubNow, Matches: new(true)}, {Name: "worker-2", Cluster: "lab"}},
		Items:        append([]api.RecoveryItem{{Name: "lost", Text: "up to 12 signed entries and outcomes are lost"}}, items...),
		Entered: &api.EnteredRecovery{
			OldEpoch: oldEpoch, OldSize: 44, OldRoot: strings.Repeat("ab", 32), Cause: api.RolledBack, LostRows: 12, LostFrom: &from, LostUntil: &clitest.StubNow,
			LostRevocations: 1, ApprovalsVoided: 1, ChangesEnded: 1, By: api.Person{Issuer: clitest.StubIssuer, Subject: "rhea"},
			Reason: "restored from the backup of last night", DecisionID: clitest.StubDecision, EnteredAt: clitest.StubNow,
		},
	}
}

// over is a house after a recovery.
func over() api.RecoveryStatus {
	now := entered(0)
	now.State, now.HeldMachines = api.None, []api.HeldMachine{}
	now.Entered.EndedAt = new(clitest.StubNow.Add(time.Hour))
	return now
}

// The words of every command, in each state it may meet; and the very same in JSON.
func TestWhatTheCommandsSay(t *testing.T) {
	for _, row := range []struct {
		name   string
		args   []string
		answer api.RecoveryStatus
		asks   string
		sent   string
	}{
		{"status-none", []string{"status"}, api.RecoveryStatus{State: api.None, Epoch: oldEpoch, Items: []api.RecoveryItem{}, HeldMachines: []api.HeldMachine{}}, "GET /recovery", ""},
		{"status-rolled-back", []string{"status"}, rolledBack(), "GET /recovery", ""},
		{"status-entered", []string{"status"}, entered(2), "GET /recovery", ""},
		{"status-over", []string{"status"}, over(), "GET /recovery", ""},
		{"enter", []string{"enter", "--yes", "--reason", "restored"}, entered(2), "POST /recovery", `{"reason":"restored"}`},
		{"release-one-open", []string{"release", "worker-1"}, entered(1), "POST /machines/worker-1/releases", `{}`},
		{"release-nothing-open", []string{"release", "worker-1"}, entered(0), "POST /machines/worker-1/releases", `{}`},
		{"exit", []string{"exit"}, over(), "POST /recovery/endings", `{}`},
		{
			"exit-settled",
			[]string{"exit", "--revocations-settled", "--reason", "both had left"},
			over(), "POST /recovery/endings", `{"reason":"both had left","revocations_settled":true}`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("/", clitest.Gives(http.StatusOK, row.answer))
			got := runProgram(t, row.args...)
			clitest.Golden(t, row.name, got)
			last := s.Requests()[len(s.Requests())-1]
			if asks := last.Method + " " + last.Path; got.Code != 0 || asks != row.asks || last.Body != row.sent {
				t.Errorf("code %d, asked %s %s", got.Code, asks, last.Body)
			}
			var said api.RecoveryStatus
			if err := json.Unmarshal([]byte(runProgram(t, append(row.args, "-o", "json")...).Out), &said); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.answer, said); diff != "" {
				t.Errorf("-o json (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONOfARecoveryKeepsItsNames(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /recovery", clitest.Gives(http.StatusOK, entered(2)))
	clitest.Golden(t, "status-entered-json", runProgram(t, "status", "-o", "json"))
}

// What cannot be done asks nobody: nothing is entered that nobody agreed to, and lost revocations are
// not settled without a reason.
func TestWhatIsNotAskedOfTheGateway(t *testing.T) {
	for name, row := range map[string]struct {
		args  []string
		there bool
		typed string
		code  int
		says  string
	}{
		"nobody is there":           {args: []string{"enter", "--reason", "r"}, code: cli.ExitUsage, says: "there is no terminal to ask at: say --yes"},
		"no is typed":               {args: []string{"enter", "--reason", "r"}, there: true, typed: "no\n", code: cli.ExitFailed, says: "nothing was done"},
		"no reason":                 {args: []string{"enter", "--yes"}, code: cli.ExitUsage, says: "--reason"},
		"settled without a reason":  {args: []string{"exit", "--revocations-settled"}, code: cli.ExitUsage, says: "go together"},
		"a reason of nothing":       {args: []string{"exit", "--reason", "r"}, code: cli.ExitUsage, says: "go together"},
		"a release of no machine":   {args: []string{"release"}, code: cli.ExitUsage, says: "name"},
		"control: yes is typed":     {args: []string{"enter", "--reason", "r"}, there: true, typed: "yes\n"},
		"control: settled, and why": {args: []string{"exit", "--revocations-settled", "--reason", "r"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("/", clitest.Gives(http.StatusOK, entered(1)))
			got := runAt(t, cli.Console{In: strings.NewReader(row.typed), Interactive: row.there}, row.args...)
			if asked := len(s.Requests()) > 0; got.Code != row.code || !strings.Contains(got.ErrOut, row.says) || asked != (row.code == 0) {
				t.Errorf("code %d, asked %v:\n%s", got.Code, asked, got.ErrOut)
			}
		})
	}
}

// Of several machines each is released, up to the first that is refused, in the gateway's own words.
func TestARefusedReleaseStopsThere(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("POST /machines/{id}/releases", clitest.Gives(http.StatusOK, entered(1)),
		clitest.Refuses(http.StatusConflict, "BW-RECOVERY-004", "machine worker-2 was not observed since recovery was entered", "bronzeward machines observe worker-2"))
	got := runProgram(t, "release", "worker-1", "worker-2", "worker-3")
	clitest.Golden(t, "release-refused", got)
	if got.Code == 0 || len(s.Requests()) != 2 {
		t.Errorf("code %d after %d requests", got.Code, len(s.Requests()))
	}
}
