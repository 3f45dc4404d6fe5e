package changes

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

const driftOne = "drf_01kb8v6d3kfq0r8mz7n2c5w9ta"

// openDrift changes what runs and what is on the disk.
func openDrift() api.Drift {
	return api.Drift{
		ID: driftOne, State: api.DriftStateOpen, Machine: "worker-1", Cluster: "lab", Since: clitest.StubNow,
		Applied: api.Digests{Active: clitest.DigestOne, Persistent: clitest.DigestOne}, Found: api.Digests{Active: clitest.DigestTwo, Persistent: clitest.DigestThree},
		Changes: []api.ConfigChange{{Document: "v1alpha1", Path: "machine.nodeLabels.zone", Before: "a", After: "b"}}, Compared: true, Staged: true, DecisionID: clitest.StubDecision,
	}
}

func drifted() api.Machine {
	return api.Machine{
		Name: "worker-1", Cluster: "lab", Role: api.Worker, Holds: []api.Hold{}, NextReboot: &api.Staged{
			Active: clitest.DigestTwo, Persistent: clitest.DigestThree, At: clitest.StubNow,
			Changes: []api.ConfigChange{{Document: "v1alpha1", Path: "machine.sysctls.x", Before: "1", After: "2"}},
		},
	}
}

// settling is a change that would settle the drift, in this state.
func settling(kind api.ChangeKind, state api.ChangeState) api.Change {
	c := clitest.OneChange()
	c.Kind, c.State, c.DriftID, c.Why = kind, state, driftOne, "somebody was there by hand"
	return c
}

func TestADriftIsShownWithAllThatIsKnownOfIt(t *testing.T) {
	closed := func(state api.DriftState, change string, with string) api.Drift {
		d := openDrift()
		d.State, d.ChangeID, d.ClosedAt, d.ClosedDecisionID = state, change, new(clitest.StubNow.Add(time.Hour)), clitest.StubDecision
		d.ClosedWith = &api.Digests{Active: with, Persistent: with}
		return d
	}
	controlPlane, moved := drifted(), drifted()
	controlPlane.Role, moved.NextReboot = api.Controlplane, nil
	for _, row := range []struct {
		name    string
		drift   api.Drift
		machine api.Machine
		changes []api.Change
	}{
		{"drift-open", openDrift(), drifted(), nil},
		{"drift-proposed", openDrift(), drifted(), []api.Change{settling(api.Revert, api.ChangeStateApproved), clitest.OneChange()}},
		{"drift-control-plane", openDrift(), controlPlane, nil},
		{"drift-moved", openDrift(), moved, nil},
		{"drift-reverted", closed(api.DriftStateReverted, clitest.ChangeOne, clitest.DigestOne), drifted(), []api.Change{settling(api.Revert, api.ChangeStateSpent)}},
		{"drift-returned", closed(api.DriftStateReturned, "", clitest.DigestOne), drifted(), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := clitest.NewStub(t)
			s.On("GET /drifts/{id}", clitest.Gives(http.StatusOK, row.drift))
			s.On("GET /machines/{id}", clitest.Gives(http.StatusOK, row.machine))
			s.On("GET /changes", clitest.Gives(http.StatusOK, api.ChangeList{Items: append([]api.Change{}, row.changes...)}))
			if len(row.changes) > 0 {
				s.On("GET /changes/{id}", clitest.Gives(http.StatusOK, row.changes[0]))
			}
			got := runProgram(t, "drift", "show", driftOne)
			if got.Code != cli.ExitOK {
				t.Errorf("code %d", got.Code)
			}
			clitest.Golden(t, row.name, got)
		})
	}
}

func TestDriftsAreListedByWhatTheyChange(t *testing.T) {
	s := clitest.NewStub(t)
	unknown := openDrift()
	unknown.Changes, unknown.Compared = nil, false
	s.On("GET /drifts", clitest.Gives(http.StatusOK, api.DriftList{Items: []api.Drift{openDrift(), unknown}}))
	got := runProgram(t, "drift", "list")
	clitest.Golden(t, "drift-list", got)
	if got.Code != cli.ExitOK || strings.Contains(got.Out, clitest.DigestTwo) {
		t.Errorf("code %d, or a whole digest stands in the list", got.Code)
	}
}
