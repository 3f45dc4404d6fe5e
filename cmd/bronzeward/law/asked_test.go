package law

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/cmd/bronzeward/program"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// asking runs a policy command beside a stub of a gateway.
func asking(t *testing.T, args ...string) clitest.Ran {
	t.Helper()
	run := func(ctx context.Context, args []string, at cli.Console) int {
		tree := &struct {
			cli.Globals
			Policy Commands `cmd:""`
		}{}
		return program.Run(ctx, args, at, &tree.Globals, tree)
	}
	return clitest.Run(t.Context(), run, cli.Console{}, append([]string{"policy"}, args...)...)
}

const someRevision = "1f4af3731c21b68007e1797cccc5eba0f81fa3aaf6e81b4862b5db4b71bdaa97"

// Each command asks for its own act and for no other: a law that is only gone back to is not activated.
func TestEachCommandAsksForItsOwnActAlone(t *testing.T) {
	for command, want := range map[string]string{
		"rollback previous": "POST /policies/previous/rollbacks",
		"rollback 1f4af373": "POST /policies/1f4af373/rollbacks",
		"activate 1f4af373": "POST /policies/1f4af373/activations",
		"approve 1f4af373":  "POST /policies/1f4af373/approvals",
		"history":           "GET /policies",
		"status":            "GET /policy",
	} {
		t.Run(command, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("POST /policies/{id}/{act}", clitest.Gives(http.StatusCreated, api.PolicyAct{Revision: someRevision}))
			s.On("GET /policy", clitest.Gives(http.StatusOK, api.PolicyStatus{Replicas: []api.PolicyReplica{}}))
			s.On("GET /policies", clitest.Gives(http.StatusOK, api.PolicyActivationList{Items: []api.PolicyActivation{}}))
			if got := asking(t, strings.Fields(command)...); got.Code != 0 {
				t.Fatalf("%+v", got)
			}
			var asked []string
			for _, r := range s.Requests() {
				asked = append(asked, r.Method+" "+r.Path)
			}
			if !slices.Equal(asked, []string{want}) {
				t.Errorf("it asked for %q, want %q alone", asked, want)
			}
		})
	}
}

// What is saved is the law of the directory, as OPA packs one.
func TestSaveSendsTheLawOfTheDirectory(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("POST /policies", clitest.Gives(http.StatusCreated, api.PolicyAct{Revision: someRevision}))
	dir := initiated(t)
	if got := asking(t, "save", dir); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	shipped, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	r := s.Requests()
	if len(r) != 1 || r[0].Header.Get("Content-Type") != "application/gzip" {
		t.Fatalf("requests %+v", r)
	}
	if _, err := gzip.NewReader(strings.NewReader(r[0].Body)); err != nil {
		t.Fatal(err)
	}
	if b, err := policy.LoadArchive(bytes.NewReader([]byte(r[0].Body))); err != nil || b.Revision() != shipped.Revision() {
		t.Errorf("the law %v (%v) was sent, want %s", b, err, shipped.Revision())
	}
}
