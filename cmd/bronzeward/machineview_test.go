package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

func oneMachine() api.Machine {
	return api.Machine{
		ID: stubDecision, Name: "worker-1", Cluster: "lab", Role: api.Worker, Addresses: []string{"127.0.0.11"}, Port: 50000,
		Labels: api.Labels{"rack": "a", "arm": "no"}, Pinned: true, PinnedAt: &stubNow, Identity: api.MachineIdentity{NodeID: "n1", ClusterID: "c1", Smbios: "s1"},
		Serial: 3, Applied: &api.Digests{Active: digestOne, Persistent: digestOne},
		Observed: &api.Observed{At: time.Now().Add(-90 * time.Minute), Version: "v1.13.6", Stage: "running", Type: "worker", Active: digestOne, Persistent: digestTwo},
		Holds:    []api.Hold{{Kind: api.UnresolvedAttempt, ID: attemptA, Holder: api.Person{Issuer: stubIssuer, Subject: "otto"}, Since: stubNow, Scope: api.HoldScopeMachine}},
	}
}

func TestMachinesAreListedPageByPage(t *testing.T) {
	s := newStub(t)
	second := oneMachine()
	second.Name, second.Observed, second.Pinned, second.Holds = "worker-2", nil, false, []api.Hold{}
	s.on("GET /machines", gives(http.StatusOK, api.MachineList{Items: []api.Machine{oneMachine()}, Next: "c2"}), gives(http.StatusOK, api.MachineList{Items: []api.Machine{second}}))
	golden(t, "machines-list", runProgram(t, "machines", "list", "--cluster", "lab"))
	if got := []string{s.requests()[0].query, s.requests()[1].query}; !cmp.Equal(got, []string{"cluster=lab&limit=500", "cluster=lab&limit=500&cursor=c2"}) {
		t.Errorf("asked for %v", got)
	}

	empty := newStub(t)
	empty.on("GET /machines", gives(http.StatusOK, api.MachineList{Items: []api.Machine{}}))
	if got := runProgram(t, "machines", "list", "-o", "json"); got.out != "[]\n" {
		t.Errorf("no machines are %q", got.out)
	}
}

