package changes

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

// paths are what was asked for, in order.
func paths(s *clitest.Stub) []string {
	var out []string
	for _, r := range s.Requests() {
		path := strings.NewReplacer(clitest.ChangeOne, "ONE", clitest.ChangeTwo, "TWO", clitest.AttemptA, "A").Replace(r.Path)
		out = append(out, r.Method+" "+path)
	}
	return out
}

func ends(c api.Change, state api.ChangeState) api.Change {
	c.State, c.Reason = state, "why not"
	return c
}

func TestSubmitWaitsForApprovalAndApplies(t *testing.T) {
	one := clitest.OneChange()
	spent := clitest.Approved(one)
	spent.State, spent.AttemptID = api.ChangeStateSpent, clitest.AttemptA
	for name, row := range map[string]struct {
		looks []http.HandlerFunc
		args  []string
		apply http.HandlerFunc
		ends  api.AttemptState
		code  int
		sent  int
		says  string
	}{
		"approved at last":     {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, one), clitest.Same304(`"1"`), clitest.Tagged(`"2"`, clitest.Approved(one))}, sent: 1, says: "attempt " + clitest.AttemptA + " is completed"},
		"rejected":             {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, one), clitest.Tagged(`"2"`, ends(one, api.ChangeStateRejected))}, code: cli.ExitFailed, says: "is rejected: why not"},
		"overtaken":            {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, ends(one, api.ChangeStateSuperseded))}, code: cli.ExitFailed, says: "is superseded: why not"},
		"applied by another":   {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, one), clitest.Tagged(`"2"`, spent)}, says: "worker-1: applied by \\u043elga of " + clitest.StubIssuer},
		"lost by another":      {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, one), clitest.Tagged(`"2"`, spent)}, ends: api.AttemptStateUnresolved, code: cli.ExitFailed, says: "worker-1: the attempt is of \\u043elga of " + clitest.StubIssuer + "\nworker-1: attempt " + clitest.AttemptA + " is unresolved"},
		"the time is over":     {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, one), clitest.Same304(`"1"`)}, args: []string{"--timeout", "1ms"}, code: cli.ExitNotYet, says: "not approved within 1ms\n" + clitest.ChangeOne + " (worker-1) goes on waiting"},
		"the gateway restarts": {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, one), clitest.Refuses(503, "BW-BOOK-001", "away", ""), clitest.Tagged(`"2"`, clitest.Approved(one))}, sent: 1, says: "is completed"},
		"a credential ends":    {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, one), clitest.Refuses(401, "BW-CREDENTIAL-004", "ended", "")}, code: cli.ExitDenied, says: "goes on waiting for approval until 2026-12-01 07:01:00 UTC\ntry: bronzeward changes apply " + clitest.ChangeOne + " --wait"},
		"it does not complete": {looks: []http.HandlerFunc{clitest.Tagged(`"1"`, clitest.Approved(one))}, apply: clitest.Gives(http.StatusCreated, clitest.Applied(one, api.AttemptStateUnresolved)), sent: 1, code: cli.ExitFailed, says: "nobody knows whether worker-1 took the configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			if row.apply == nil {
				row.apply = clitest.Gives(http.StatusCreated, clitest.Applied(one, api.AttemptStateCompleted))
			}
			s.On("POST /changes", clitest.Gives(http.StatusCreated, one))
			s.On("GET /changes/"+clitest.ChangeOne, row.looks...)
			s.On("POST /changes/"+clitest.ChangeOne+"/applications", row.apply)
			s.On("GET /attempts/"+clitest.AttemptA, clitest.Gives(http.StatusOK, clitest.Attempt(one, api.AttemptStateOpen)), clitest.Gives(http.StatusOK, clitest.Attempt(one, cmp.Or(row.ends, api.AttemptStateCompleted))))
			args := append([]string{"changes", "submit", "-n", "worker-1", "-f", "-", "--wait"}, row.args...)
			got := runAt(t.Context(), cli.Console{In: strings.NewReader("x: y\n")}, args...)
			sent := len(clitest.Posted[api.Nothing](t, s, "/changes/"+clitest.ChangeOne+"/applications"))
			if got.Code != row.code || sent != row.sent || !strings.Contains(got.Out+got.ErrOut, row.says) {
				t.Errorf("code %d, applied %d times; want %d, %d and %q\n%s%s", got.Code, sent, row.code, row.sent, row.says, got.Out, got.ErrOut)
			}
		})
	}
}

