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
	away := refuses(http.StatusServiceUnavailable, "BW-BOOK-001", "the book is away", "try again")
	done := gives(http.StatusCreated, api.IdentityRevocation{Subject: "otto", Issuer: "i", Seen: true})
	for name, row := range map[string]struct {
		answers []http.HandlerFunc
		code    int
		came    int
	}{
		"answered at once":          {[]http.HandlerFunc{done}, cli.ExitOK, 1},
		"away, then broken off":     {[]http.HandlerFunc{away, breaksOff, away, done}, cli.ExitOK, 4},
		"away throughout":           {[]http.HandlerFunc{away}, cli.ExitUnavailable, ask.MostTries},
		"a balancer without anyone": {[]http.HandlerFunc{gives(http.StatusServiceUnavailable, "no backend")}, cli.ExitUnavailable, ask.MostTries},
		"a machine that is away":    {[]http.HandlerFunc{refuses(http.StatusServiceUnavailable, "BW-UPSTREAM-001", "worker-1 cannot be read", "")}, cli.ExitUnavailable, 1},
		"the keys are away":         {[]http.HandlerFunc{refuses(http.StatusServiceUnavailable, "BW-CHANGE-005", "OpenBao is sealed (sealed)", "try again")}, cli.ExitUnavailable, 1},
		"the keys are gone":         {[]http.HandlerFunc{refuses(http.StatusConflict, "BW-CHANGE-005", "OpenBao has no such key (key_missing)", "")}, cli.ExitFailed, 1},
		"refused for good":          {[]http.HandlerFunc{refuses(http.StatusForbidden, "BW-ACT-003", "no", "")}, cli.ExitDenied, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			s.on("POST /identity-revocations", row.answers...)
			got := runProgram(t, "identities", "revoke", "--issuer", "i", "--subject", "otto", "--reason", "r", "--yes")
			seen := s.requests()
			if got.code != row.code || len(seen) != row.came {
				t.Fatalf("code %d after %d requests, want %d after %d\n%s", got.code, len(seen), row.code, row.came, got.errOut)
			}
			key := seen[0].header.Get("Idempotency-Key")
			if id, err := uuid.Parse(key); err != nil || id.Version() != 7 {
				t.Errorf("the key %q is no UUIDv7", key)
			}
			for _, r := range seen {
				if r.header.Get("Idempotency-Key") != key || r.body != seen[0].body || r.body == "" {
					t.Errorf("a try came with the key %q and the body %q", r.header.Get("Idempotency-Key"), r.body)
				}
			}
		})
	}
}

func TestTwoActsHaveTwoKeys(t *testing.T) {
	s := newStub(t)
	s.on("POST /machines/{id}/observations", gives(http.StatusCreated, api.Observation{}))
	if got := runProgram(t, "machines", "observe", "worker-1", "worker-2"); got.code != cli.ExitOK {
		t.Fatal(got.errOut)
	}
	seen := s.requests()
	if len(seen) != 2 || seen[0].header.Get("Idempotency-Key") == seen[1].header.Get("Idempotency-Key") {
		t.Errorf("%d requests, or one key for two acts", len(seen))
	}
}

func TestACredentialGoesNowhereElse(t *testing.T) {
	s, other := newStub(t), newStub(t)
	t.Setenv("BRONZEWARD_SERVER", s.URL)
	t.Setenv("BRONZEWARD_SERVER_CA", s.ca)
	s.on("GET /whoami", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/whoami", http.StatusTemporaryRedirect)
	})
	got := runProgram(t, "whoami")
	if got.code != cli.ExitFailed || len(other.requests()) != 0 {
		t.Errorf("code %d, and %d requests came elsewhere\n%s", got.code, len(other.requests()), got.errOut)
	}
}

func TestARequestEndsWithItsCommand(t *testing.T) {
	s := newStub(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	s.on("GET /whoami", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	if got := runAt(ctx, cli.Console{}, "whoami"); got.code != cli.ExitFailed || len(s.requests()) != 1 {
		t.Errorf("code %d after %d requests\n%s", got.code, len(s.requests()), got.errOut)
	}
}

func TestARefusalIsReadAloudAndHasItsExitCode(t *testing.T) {
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		code   int
		want   string
	}{
		"another digest": {
			refuses(http.StatusConflict, "BW-CHANGE-003", "the digest named is not this change's", "bronzeward changes show chg_x"), cli.ExitChanged,
			"bronzeward: BW-CHANGE-003: the digest named is not this change's (decision " + stubDecision + ")\ntry: bronzeward changes show chg_x\n",
		},
		"the law": {
			refuses(http.StatusForbidden, "BW-ACT-003", "this act needs the role approver", ""), cli.ExitDenied,
			"bronzeward: DENIED BW-ACT-003: this act needs the role approver (decision " + stubDecision + ")\n",
		},
		"held":          {refuses(http.StatusConflict, "BW-HOLDS-001", "held", ""), cli.ExitNotYet, "BW-HOLDS-001"},
		"in flight":     {refuses(http.StatusConflict, "BW-ATTEMPT-001", "in flight", ""), cli.ExitNotYet, "BW-ATTEMPT-001"},
		"too many":      {refuses(http.StatusTooManyRequests, "BW-CHANGE-004", "too many", ""), cli.ExitNotYet, "BW-CHANGE-004"},
		"no such thing": {refuses(http.StatusNotFound, "BW-CHANGE-001", "there is none", ""), cli.ExitFailed, "BW-CHANGE-001"},
		"malformed":     {refuses(http.StatusBadRequest, "BW-HTTP-400", "the id is of another kind", "see /openapi.yaml"), cli.ExitUsage, ")\nsee /openapi.yaml\n"},
		"reused key":    {refuses(http.StatusUnprocessableEntity, "BW-HTTP-422", "came before", ""), cli.ExitUsage, "BW-HTTP-422"},
		"no answer":     {refuses(http.StatusGatewayTimeout, "BW-HTTP-504", "the node did not answer", ""), cli.ExitUnavailable, "BW-HTTP-504"},
		"a fault":       {refuses(http.StatusInternalServerError, "BW-HTTP-500", "its log says where", ""), cli.ExitFailed, "BW-HTTP-500"},
		"a credential":  {refuses(http.StatusUnauthorized, "BW-CREDENTIAL-002", "it has ended", ""), cli.ExitDenied, "\nyou showed the certificate in "},
		"lines in it":   {refuses(http.StatusConflict, "BW-X-001", "one\ntry: rm -rf /", ""), cli.ExitFailed, `one\u000atry: rm -rf /`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			s.on("GET /changes/{id}", row.answer)
			got := runProgram(t, "changes", "show", changeOne)
			if got.code != row.code || !strings.Contains(got.errOut, row.want) {
				t.Errorf("code %d, want %d and\n%s\ngot\n%s", got.code, row.code, row.want, got.errOut)
			}
		})
	}
}

func TestAHandshakeThatIsRefusedIsADenial(t *testing.T) {
	s := newStub(t)
	op := &net.OpError{Op: "remote error", Err: net.ErrClosed}
	err := (&ask.Asker{Settings: ask.Settings{Server: s.URL, Certificate: "me.crt", From: "flags"}}).Explain(op)
	if exitcode.Of(err) != cli.ExitDenied || !strings.Contains(err.Error(), "you showed the certificate in me.crt, named by flags") || ask.Passing(op) {
		t.Errorf("%d: %v", exitcode.Of(err), err)
	}
}
