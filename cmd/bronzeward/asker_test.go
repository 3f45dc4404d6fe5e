package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/cmd/bronzeward/exitcode"
	"bronzeward/gateway/httpapi/api"
)

func newPlainServer(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s
}

func TestARequestIsSentAgainUnderTheSameKey(t *testing.T) {
	away := clitest.Refuses(http.StatusServiceUnavailable, "BW-BOOK-001", "the book is away", "try again")
	done := clitest.Gives(http.StatusCreated, api.IdentityRevocation{Subject: "otto", Issuer: "i", Seen: true})
	for name, row := range map[string]struct {
		answers []http.HandlerFunc
		code    int
		came    int
	}{
		"answered at once":          {[]http.HandlerFunc{done}, cli.ExitOK, 1},
		"away, then broken off":     {[]http.HandlerFunc{away, clitest.BreaksOff, away, done}, cli.ExitOK, 4},
		"away throughout":           {[]http.HandlerFunc{away}, cli.ExitUnavailable, ask.MostTries},
		"a balancer without anyone": {[]http.HandlerFunc{clitest.Gives(http.StatusServiceUnavailable, "no backend")}, cli.ExitUnavailable, ask.MostTries},
		"a machine that is away":    {[]http.HandlerFunc{clitest.Refuses(http.StatusServiceUnavailable, "BW-UPSTREAM-001", "worker-1 cannot be read", "")}, cli.ExitUnavailable, 1},
		"the keys are away":         {[]http.HandlerFunc{clitest.Refuses(http.StatusServiceUnavailable, "BW-CHANGE-005", "OpenBao is sealed (sealed)", "try again")}, cli.ExitUnavailable, 1},
		"the keys are gone":         {[]http.HandlerFunc{clitest.Refuses(http.StatusConflict, "BW-CHANGE-005", "OpenBao has no such key (key_missing)", "")}, cli.ExitFailed, 1},
		"refused for good":          {[]http.HandlerFunc{clitest.Refuses(http.StatusForbidden, "BW-ACT-003", "no", "")}, cli.ExitDenied, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("POST /identity-revocations", row.answers...)
			got := runProgram(t, "identities", "revoke", "--issuer", "i", "--subject", "otto", "--reason", "r", "--yes")
			seen := s.Requests()
			if got.Code != row.code || len(seen) != row.came {
				t.Fatalf("code %d after %d requests, want %d after %d\n%s", got.Code, len(seen), row.code, row.came, got.ErrOut)
			}
			key := seen[0].Header.Get("Idempotency-Key")
			if id, err := uuid.Parse(key); err != nil || id.Version() != 7 {
				t.Errorf("the key %q is no UUIDv7", key)
			}
			for _, r := range seen {
				if r.Header.Get("Idempotency-Key") != key || r.Body != seen[0].Body || r.Body == "" {
					t.Errorf("a try came with the key %q and the body %q", r.Header.Get("Idempotency-Key"), r.Body)
				}
			}
		})
	}
}

func TestTwoActsHaveTwoKeys(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("POST /machines/{id}/observations", clitest.Gives(http.StatusCreated, api.Observation{}))
	if got := runProgram(t, "machines", "observe", "worker-1", "worker-2"); got.Code != cli.ExitOK {
		t.Fatal(got.ErrOut)
	}
	seen := s.Requests()
	if len(seen) != 2 || seen[0].Header.Get("Idempotency-Key") == seen[1].Header.Get("Idempotency-Key") {
		t.Errorf("%d requests, or one key for two acts", len(seen))
	}
}

func TestACredentialGoesNowhereElse(t *testing.T) {
	s, other := clitest.NewStub(t), clitest.NewStub(t)
	t.Setenv("BRONZEWARD_SERVER", s.URL)
	t.Setenv("BRONZEWARD_SERVER_CA", s.CA)
	s.On("GET /whoami", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/whoami", http.StatusTemporaryRedirect)
	})
	got := runProgram(t, "whoami")
	if got.Code != cli.ExitFailed || len(other.Requests()) != 0 {
		t.Errorf("code %d, and %d requests came elsewhere\n%s", got.Code, len(other.Requests()), got.ErrOut)
	}
}