func TestJSONOfAMachineKeepsItsNames(t *testing.T) {
	s := newStub(t)
	s.on("GET /machines/{id}", gives(http.StatusOK, oneMachine()))
	var got map[string]any
	if err := json.Unmarshal([]byte(runProgram(t, "machines", "show", "worker-1", "-o", "json").out), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"name": "worker-1", "node_id": "n1", "talos_cluster_id": "c1", "smbios": "s1", "pinned": true, "serial": 3.0,
		"observed_persistent": digestTwo, "applied_active": digestOne, "version": "v1.13.6", "port": 50000.0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	shown := runProgram(t, "machines", "show", "worker-1")
	for _, want := range []string{"pinned                     2026-11-30", "arm=no,rack=a", "unresolved-attempt " + attemptA + " of otto of https://people.example since 2026-11-30"} {
		if !strings.Contains(shown.out, want) {
			t.Errorf("no %q in\n%s", want, shown.out)
		}
	}
}

func TestActsOnMachinesAskForWhatTheirFlagsSay(t *testing.T) {
	s := newStub(t)
	file := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(file, []byte("- {name: m1, cluster: c, addresses: [10.0.0.1]}\n- {name: m2, cluster: c, role: controlplane, addresses: [\"fd00::2\"], port: 5, labels: {a: b}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	identity := oneMachine().Identity
	s.on("POST /machines", gives(http.StatusCreated, api.AddedMachines{Names: []string{"m"}}))
	s.on("PATCH /machines/{id}", gives(http.StatusOK, oneMachine()))
	s.on("POST /machines/{id}/pins", gives(http.StatusCreated, api.Pin{Machine: "m", Identity: identity}))
	s.on("POST /machines/{id}/observations", gives(http.StatusCreated, api.Observation{Machine: "m", Identity: identity, Version: "v1", Type: "worker", Stage: "running", Active: "a", Persistent: "p"}))
	for _, row := range []struct {
		args            []string
		asks, sent, out string
	}{
		{
			[]string{"add", "m", "--cluster", "c", "--address", "10.0.0.1", "--label", "a=b"},
			"POST /machines",
			`{"machines":[{"addresses":["10.0.0.1"],"cluster":"c","labels":{"a":"b"},"name":"m","port":50000,"role":"worker"}]}`,
			"machine m added (decision " + stubDecision + ")\nnext: bronzeward machines pin m\n",
		},
		{
			[]string{"import", file},
			"POST /machines",
			`{"machines":[{"addresses":["10.0.0.1"],"cluster":"c","name":"m1"},{"addresses":["fd00::2"],"cluster":"c","labels":{"a":"b"},"name":"m2","port":5,"role":"controlplane"}]}`,
			"2 machines added (decision " + stubDecision + ")\n",
		},
		{[]string{"update", "m", "--address", "10.0.0.1"}, "PATCH /machines/m", `{"addresses":["10.0.0.1"],"labels":{},"port":50000}`, "machine m updated (decision " + stubDecision + ")\n"},
		{[]string{"pin", "m", "--replace"}, "POST /machines/m/pins", `{"replace":true}`, "machine m pinned to node id n1 of cluster c1\n"},
		// A name reaches no other path.
		{[]string{"observe", "m/../n"}, "POST /machines/m%2F..%2Fn/observations", `{}`, "m/../n: Talos v1, worker, stage running, node id n1\n  active      a\n  persistent  p\n"},
	} {
		got := runProgram(t, append([]string{"machines"}, row.args...)...)
		seen := s.requests()
		last := seen[len(seen)-1]
		if got.code != cli.ExitOK || last.method+" "+last.path != row.asks || last.body != row.sent || got.out != row.out {
			t.Errorf("%v: code %d, asked %s %s for %s\n%s%s", row.args, got.code, last.method, last.path, last.body, got.out, got.errOut)
		}
	}
}

func TestTheRestOfAHouseIsShown(t *testing.T) {
	s := newStub(t)
	unresolved := attempt(oneChange(), api.AttemptStateUnresolved)
	unresolved.CredentialVersion = new(int64(4))
	s.on("GET /attempts", gives(http.StatusOK, api.AttemptList{Items: []api.Attempt{unresolved}, Next: "c2"}))
	s.on("GET /attempts/"+attemptA, gives(http.StatusOK, unresolved))
	settled := attempt(oneChange(), api.AttemptStateAccounted)
	settled.Landed, settled.ClosedAt = new(true), &stubNow
	s.on("POST /attempts/{id}/accountings", gives(http.StatusOK, settled))
	s.on("GET /machines/{id}/timeline", gives(http.StatusOK, api.TimelineItemList{Items: []api.TimelineItem{
		{At: stubNow, Kind: api.TimelineItemKindChange, ID: changeOne, Text: "2 values\nchanged", State: "waiting", Person: api.Person{Issuer: stubIssuer, Subject: "olga"}},
	}}))
	s.on("GET /notices", gives(http.StatusOK, api.NoticeList{Items: []api.Notice{
		{ID: attemptA, ChangeID: changeOne, State: api.NoticeStateDead, Tries: 9, CreatedAt: stubNow, NextAt: stubNow, EndedAt: &stubNow, Error: "the receiver answered 500"},
	}}))
	s.on("GET /identity-revocations", gives(http.StatusOK, api.IdentityRevocationList{Items: []api.IdentityRevocation{
		{Issuer: stubIssuer, Subject: "\u043etto\n", Reason: "laptop\tstolen", RevokedAt: stubNow, Seen: true},
	}}))
	for name, args := range map[string][]string{
		"attempts-list": {"attempts", "list", "--held", "--limit", "1"}, "attempts-show": {"attempts", "show", attemptA},
		"attempts-account": {"attempts", "account", attemptA, "--landed", "--reason", "I saw it"}, "machines-timeline": {"machines", "timeline", "worker-1"},
		"notices-list": {"notices", "list", "--dead"}, "identities-list": {"identities", "list"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(t, args...)
			if got.code != cli.ExitOK {
				t.Errorf("code %d", got.code)
			}
			golden(t, name, got)
		})
	}
	if sent := posted[api.NewAccounting](t, s, "/attempts/"+attemptA+"/accountings"); len(sent) != 1 || !sent[0].Landed || sent[0].Reason != "I saw it" {
		t.Errorf("accounted as %v", sent)
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
			s := newStub(t)
			s.on("POST /identity-revocations", gives(http.StatusCreated, api.IdentityRevocation{Issuer: stubIssuer, Subject: "\u043etto", Reason: "r"}))
			args := append([]string{"identities", "revoke", "--issuer", stubIssuer, "--subject", "\u043etto", "--reason", "r"}, row.args...)
			got := runAt(t.Context(), cli.Console{In: strings.NewReader(row.typed), Interactive: row.there}, args...)
			sent := posted[api.NewIdentityRevocation](t, s, "/identity-revocations")
			if got.code != row.code || len(sent) != row.sent {
				t.Fatalf("code %d, sent %d times\n%s", got.code, len(sent), got.errOut)
			}
			if row.sent > 0 && (sent[0].Subject != "\u043etto" || !strings.Contains(got.out, `"\u043etto" of "https://people.example" is revoked for good (decision `) || !strings.Contains(got.errOut, "warning: nobody of that name")) {
				t.Errorf("%v\n%s%s", sent, got.out, got.errOut)
			}
		})
	}
}