func TestASetIsAppliedOneMachineAtATime(t *testing.T) {
	one, two := clitest.OneChange(), clitest.OtherChange()
	list := func(changes ...api.Change) http.HandlerFunc {
		return clitest.Gives(http.StatusOK, api.ChangeList{Items: changes})
	}
	both := list(clitest.Approved(two), clitest.Approved(one))
	odd := clitest.Approved(clitest.Strange())
	narrow := []string{"--requester", one.Requester.Subject}
	for name, row := range map[string]struct {
		lists []http.HandlerFunc
		args  []string
		first api.AttemptState
		code  int
		want  []string
		says  string
	}{
		"both complete": {
			lists: []http.HandlerFunc{both}, first: api.AttemptStateCompleted,
			want: []string{"GET /changes", "POST /changes/ONE/applications", "POST /changes/TWO/applications"},
		},
		"the first does not": {
			lists: []http.HandlerFunc{both}, first: api.AttemptStateRejected, code: cli.ExitFailed, says: "not begun: worker-2 (" + clitest.ChangeTwo + ")",
			want: []string{"GET /changes", "POST /changes/ONE/applications"},
		},
		"one is not approved": {
			lists: []http.HandlerFunc{list(two, clitest.Approved(one))}, first: api.AttemptStateCompleted, code: cli.ExitNotYet, says: "left alone, not approved yet: worker-2 (" + clitest.ChangeTwo + ")\n--wait",
			want: []string{"GET /changes", "POST /changes/ONE/applications"},
		},
		"one is not approved, and the other does not complete": {
			lists: []http.HandlerFunc{list(two, clitest.Approved(one))}, first: api.AttemptStateRejected, code: cli.ExitFailed, says: "can be applied again\nleft alone, not approved yet: worker-2",
			want: []string{"GET /changes", "POST /changes/ONE/applications"},
		},
		"none is approved": {
			lists: []http.HandlerFunc{list(two, one)}, code: cli.ExitNotYet, says: "nothing was applied: not approved yet: worker-1 (" + clitest.ChangeOne + "), worker-2",
			want: []string{"GET /changes"},
		},
		"somebody else's is in it": {
			lists: []http.HandlerFunc{list(odd, clitest.Approved(two), clitest.Approved(one))}, code: cli.ExitFailed,
			says: "mallory of https://people.example has 1\ntry: bronzeward changes show --set 'roll out' --requester '\u043elga'\ntry: bronzeward changes show --set 'roll out' --requester mallory\nnothing was applied: name one with --requester SUBJECT",
			want: []string{"GET /changes"},
		},
		"somebody else's is in it, and it is narrowed": {
			lists: []http.HandlerFunc{list(odd, clitest.Approved(two), clitest.Approved(one))}, args: narrow, first: api.AttemptStateCompleted,
			says: "left alone, asked by mallory of https://people.example: worker-3 (" + clitest.ChangeThree + ")\n",
			want: []string{"GET /changes", "POST /changes/ONE/applications", "POST /changes/TWO/applications"},
		},
		"somebody else's is not approved, and one's own is waited for": {
			lists: []http.HandlerFunc{list(clitest.Strange(), two, clitest.Approved(one)), clitest.Lists(clitest.Strange(), clitest.Approved(two), clitest.Approved(one))}, args: append([]string{"--wait", "--timeout", "20s"}, narrow...), first: api.AttemptStateCompleted,
			want: []string{"GET /changes", "GET /changes", "POST /changes/ONE/applications", "POST /changes/TWO/applications"},
		},
		"one is not approved, and is waited for": {
			lists: []http.HandlerFunc{list(two, clitest.Approved(one)), list(two, clitest.Approved(one)), both}, args: []string{"--wait"}, first: api.AttemptStateCompleted,
			want: []string{"GET /changes", "GET /changes", "GET /changes", "POST /changes/ONE/applications", "POST /changes/TWO/applications"},
		},
		"one ends while it is waited for": {
			lists: []http.HandlerFunc{list(two, clitest.Approved(one)), list(ends(two, api.ChangeStateExpired), clitest.Approved(one))}, args: []string{"--wait"}, code: cli.ExitFailed,
			says: "worker-2 is expired", want: []string{"GET /changes", "GET /changes"},
		},
		"there is none": {lists: []http.HandlerFunc{list()}, code: cli.ExitFailed, says: "no live change", want: []string{"GET /changes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("GET /changes", row.lists...)
			s.On("POST /changes/"+clitest.ChangeOne+"/applications", clitest.Gives(http.StatusCreated, clitest.Applied(one, row.first)))
			s.On("POST /changes/"+clitest.ChangeTwo+"/applications", clitest.Gives(http.StatusCreated, clitest.Applied(two, api.AttemptStateCompleted)))
			got := runProgram(t, append([]string{"changes", "apply", "--set", "roll out"}, row.args...)...)
			if got.Code != row.code || !slices.Equal(paths(s), row.want) || !strings.Contains(got.ErrOut, row.says) {
				t.Errorf("code %d, want %d and %q; asked for\n%v, want\n%v\n%s%s", got.Code, row.code, row.says, paths(s), row.want, got.Out, got.ErrOut)
			}
		})
	}
}