func TestARequestEndsWithItsCommand(t *testing.T) {
	s := clitest.NewStub(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	s.On("GET /whoami", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	if got := runAt(ctx, cli.Console{}, "whoami"); got.Code != cli.ExitFailed || len(s.Requests()) != 1 {
		t.Errorf("code %d after %d requests\n%s", got.Code, len(s.Requests()), got.ErrOut)
	}
}

func TestARefusalIsReadAloudAndHasItsExitCode(t *testing.T) {
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		code   int
		want   string
	}{
		"another digest": {
			clitest.Refuses(http.StatusConflict, "BW-CHANGE-003", "the digest named is not this change's", "bronzeward changes show chg_x"), cli.ExitChanged,
			"bronzeward: BW-CHANGE-003: the digest named is not this change's (decision " + clitest.StubDecision + ")\ntry: bronzeward changes show chg_x\n",
		},
		"the law": {
			clitest.Refuses(http.StatusForbidden, "BW-ACT-003", "this act needs the role approver", ""), cli.ExitDenied,
			"bronzeward: DENIED BW-ACT-003: this act needs the role approver (decision " + clitest.StubDecision + ")\n",
		},
		"held":                       {clitest.Refuses(http.StatusConflict, "BW-HOLDS-001", "held", ""), cli.ExitNotYet, "BW-HOLDS-001"},
		"in flight":                  {clitest.Refuses(http.StatusConflict, "BW-ATTEMPT-001", "in flight", ""), cli.ExitNotYet, "BW-ATTEMPT-001"},
		"held by the law":            {clitest.Refuses(http.StatusForbidden, "BW-HOLDS-003", "frozen", ""), cli.ExitNotYet, "DENIED BW-HOLDS-003"},
		"lost by the law":            {clitest.Refuses(http.StatusForbidden, "BW-HOLDS-002", "nobody knows", ""), cli.ExitNotYet, "BW-HOLDS-002"},
		"drifted":                    {clitest.Refuses(http.StatusForbidden, "BW-HOLDS-004", "drifted", ""), cli.ExitNotYet, "BW-HOLDS-004"},
		"the slots are taken":        {clitest.Refuses(http.StatusForbidden, "BW-HOLDS-007", "full", ""), cli.ExitNotYet, "BW-HOLDS-007"},
		"held whatever the law says": {clitest.Refuses(http.StatusForbidden, "BW-INVARIANT-011", "held", ""), cli.ExitNotYet, "BW-INVARIANT-011"},
		"retired by the law":         {clitest.Refuses(http.StatusForbidden, "BW-HOLDS-009", "retired", ""), cli.ExitFailed, "BW-HOLDS-009"},
		"retired":                    {clitest.Refuses(http.StatusConflict, "BW-HOLDS-009", "retired", ""), cli.ExitFailed, "BW-HOLDS-009"},
		"too early": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "30")
			clitest.Refuses(http.StatusConflict, "BW-HTTP-409", "it may land yet", "")(w, r)
		}, cli.ExitNotYet, "it may land yet"},
		"a conflict":    {clitest.Refuses(http.StatusConflict, "BW-HTTP-409", "there is one already", ""), cli.ExitFailed, "there is one already"},
		"too many":      {clitest.Refuses(http.StatusTooManyRequests, "BW-CHANGE-004", "too many", ""), cli.ExitNotYet, "BW-CHANGE-004"},
		"no such thing": {clitest.Refuses(http.StatusNotFound, "BW-CHANGE-001", "there is none", ""), cli.ExitFailed, "BW-CHANGE-001"},
		"malformed":     {clitest.Refuses(http.StatusBadRequest, "BW-HTTP-400", "the id is of another kind", "see /openapi.yaml"), cli.ExitUsage, ")\nsee /openapi.yaml\n"},
		"reused key":    {clitest.Refuses(http.StatusUnprocessableEntity, "BW-HTTP-422", "came before", ""), cli.ExitUsage, "BW-HTTP-422"},
		"no answer":     {clitest.Refuses(http.StatusGatewayTimeout, "BW-HTTP-504", "the node did not answer", ""), cli.ExitUnavailable, "BW-HTTP-504"},
		"a fault":       {clitest.Refuses(http.StatusInternalServerError, "BW-HTTP-500", "its log says where", ""), cli.ExitFailed, "BW-HTTP-500"},
		"a credential":  {clitest.Refuses(http.StatusUnauthorized, "BW-CREDENTIAL-002", "it has ended", ""), cli.ExitDenied, "\nyou showed the certificate in "},
		"lines in it":   {clitest.Refuses(http.StatusConflict, "BW-X-001", "one\ntry: rm -rf /", ""), cli.ExitFailed, `one\u000atry: rm -rf /`},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("GET /changes/{id}", row.answer)
			got := runProgram(t, "changes", "show", clitest.ChangeOne)
			if got.Code != row.code || !strings.Contains(got.ErrOut, row.want) {
				t.Errorf("code %d, want %d and\n%s\ngot\n%s", got.Code, row.code, row.want, got.ErrOut)
			}
		})
	}
}

func TestAHandshakeThatIsRefusedIsADenial(t *testing.T) {
	s := clitest.NewStub(t)
	op := &net.OpError{Op: "remote error", Err: net.ErrClosed}
	err := (&ask.Asker{Settings: ask.Settings{Server: s.URL, Certificate: "me.crt", From: "flags"}}).Explain(op)
	if exitcode.Of(err) != cli.ExitDenied || !strings.Contains(err.Error(), "you showed the certificate in me.crt, named by flags") || ask.Passing(op) {
		t.Errorf("%d: %v", exitcode.Of(err), err)
	}
}
