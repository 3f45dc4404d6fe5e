package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// paths are what was asked for, in order.
func paths(s *stub) []string {
	var out []string
	for _, r := range s.requests() {
		path := strings.NewReplacer(changeOne, "ONE", changeTwo, "TWO", attemptA, "A").Replace(r.path)
		out = append(out, r.method+" "+path)
	}
	return out
}

func ends(c api.Change, state api.ChangeState) api.Change {
	c.State, c.Reason = state, "why not"
	return c
}

func TestSubmitWaitsForApprovalAndApplies(t *testing.T) {
	one := oneChange()
	spent := approved(one)
	spent.State, spent.AttemptID = api.ChangeStateSpent, attemptA
	for name, row := range map[string]struct {
		looks []http.HandlerFunc
		args  []string
		apply http.HandlerFunc
		code  int
		sent  int
		says  string
	}{
		"approved at last":     {looks: []http.HandlerFunc{tagged(`"1"`, one), same304(`"1"`), tagged(`"2"`, approved(one))}, sent: 1, says: "attempt " + attemptA + " is completed"},
		"rejected":             {looks: []http.HandlerFunc{tagged(`"1"`, one), tagged(`"2"`, ends(one, api.ChangeStateRejected))}, code: cli.ExitFailed, says: "is rejected: why not"},
		"overtaken":            {looks: []http.HandlerFunc{tagged(`"1"`, ends(one, api.ChangeStateSuperseded))}, code: cli.ExitFailed, says: "runs something else"},
		"applied by another":   {looks: []http.HandlerFunc{tagged(`"1"`, one), tagged(`"2"`, spent)}, says: "applied by \\u043elga of " + stubIssuer},
		"the time is over":     {looks: []http.HandlerFunc{tagged(`"1"`, one), same304(`"1"`)}, args: []string{"--timeout", "1ms"}, code: cli.ExitNotYet, says: "not approved within 1ms\n" + changeOne + " (worker-1) goes on waiting"},
		"the gateway restarts": {looks: []http.HandlerFunc{tagged(`"1"`, one), refuses(503, "BW-BOOK-001", "away", ""), tagged(`"2"`, approved(one))}, sent: 1, says: "is completed"},
		"a credential ends":    {looks: []http.HandlerFunc{tagged(`"1"`, one), refuses(401, "BW-CREDENTIAL-004", "ended", "")}, code: cli.ExitDenied, says: "goes on waiting for approval until 2026-12-01 07:01:00 UTC\ntry: bronzeward changes apply " + changeOne + " --wait"},
		"it does not complete": {looks: []http.HandlerFunc{tagged(`"1"`, approved(one))}, apply: gives(http.StatusCreated, applied(one, api.AttemptStateUnresolved)), sent: 1, code: cli.ExitFailed, says: "nobody knows whether worker-1 took the configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			if row.apply == nil {
				row.apply = gives(http.StatusCreated, applied(one, api.AttemptStateCompleted))
			}
			s.on("POST /changes", gives(http.StatusCreated, one))
			s.on("GET /changes/"+changeOne, row.looks...)
			s.on("POST /changes/"+changeOne+"/applications", row.apply)
			s.on("GET /attempts/"+attemptA, gives(http.StatusOK, attempt(one, api.AttemptStateOpen)), gives(http.StatusOK, attempt(one, api.AttemptStateCompleted)))
			args := append([]string{"changes", "submit", "-n", "worker-1", "-f", "-", "--wait"}, row.args...)
			got := runAt(t.Context(), cli.Console{In: strings.NewReader("x: y\n")}, args...)
			sent := len(posted[api.Nothing](t, s, "/changes/"+changeOne+"/applications"))
			if got.code != row.code || sent != row.sent || !strings.Contains(got.out+got.errOut, row.says) {
				t.Errorf("code %d, applied %d times; want %d, %d and %q\n%s%s", got.code, sent, row.code, row.sent, row.says, got.out, got.errOut)
			}
		})
	}
}

