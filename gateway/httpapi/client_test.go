package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/httpapi/apiclient"
	"bronzeward/policy"
)

// clientOf is the generated client of a door that listens with TLS.
func clientOf(t *testing.T, w *world) *apiclient.ClientWithResponses {
	t.Helper()
	server := httptest.NewTLSServer(w.handler)
	t.Cleanup(server.Close)
	return must(apiclient.NewClientWithResponses(server.URL, apiclient.WithHTTPClient(server.Client()),
		apiclient.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+secretToken)
			return nil
		})))(t)
}

func TestTheGeneratedClientAndTheDoorUnderstandEachOther(t *testing.T) {
	w := newWorld(t)
	client, ctx := clientOf(t, w), context.Background()

	key := "k-1"
	made := must(client.SubmitChangeWithResponse(ctx, &api.SubmitChangeParams{IdempotencyKey: &key},
		api.NewChange{Machine: "worker-1", Configuration: "a: <b> & \u2028\n", Mode: api.NoReboot}))(t)
	if made.JSON201 == nil || made.JSON201.ID != chg || made.Headers201.BronzewardDecision == "" {
		t.Fatalf("%d %s", made.StatusCode(), made.Body)
	}
	if s, _ := w.last.(control.Submission); string(s.Text) != "a: <b> & \u2028\n" {
		t.Errorf("the configuration came as %q", s.Text)
	}
	warnings := []api.Finding{{Code: "BW-CONFIG-009", Message: "mind the gap"}}
	if diff := cmp.Diff(&warnings, made.JSON201.Warnings); diff != "" {
		t.Error(diff)
	}

	states, issuer, who, limit := []api.ChangeStateFilter{"live", "spent"}, "https://id.example/ä", "o t+t%o", 7
	list := must(client.ListChangesWithResponse(ctx, &api.ListChangesParams{State: &states, Requester: &who, RequesterIssuer: &issuer, Limit: &limit}))(t)
	if list.JSON200 == nil || list.Headers200.ETag == "" {
		t.Fatalf("%d %s", list.StatusCode(), list.Body)
	}
	want := control.ChangeFilter{
		States:    []control.ChangeState{control.ChangeApproved, control.ChangeSpent, control.ChangeWaiting},
		Requester: policy.Person{Issuer: issuer, Subject: who}, Limit: 8,
	}
	if diff := cmp.Diff(want, w.last); diff != "" {
		t.Error(diff)
	}
	known := must(client.ListChangesWithResponse(ctx, &api.ListChangesParams{IfNoneMatch: &list.Headers200.ETag}))(t)
	if known.StatusCode() != http.StatusNotModified {
		t.Errorf("%d %s", known.StatusCode(), known.Body)
	}

	w.fails = &control.ChangeError{Code: "BW-CHANGE-003", Message: "the change has another digest", Hint: "look again"}
	no := must(client.ApproveChangeWithResponse(ctx, chg, nil, api.NewApproval{Digest: "x", Also: &[]api.AlsoApproved{{ID: chg, Digest: "y"}}}))(t)
	if p := no.ApplicationProblemJSONDefault; p == nil || p.Code != "BW-CHANGE-003" || *p.Hint != "look again" || *p.Decision == "" || p.Status != 409 {
		t.Errorf("%d %s", no.StatusCode(), no.Body)
	}
	named := []control.ApproveOne{{ID: w.changes[0].ID, Digest: "x"}, {ID: w.changes[0].ID, Digest: "y"}}
	if diff := cmp.Diff(named, w.last); diff != "" {
		t.Error(diff)
	}
	if w.shown.TLS == nil || !w.shown.TLS.HandshakeComplete || !cmp.Equal(w.shown.Authorization, []string{"Bearer " + secretToken}) {
		t.Errorf("shown to Identify: %+v", w.shown)
	}
}

func TestWhatIsShownToIdentifyIsAllThatWasSent(t *testing.T) {
	w := newWorld(t)
	r := request("GET", "/whoami", nil)
	r.Header["Authorization"] = []string{"Bearer a", "Bearer b"}
	w.do(t, r)
	if diff := cmp.Diff([]string{"Bearer a", "Bearer b"}, w.shown.Authorization); diff != "" {
		t.Error(diff)
	}
}
