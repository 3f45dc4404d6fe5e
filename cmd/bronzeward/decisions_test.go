package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

// decided is a decision as the API lists it.
func decided(id string) api.Decision {
	return api.Decision{
		ID: id, RecordedAt: clitest.StubNow, Kind: "rpc", Verdict: "deny", Method: "/machine.MachineService/Reboot", Class: "mutate", Codes: []string{"BW-METHODS-005"},
		Caller: api.Person{Issuer: clitest.StubIssuer, Subject: "olga"}, Machine: "worker-1", Cluster: "lab", Count: 1, LastOutcome: &api.LastOutcome{Code: "OK"},
	}
}

func idOf(n byte) string { return uuid.UUID{6: 0x70, 8: 0x80, 15: n}.String() }

// seenIDs are the ids of JSON lines or of a JSON list.
func seenIDs(t *testing.T, text string) (out []string) {
	t.Helper()
	type one struct{ ID string }
	if strings.HasPrefix(text, "[") {
		var list []one
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			out = append(out, d.ID)
		}
		return out
	}
	for line := range strings.Lines(text) {
		var d one
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		out = append(out, d.ID)
	}
	return out
}

func TestDecisionsAreListedAtAGateway(t *testing.T) {
	s := clitest.NewStub(t)
	// A page may be empty without being the last.
	s.On("GET /decisions", clitest.Gives(200, api.DecisionList{Items: []api.Decision{decided(idOf(1))}, Next: "a"}), clitest.Gives(200, api.DecisionList{Items: []api.Decision{}, Next: "b"}),
		clitest.Gives(200, api.DecisionList{Items: []api.Decision{decided(idOf(2))}, Next: "c"}))
	got := runProgram(t, "decisions", "list", "-o", "json", "--limit", "2", "-m", "worker-1", "--verdict", "deny", "--own", "--oldest", "--path", "machine.sysctls", "--since", "2026-01-01")
	if got.Code != cli.ExitOK || !slices.Equal(seenIDs(t, got.Out), []string{idOf(1), idOf(2)}) || got.ErrOut != "more: --after c\n" {
		t.Fatalf("code %d: %s%s", got.Code, got.Out, got.ErrOut)
	}
	seen := s.Requests()
	want := "machine=worker-1&path=machine.sysctls&verdict=deny&since=2026-01-01T00%3A00%3A00Z&order=oldest&own=true&limit="
	if len(seen) != 3 || seen[0].Query != want+"2" || seen[1].Query != want+"1&cursor=a" || seen[2].Query != want+"1&cursor=b" {
		t.Errorf("asked %q", seen)
	}
}

func TestADecisionIsShownByAGateway(t *testing.T) {
	s := clitest.NewStub(t)
	e := audit.Entry{
		ID: uuid.MustParse(idOf(1)), Kind: audit.KindRPC, Verdict: audit.Denied, Method: "/machine.MachineService/Reboot", Class: "mutate", Count: 1, PolicyRevision: "a7",
		Caller: audit.Caller{Issuer: clitest.StubIssuer, Subject: "olga", Proof: "token", TokenID: "t1"}, MachineName: "worker-1", Cluster: "lab",
	}
	change := clitest.OneChange()
	whole := api.WholeDecision{Decision: decided(idOf(1)), Record: string(e.Record()), Outcomes: []api.DecisionOutcome{}, Change: &change}
	whole.Decision.Leaf = "abcd"
	s.On("GET /decisions/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("own") != "true" {
			clitest.Refuses(http.StatusForbidden, "BW-ACT-003", "this act needs the role auditor", "")(w, r)
			return
		}
		clitest.Gives(http.StatusOK, whole)(w, r)
	})
	refused := runProgram(t, "decisions", "show", idOf(1))
	if refused.Code != cli.ExitDenied || !strings.Contains(refused.ErrOut, "bronzeward decisions show --own "+idOf(1)) {
		t.Errorf("code %d: %s", refused.Code, refused.ErrOut)
	}
	got := runProgram(t, "decisions", "show", "--own", idOf(1))
	for _, want := range []string{"DENIED  2026-11-30 08:00:00 UTC  " + idOf(1), "proven by  token t1", "worker-1 in lab", "revision a7", "approved by vera of", "leaf abcd\n", "bronzeward decisions prove " + idOf(1)} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("no %q in\n%s", want, got.Out)
		}
	}
	var all struct {
		Record struct{ Method string }
		Change struct{ ID string }
	}
	if err := json.Unmarshal([]byte(runProgram(t, "decisions", "show", "--own", "-o", "json", idOf(1)).Out), &all); err != nil || all.Record.Method != e.Method || all.Change.ID != clitest.ChangeOne {
		t.Errorf("%v %+v", err, all)
	}
	whole.Record = "no record"
	if got := runProgram(t, "decisions", "show", "--own", idOf(1)); got.Code != cli.ExitChanged || !strings.Contains(got.ErrOut, "decisions verify") {
		t.Errorf("code %d: %s", got.Code, got.ErrOut)
	}
}