func TestASetIsAppliedOneMachineAtATime(t *testing.T) {
	one, two := oneChange(), otherChange()
	list := func(changes ...api.Change) http.HandlerFunc {
		return gives(http.StatusOK, api.ChangeList{Items: changes})
	}
	both := list(approved(two), approved(one))
	odd := approved(strange())
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
			lists: []http.HandlerFunc{both}, first: api.AttemptStateRejected, code: cli.ExitFailed, says: "not begun: worker-2 (" + changeTwo + ")",
			want: []string{"GET /changes", "POST /changes/ONE/applications"},
		},
		"one is not approved": {
			lists: []http.HandlerFunc{list(two, approved(one))}, first: api.AttemptStateCompleted, code: cli.ExitNotYet, says: "left alone, not approved yet: worker-2 (" + changeTwo + ")\n--wait",
			want: []string{"GET /changes", "POST /changes/ONE/applications"},
		},
		"one is not approved, and the other does not complete": {
			lists: []http.HandlerFunc{list(two, approved(one))}, first: api.AttemptStateRejected, code: cli.ExitFailed, says: "can be applied again\nleft alone, not approved yet: worker-2",
			want: []string{"GET /changes", "POST /changes/ONE/applications"},
		},
		"none is approved": {
			lists: []http.HandlerFunc{list(two, one)}, code: cli.ExitNotYet, says: "nothing was applied: not approved yet: worker-1 (" + changeOne + "), worker-2",
			want: []string{"GET /changes"},
		},
		"somebody else's is in it": {
			lists: []http.HandlerFunc{list(odd, approved(two), approved(one))}, code: cli.ExitFailed,
			says: "mallory of https://people.example has 1\ntry: bronzeward changes show --set 'roll out' --requester '\u043elga'\ntry: bronzeward changes show --set 'roll out' --requester mallory\nnothing was applied: name one with --requester SUBJECT",
			want: []string{"GET /changes"},
		},
		"somebody else's is in it, and it is narrowed": {
			lists: []http.HandlerFunc{list(odd, approved(two), approved(one))}, args: narrow, first: api.AttemptStateCompleted,
			says: "left alone, asked by mallory of https://people.example: worker-3 (" + changeThree + ")\n",
			want: []string{"GET /changes", "POST /changes/ONE/applications", "POST /changes/TWO/applications"},
		},
		"somebody else's is not approved, and one's own is waited for": {
			lists: []http.HandlerFunc{list(strange(), two, approved(one)), lists(strange(), approved(two), approved(one))}, args: append([]string{"--wait", "--timeout", "20s"}, narrow...), first: api.AttemptStateCompleted,
			want: []string{"GET /changes", "GET /changes", "POST /changes/ONE/applications", "POST /changes/TWO/applications"},
		},
		"one is not approved, and is waited for": {
			lists: []http.HandlerFunc{list(two, approved(one)), list(two, approved(one)), both}, args: []string{"--wait"}, first: api.AttemptStateCompleted,
			want: []string{"GET /changes", "GET /changes", "GET /changes", "POST /changes/ONE/applications", "POST /changes/TWO/applications"},
		},
		"one ends while it is waited for": {
			lists: []http.HandlerFunc{list(two, approved(one)), list(ends(two, api.ChangeStateExpired), approved(one))}, args: []string{"--wait"}, code: cli.ExitFailed,
			says: "worker-2 is expired", want: []string{"GET /changes", "GET /changes"},
		},
		"there is none": {lists: []http.HandlerFunc{list()}, code: cli.ExitFailed, says: "no live change", want: []string{"GET /changes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			s.on("GET /changes", row.lists...)
			s.on("POST /changes/"+changeOne+"/applications", gives(http.StatusCreated, applied(one, row.first)))
			s.on("POST /changes/"+changeTwo+"/applications", gives(http.StatusCreated, applied(two, api.AttemptStateCompleted)))
			got := runProgram(t, append([]string{"changes", "apply", "--set", "roll out"}, row.args...)...)
			if got.code != row.code || !slices.Equal(paths(s), row.want) || !strings.Contains(got.errOut, row.says) {
				t.Errorf("code %d, want %d and %q; asked for\n%v, want\n%v\n%s%s", got.code, row.code, row.says, paths(s), row.want, got.out, got.errOut)
			}
		})
	}
}