func TestApplyingSaysWhatTheMachineSaid(t *testing.T) {
	one := clitest.Approved(clitest.OneChange())
	held := clitest.Applied(one, api.AttemptStateUnresolved)
	held.Attempt.Reason = "no answer came"
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		code   int
	}{
		"apply-completed":  {clitest.Gives(http.StatusCreated, clitest.Applied(one, api.AttemptStateCompleted)), cli.ExitOK},
		"apply-unresolved": {clitest.Gives(http.StatusCreated, held), cli.ExitFailed},
		"apply-rejected":   {clitest.Gives(http.StatusCreated, clitest.Applied(one, api.AttemptStateRejected)), cli.ExitFailed},
		"apply-not-sent":   {clitest.Gives(http.StatusCreated, clitest.Applied(one, api.AttemptStateNotSent)), cli.ExitFailed},
		"apply-denied":     {clitest.Refuses(http.StatusForbidden, "BW-APPROVAL-001", "change "+clitest.ChangeOne+" needs 1 approval from approvers", "bronzeward changes show "+clitest.ChangeOne), cli.ExitDenied},
		"apply-running":    {clitest.Gives(http.StatusCreated, clitest.Applied(one, api.AttemptStateOpen)), cli.ExitOK}, // a repetition found it open
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("GET /changes/"+clitest.ChangeOne, clitest.Gives(http.StatusOK, one))
			s.On("POST /changes/{id}/applications", row.answer)
			s.On("GET /attempts/"+clitest.AttemptA, clitest.Gives(http.StatusOK, clitest.Attempt(one, api.AttemptStateOpen)), clitest.Gives(http.StatusOK, clitest.Attempt(one, api.AttemptStateCompleted)))
			got := runProgram(t, "changes", "apply", clitest.ChangeOne)
			if got.Code != row.code {
				t.Errorf("code %d, want %d", got.Code, row.code)
			}
			clitest.Golden(t, name, got)
		})
	}
}

// A spent change is sent to the gateway all the same, which refuses it: only a wait takes
// somebody else's apply for its own.
func TestASpentChangeIsTheGatewaysToRefuse(t *testing.T) {
	s := clitest.NewStub(t)
	spent := clitest.Approved(clitest.OneChange())
	spent.State, spent.AttemptID = api.ChangeStateSpent, clitest.AttemptA
	s.On("GET /changes/"+clitest.ChangeOne, clitest.Gives(http.StatusOK, spent))
	s.On("POST /changes/{id}/applications", clitest.Refuses(http.StatusConflict, "BW-CHANGE-002", "it is spent", ""))
	if got := runProgram(t, "changes", "apply", clitest.ChangeOne); got.Code != cli.ExitFailed || !strings.Contains(got.ErrOut, "BW-CHANGE-002") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
}

func TestAnInterruptedCommandSaysWhatGoesOn(t *testing.T) {
	for name, row := range map[string]struct {
		at   string
		says string
	}{
		"while waiting":  {"GET /changes/" + clitest.ChangeOne, "interrupted while waiting for approvals\n" + clitest.ChangeOne + " (worker-1) goes on waiting"},
		"while applying": {"POST /changes/" + clitest.ChangeOne + "/applications", "what was begun goes on at the gateway\ntry: bronzeward changes show " + clitest.ChangeOne},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			ctx, stop := context.WithCancel(t.Context())
			here := func(_ http.ResponseWriter, r *http.Request) { stop(); <-r.Context().Done() }
			s.On("POST /changes", clitest.Gives(http.StatusCreated, clitest.OneChange()))
			if row.at == "GET /changes/"+clitest.ChangeOne {
				s.On(row.at, clitest.Tagged(`"1"`, clitest.OneChange()), here)
			} else {
				s.On("GET /changes/"+clitest.ChangeOne, clitest.Tagged(`"1"`, clitest.Approved(clitest.OneChange())))
				s.On(row.at, here)
			}
			got := runAt(ctx, cli.Console{In: strings.NewReader("x: y\n")}, "changes", "submit", "-n", "worker-1", "-f", "-", "--wait")
			if got.Code != cli.ExitNotYet || !strings.Contains(got.ErrOut, row.says) {
				t.Errorf("code %d, want %d and %q\n%s", got.Code, cli.ExitNotYet, row.says, got.ErrOut)
			}
		})
	}
}