func TestAFilesDecisionsAreFoundUnderEveryKey(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("POST /digests", clitest.Gives(http.StatusCreated, api.ComputedDigest{Digest: clitest.DigestOne, Under: &map[string]string{"k1": clitest.DigestOne, "k2": clitest.DigestTwo}}))
	s.On("GET /decisions", clitest.Gives(200, api.DecisionList{Items: []api.Decision{}}))
	path := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(path, []byte("machine: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runProgram(t, "decisions", "list", "--file", path)
	seen := s.Requests()
	if got.Code != cli.ExitOK || len(seen) != 2 || seen[0].Body != "machine: {}\n" || !strings.Contains(seen[1].Query, "digest=hmac-sha256%3Ak1%3A2222") || !strings.Contains(seen[1].Query, "digest=hmac-sha256%3Ak1%3A1111") {
		t.Errorf("code %d: %s%+v", got.Code, got.ErrOut, seen)
	}
	t.Setenv("BRONZEWARD_SERVER", "")
	if got := runProgram(t, "decisions", "list", "--file", path); got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "no database has the keys") {
		t.Errorf("without a gateway: code %d: %s", got.Code, got.ErrOut)
	}
}

func TestNoSourceAtAllSaysWhatThereIs(t *testing.T) {
	got := runProgram(t, "decisions", "list")
	if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "bronzeward login") || !strings.Contains(got.ErrOut, "--database-url-file") {
		t.Errorf("code %d: %s", got.Code, got.ErrOut)
	}
}

// A gateway is followed over a restart, over a row of the first page that comes again because it
// had no place then, and over the end of a reading.
func TestAGatewayIsFollowedWithoutGapOrRepeat(t *testing.T) {
	s := clitest.NewStub(t)
	ctx, stop := context.WithCancel(t.Context())
	follows := 0
	s.On("GET /decisions", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		page := func(next string, ids ...byte) {
			list := api.DecisionList{Items: []api.Decision{}, Next: next}
			for _, n := range ids {
				list.Items = append(list.Items, decided(idOf(n)))
			}
			clitest.Gives(http.StatusOK, list)(w, r)
		}
		if q.Get("follow") != "true" {
			page("", 3, 2) // newest first
			return
		}
		follows++
		switch {
		case follows == 1: // where the book ends
			page("p1")
		case q.Get("cursor") == "p1" && follows <= 1+mostTriesOfARequest: // it restarts
			clitest.Refuses(http.StatusServiceUnavailable, "BW-BOOK-001", "the book is away", "")(w, r)
		case q.Get("cursor") == "p1":
			page("p2", 3, 4)
		case q.Get("cursor") == "p2": // the reading has ended
			clitest.Refuses(http.StatusBadRequest, "BW-HTTP-400", "the cursor is of a reading that ended", "")(w, r)
		case q.Get("after") == idOf(4):
			page("p3", 5)
		default:
			stop()
			page("p3")
		}
	})
	var out bytes.Buffer
	got := runAt(ctx, cli.Console{Out: &out}, "decisions", "tail", "-o", "json", "--follow", "-n", "2")
	if want := []string{idOf(2), idOf(3), idOf(4), idOf(5)}; got.Code != cli.ExitOK || !slices.Equal(seenIDs(t, got.Out), want) {
		t.Fatalf("code %d: saw %v, want %v\n%s", got.Code, seenIDs(t, got.Out), want, got.ErrOut)
	}
	if strings.Count(got.ErrOut, "trying again until it does") != 1 || strings.Count(got.ErrOut, "answers again") != 1 || !strings.Contains(got.ErrOut, "--after "+idOf(5)) {
		t.Errorf("said %q", got.ErrOut)
	}
}

// mostTriesOfARequest is how often a request is sent before a command is told that nobody answers.
const mostTriesOfARequest = 5

func TestAFormatIsRefusedBeforeAnythingIsDone(t *testing.T) {
	s := clitest.NewStub(t)
	for _, args := range [][]string{{"identities", "revoke", "--issuer", "i", "--subject", "s", "--reason", "r", "--yes"}, {"whoami"}, {"decisions", "show", idOf(1)}} {
		if got := runProgram(t, append(args, "-o", "csv")...); got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "-o csv: this command prints table, json or yaml") {
			t.Errorf("%v: code %d: %s", args, got.Code, got.ErrOut)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
