package machines

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
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

func oneMachine() api.Machine {
	return api.Machine{
		ID: clitest.StubDecision, Name: "worker-1", Cluster: "lab", Role: api.Worker, Addresses: []string{"127.0.0.11"}, Port: 50000,
		Labels: api.Labels{"rack": "a", "arm": "no"}, Pinned: true, PinnedAt: &clitest.StubNow, Identity: api.MachineIdentity{NodeID: "n1", ClusterID: "c1", Smbios: "s1"},
		Serial: 3, Applied: &api.Digests{Active: clitest.DigestOne, Persistent: clitest.DigestOne},
		Observed: &api.Observed{At: time.Now().Add(-90 * time.Minute), Version: "v1.13.6", Stage: "running", Type: "worker", Active: clitest.DigestOne, Persistent: clitest.DigestTwo},
		Holds:    []api.Hold{{Kind: api.HoldKindUnresolvedAttempt, ID: clitest.AttemptA, Holder: api.Person{Issuer: clitest.StubIssuer, Subject: "otto"}, Since: clitest.StubNow, Scope: api.HoldScopeMachine, Reason: "no answer came"}},
		Staged:   new(true),
	}
}

func TestMachinesAreListedPageByPage(t *testing.T) {
	s := clitest.NewStub(t)
	second := oneMachine()
	second.Name, second.Observed, second.Pinned, second.Holds = "worker-2", nil, false, []api.Hold{}
	s.On("GET /machines", clitest.Gives(http.StatusOK, api.MachineList{Items: []api.Machine{oneMachine()}, Next: "c2"}), clitest.Gives(http.StatusOK, api.MachineList{Items: []api.Machine{second}}))
	clitest.Golden(t, "machines-list", runProgram(t, "machines", "list", "--cluster", "lab"))
	if got := []string{s.Requests()[0].Query, s.Requests()[1].Query}; !cmp.Equal(got, []string{"cluster=lab&limit=500", "cluster=lab&limit=500&cursor=c2"}) {
		t.Errorf("asked for %v", got)
	}

	empty := clitest.NewStub(t)
	empty.On("GET /machines", clitest.Gives(http.StatusOK, api.MachineList{Items: []api.Machine{}}))
	if got := runProgram(t, "machines", "list", "-o", "json"); got.Out != "[]\n" {
		t.Errorf("no machines are %q", got.Out)
	}
}