func TestApplyingSaysWhatTheMachineSaid(t *testing.T) {
	one := approved(oneChange())
	held := applied(one, api.AttemptStateUnresolved)
	held.Attempt.Reason = "no answer came"
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		code   int
	}{
		"apply-completed":  {gives(http.StatusCreated, applied(one, api.AttemptStateCompleted)), cli.ExitOK},
		"apply-unresolved": {gives(http.StatusCreated, held), cli.ExitFailed},
		"apply-rejected":   {gives(http.StatusCreated, applied(one, api.AttemptStateRejected)), cli.ExitFailed},
		"apply-not-sent":   {gives(http.StatusCreated, applied(one, api.AttemptStateNotSent)), cli.ExitFailed},
		"apply-denied":     {refuses(http.StatusForbidden, "BW-APPROVAL-001", "change "+changeOne+" needs 1 approval from approvers", "bronzeward changes show "+changeOne), cli.ExitDenied},
		"apply-running":    {gives(http.StatusCreated, applied(one, api.AttemptStateOpen)), cli.ExitOK}, // a repetition found it open
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			s.on("GET /changes/"+changeOne, gives(http.StatusOK, one))
			s.on("POST /changes/{id}/applications", row.answer)
			s.on("GET /attempts/"+attemptA, gives(http.StatusOK, attempt(one, api.AttemptStateOpen)), gives(http.StatusOK, attempt(one, api.AttemptStateCompleted)))
			got := runProgram(t, "changes", "apply", changeOne)
			if got.code != row.code {
				t.Errorf("code %d, want %d", got.code, row.code)
			}
			golden(t, name, got)
		})
	}
}

// A spent change is sent to the gateway all the same, which refuses it: only a wait takes
// somebody else's apply for its own.
func TestASpentChangeIsTheGatewaysToRefuse(t *testing.T) {
	s := newStub(t)
	spent := approved(oneChange())
	spent.State, spent.AttemptID = api.ChangeStateSpent, attemptA
	s.on("GET /changes/"+changeOne, gives(http.StatusOK, spent))
	s.on("POST /changes/{id}/applications", refuses(http.StatusConflict, "BW-CHANGE-002", "it is spent", ""))
	if got := runProgram(t, "changes", "apply", changeOne); got.code != cli.ExitFailed || !strings.Contains(got.errOut, "BW-CHANGE-002") {
		t.Errorf("code %d\n%s", got.code, got.errOut)
	}
}

func TestAnInterruptedCommandSaysWhatGoesOn(t *testing.T) {
	for name, row := range map[string]struct {
		at   string
		says string
	}{
		"while waiting":  {"GET /changes/" + changeOne, "interrupted while waiting for approvals\n" + changeOne + " (worker-1) goes on waiting"},
		"while applying": {"POST /changes/" + changeOne + "/applications", "what was begun goes on at the gateway\ntry: bronzeward changes show " + changeOne},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			ctx, stop := context.WithCancel(t.Context())
			here := func(_ http.ResponseWriter, r *http.Request) { stop(); <-r.Context().Done() }
			s.on("POST /changes", gives(http.StatusCreated, oneChange()))
			if row.at == "GET /changes/"+changeOne {
				s.on(row.at, tagged(`"1"`, oneChange()), here)
			} else {
				s.on("GET /changes/"+changeOne, tagged(`"1"`, approved(oneChange())))
				s.on(row.at, here)
			}
			got := runAt(ctx, cli.Console{In: strings.NewReader("x: y\n")}, "changes", "submit", "-n", "worker-1", "-f", "-", "--wait")
			if got.code != cli.ExitNotYet || !strings.Contains(got.errOut, row.says) {
				t.Errorf("code %d, want %d and %q\n%s", got.code, cli.ExitNotYet, row.says, got.errOut)
			}
		})
	}
}