func TestJSONOfAMachineKeepsItsNames(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /machines/{id}", clitest.Gives(http.StatusOK, oneMachine()))
	var got map[string]any
	if err := json.Unmarshal([]byte(runProgram(t, "machines", "show", "worker-1", "-o", "json").Out), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"name": "worker-1", "node_id": "n1", "talos_cluster_id": "c1", "smbios": "s1", "pinned": true, "serial": 3.0,
		"observed_persistent": clitest.DigestTwo, "applied_active": clitest.DigestOne, "version": "v1.13.6", "port": 50000.0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	shown := runProgram(t, "machines", "show", "worker-1")
	for _, want := range []string{
		"pinned                     2026-11-30", "arm=no,rack=a", "unresolved-attempt " + clitest.AttemptA + " of otto of https://people.example since 2026-11-30 08:00:00 UTC: no answer came",
		"UTC, 90m ago", "yes: persistent is not active, and the next reboot would bring " + clitest.DigestTwo,
	} {
		if !strings.Contains(shown.Out, want) {
			t.Errorf("no %q in\n%s", want, shown.Out)
		}
	}
}

func TestActsOnMachinesAskForWhatTheirFlagsSay(t *testing.T) {
	s := clitest.NewStub(t)
	file := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(file, []byte("- {name: m1, cluster: c, addresses: [10.0.0.1]}\n- {name: m2, cluster: c, role: controlplane, addresses: [\"fd00::2\"], port: 5, labels: {a: b}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	single := filepath.Join(t.TempDir(), "one.yaml")
	if err := os.WriteFile(single, []byte("- {name: m1, cluster: c, addresses: [10.0.0.1]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	identity := oneMachine().Identity
	s.On("POST /machines", clitest.Gives(http.StatusCreated, api.AddedMachines{Names: []string{"m"}}))
	otto := api.Person{Issuer: clitest.StubIssuer, Subject: "otto"}
	s.On("POST /machines/{id}/freezes", clitest.Gives(http.StatusCreated, api.Freeze{Machine: "m", By: otto, Since: clitest.StubNow, Reason: "the disk"}))
	s.On("POST /machines/{id}/unfreezings", clitest.Gives(http.StatusCreated, api.Freeze{Machine: "m", By: otto, Since: time.Now().Add(-3 * time.Hour), Lifted: &api.Lifting{}}))
	s.On("POST /machines/{id}/retirements", clitest.Gives(http.StatusCreated, oneMachine()))
	s.On("GET /changes", clitest.Gives(http.StatusOK, api.ChangeList{Items: []api.Change{
		{ID: clitest.ChangeOne, Reason: "the machine was retired: gone", Requester: otto}, {ID: clitest.ChangeTwo, Reason: "the machine has moved on", Requester: otto},
	}}))
	s.On("GET /attempts", clitest.Gives(http.StatusOK, api.AttemptList{Items: []api.Attempt{
		{ID: clitest.AttemptA, State: api.AttemptStateUnresolved, Caller: otto}, {ID: clitest.StubDecision, State: api.AttemptStateCompleted, Caller: otto},
	}}))
	s.On("PATCH /machines/{id}", clitest.Gives(http.StatusOK, oneMachine()))
	s.On("POST /machines/{id}/pins", clitest.Gives(http.StatusCreated, api.Pin{Machine: "m", Identity: identity}))
	s.On("POST /machines/{id}/observations", clitest.Gives(http.StatusCreated, api.Observation{Machine: "m", Identity: identity, Version: "v1", Type: "worker", Stage: "running", Active: "a", Persistent: "p"}))
	for _, row := range []struct {
		args            []string
		asks, sent, out string
	}{
		{
			[]string{"add", "m", "--cluster", "c", "--address", "10.0.0.1", "--label", "a=b"},
			"POST /machines",
			`{"machines":[{"addresses":["10.0.0.1"],"cluster":"c","labels":{"a":"b"},"name":"m","port":50000,"role":"worker"}]}`,
			"machine m added (decision " + clitest.StubDecision + ")\nnext: bronzeward machines pin m\n",
		},
		{
			[]string{"import", file},
			"POST /machines",
			`{"machines":[{"addresses":["10.0.0.1"],"cluster":"c","name":"m1"},{"addresses":["fd00::2"],"cluster":"c","labels":{"a":"b"},"name":"m2","port":5,"role":"controlplane"}]}`,
			"2 machines added (decision " + clitest.StubDecision + ")\n",
		},
		{[]string{"import", single}, "POST /machines", `{"machines":[{"addresses":["10.0.0.1"],"cluster":"c","name":"m1"}]}`, "1 machine added (decision " + clitest.StubDecision + ")\n"},
		{[]string{"update", "m", "--address", "10.0.0.1"}, "PATCH /machines/m", `{"addresses":["10.0.0.1"],"labels":{},"port":50000}`, "machine m updated (decision " + clitest.StubDecision + ")\n"},
		{
			[]string{"freeze", "m", "--reason", "the disk"},
			"POST /machines/m/freezes", `{"reason":"the disk"}`,
			"machine m is frozen (decision " + clitest.StubDecision + ")\nan approver lifts it: bronzeward machines unfreeze m --reason TEXT\n",
		},
		{
			[]string{"unfreeze", "m", "--reason", "it is fine"},
			"POST /machines/m/unfreezings", `{"reason":"it is fine"}`,
			"machine m takes changes again; otto had frozen it 3h ago (decision " + clitest.StubDecision + ")\n",
		},
		{
			[]string{"retire", "m", "--yes", "--reason", "gone"},
			"POST /machines/m/retirements", `{"reason":"gone"}`,
			"machine worker-1 is retired for good; another one may have its addresses (decision " + clitest.StubDecision + ")\n" +
				"superseded: change " + clitest.ChangeOne + " of otto\nstays unresolved for good: attempt " + clitest.AttemptA + " of otto\n",
		},
		{[]string{"pin", "m", "--replace"}, "POST /machines/m/pins", `{"replace":true}`, "machine m pinned to node id n1 of cluster c1\n"},
		// A name reaches no other path.
		{[]string{"observe", "m/../n"}, "POST /machines/m%2F..%2Fn/observations", `{}`, "m/../n: Talos v1, worker, stage running, node id n1\n  active      a\n  persistent  p\n"},
	} {
		got := runProgram(t, append([]string{"machines"}, row.args...)...)
		seen := s.Requests()
		for len(seen) > 1 && seen[len(seen)-1].Method == http.MethodGet { // what is read to say more
			seen = seen[:len(seen)-1]
		}
		last := seen[len(seen)-1]
		if got.Code != cli.ExitOK || last.Method+" "+last.Path != row.asks || last.Body != row.sent || got.Out != row.out {
			t.Errorf("%v: code %d, asked %s %s for %s\n%s%s", row.args, got.Code, last.Method, last.Path, last.Body, got.Out, got.ErrOut)
		}
	}
}

// What is for good is asked for: without a terminal nothing is sent.
func TestRetiringIsAskedFor(t *testing.T) {
	s := clitest.NewStub(t)
	if got := runProgram(t, "machines", "retire", "m", "--reason", "gone"); got.Code != cli.ExitUsage || len(s.Requests()) != 0 || !strings.Contains(got.ErrOut, "say --yes") {
		t.Errorf("code %d, %d requests: %s", got.Code, len(s.Requests()), got.ErrOut)
	}
}

// What holds the whole house is named of each machine.
func TestARecoveryIsNamedAsAHold(t *testing.T) {
	s := clitest.NewStub(t)
	m := oneMachine()
	m.Holds = []api.Hold{{Kind: api.HoldKindRecovery, ID: clitest.StubDecision, Since: clitest.StubNow, Scope: api.HoldScopeMachine, Reason: "this database is older"}}
	s.On("GET /machines/{id}", clitest.Gives(http.StatusOK, m))
	if got, want := runProgram(t, "machines", "show", "m").Out, "recovery of epoch "+clitest.StubDecision+" since 2026-11-30 08:00:00 UTC: this database is older"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

func TestTheTimelineOfAMachineIsShown(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /machines/{id}/timeline", clitest.Gives(http.StatusOK, api.TimelineItemList{Items: []api.TimelineItem{
		{At: clitest.StubNow, Kind: api.TimelineItemKindChange, ID: clitest.ChangeOne, Text: "2 values\nchanged", State: "waiting", Person: api.Person{Issuer: clitest.StubIssuer, Subject: "olga"}},
	}}))
	got := runProgram(t, "machines", "timeline", "worker-1")
	if got.Code != cli.ExitOK {
		t.Errorf("code %d", got.Code)
	}
	clitest.Golden(t, "machines-timeline", got)
}

func TestFreezesAreShownWithTheirEnd(t *testing.T) {
	s := clitest.NewStub(t)
	olga, anna := api.Person{Issuer: clitest.StubIssuer, Subject: "olga"}, api.Person{Issuer: clitest.StubIssuer, Subject: "anna"}
	s.On("GET /machines/{id}/freezes", clitest.Gives(http.StatusOK, api.FreezeList{Items: []api.Freeze{
		{Machine: "worker-1", By: olga, Since: clitest.StubNow, Reason: "again"},
		{Machine: "worker-1", By: olga, Since: clitest.StubNow, Reason: "the disk", Lifted: &api.Lifting{By: anna, At: clitest.StubNow, Reason: "it is fine"}},
	}}), clitest.Gives(http.StatusOK, api.FreezeList{Items: []api.Freeze{}}))
	clitest.Golden(t, "machines-freezes", runProgram(t, "machines", "freezes", "worker-1"))
	if got := runProgram(t, "machines", "freezes", "worker-1"); !strings.Contains(got.ErrOut, "this machine was never frozen") {
		t.Errorf("none are %q", got.ErrOut)
	}
}

func TestRetiredMachinesAreListedWhenAskedFor(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /machines", clitest.Gives(http.StatusOK, api.MachineList{Items: []api.Machine{}}))
	for flag, want := range map[string]string{"": "limit=500", "--all": "all=true&limit=500"} {
		args := []string{"machines", "list"}
		if flag != "" {
			args = append(args, flag)
		}
		runProgram(t, args...)
		seen := s.Requests()
		if got := seen[len(seen)-1].Query; got != want {
			t.Errorf("%q asks for %q, want %q", flag, got, want)
		}
	}
}

func TestClustersSayWhatUsesUpTheirLimit(t *testing.T) {
	s := clitest.NewStub(t)
	hold := oneMachine().Holds[0]
	hold.Scope = api.HoldScopeCluster
	s.On("GET /clusters", clitest.Gives(http.StatusOK, api.ClusterList{Items: []api.Cluster{
		{Name: "lab", RolloutLimit: 1, Machines: 7, Holds: []api.Hold{hold}}, {Name: "other", RolloutLimit: 3, Holds: []api.Hold{}},
	}}))
	s.On("PATCH /clusters/{id}", clitest.Gives(http.StatusOK, api.Cluster{Name: "lab", RolloutLimit: 2, Holds: []api.Hold{}}),
		clitest.Gives(http.StatusOK, api.Cluster{Name: "lab", RolloutLimit: 1, Holds: []api.Hold{}}))
	clitest.Golden(t, "clusters-list", runProgram(t, "clusters", "list"))
	got := runProgram(t, "clusters", "set-limit", "lab", "2")
	seen := s.Requests()
	if last := seen[len(seen)-1]; got.Out != "cluster lab: up to 2 machines at a time (decision "+clitest.StubDecision+")\n" || last.Body != `{"rollout_limit":2}` || last.Path != "/clusters/lab" {
		t.Errorf("%q, asked %s %s", got.Out, last.Path, last.Body)
	}
	if got := runProgram(t, "clusters", "set-limit", "lab", "1"); !strings.HasPrefix(got.Out, "cluster lab: up to 1 machine at a time (") {
		t.Errorf("one machine is %q", got.Out)
	}
	seen = s.Requests()
	if got := runProgram(t, "clusters", "set-limit", "lab", "0"); got.Code != cli.ExitUsage || len(s.Requests()) != len(seen) {
		t.Errorf("a limit of none: code %d", got.Code)
	}
}
