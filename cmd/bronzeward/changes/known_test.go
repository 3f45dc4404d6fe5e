package changes

import (
	"net/http"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

const driftA = "drf_01kb8v6d3kfq0r8mz7n2c5w9td"

// adoption is a change that adopts a drift of which no copy of what was applied before is kept.
func adoption() (api.Change, api.ChangeDiff) {
	c := clitest.OneChange()
	c.Kind, c.DriftID, c.ChangesCount, c.Set = api.Adopt, driftA, nil, ""
	d := clitest.DiffOf(c)
	d.Compared, d.Changes, d.Discards = false, []api.ConfigChange{}, []api.ConfigChange{}
	return c, d
}

// shows makes a stub know a change, its difference, and what holds its machine.
func shows(t *testing.T, c api.Change, d api.ChangeDiff, holds ...api.Hold) {
	t.Helper()
	s := clitest.NewStub(t)
	s.On("GET /changes", clitest.Lists(c))
	s.On("GET /changes/"+c.ID, clitest.Gives(http.StatusOK, c))
	s.On("GET /changes/"+c.ID+"/diff", clitest.Gives(http.StatusOK, d))
	s.On("GET /machines/"+c.Machine, clitest.Gives(http.StatusOK, api.Machine{Name: c.Machine, Holds: holds}))
	s.On("POST /drifts/"+driftA+"/adoptions", clitest.Gives(http.StatusCreated, c))
}

// says runs a command and holds what it prints against what it must and must not say.
func says(t *testing.T, args, want, not []string) {
	t.Helper()
	got := runProgram(t, args...)
	if got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	for _, part := range want {
		if !strings.Contains(got.Out, part) {
			t.Errorf("%v does not say %q:\n%s", args, part, got.Out)
		}
	}
	for _, part := range not {
		if strings.Contains(got.Out, part) {
			t.Errorf("%v says %q:\n%s", args, part, got.Out)
		}
	}
}

// What nobody could compare is told as not known, everywhere; nothing of it reads as "no change".
func TestDifferencesThatAreNotKnownAreToldSo(t *testing.T) {
	c, d := adoption()
	shows(t, c, d)
	none := []string{"no value", "would change", "values changed: 0", "mode "}
	says(t, []string{"changes", "show", c.ID}, []string{"would be taken as applied, and nothing is sent", "not known: no copy", "adopt: what the machine runs"}, none)
	says(t, []string{"changes", "diff", c.ID}, []string{"would be taken as applied", "not known: no copy"}, none)
	says(t, []string{"changes", "list"}, []string{"adopt   -      ?         1/2"}, []string{"no-reboot"})
	says(t, []string{"drift", "adopt", driftA, "--reason", "why"}, []string{"values changed: not known"}, none)
	says(t, []string{"changes", "list", "-o", "json"}, []string{`"changes_count": null`}, nil)
	says(t, []string{"changes", "show", c.ID, "-o", "json"}, []string{`"changes_count": null`, `"compared": false`}, nil)
}

// Control: an adoption that was compared, and changes nothing, says that.
func TestAnAdoptionThatChangesNoValueSaysThat(t *testing.T) {
	c, d := adoption()
	c.ChangesCount, d.Compared = new(0), true
	shows(t, c, d)
	says(t, []string{"changes", "show", c.ID}, []string{"would be taken as applied", "no value: only spelling"}, []string{"not known"})
	says(t, []string{"changes", "list"}, []string{"adopt   -      0         1/2"}, nil)
	says(t, []string{"drift", "adopt", driftA, "--reason", "why"}, []string{"values changed: 0"}, nil)
}

// An approved adoption is adopted, not applied.
func TestAnApprovedAdoptionIsAdopted(t *testing.T) {
	c, d := adoption()
	shows(t, clitest.Approved(c), d)
	says(t, []string{"changes", "show", c.ID}, []string{"is approved and can be adopted once", "to be adopted (for 59m)"}, []string{"can be applied", "to be applied"})
}

// An approved change says what holds its machine, but for what does not hold this one.
func TestAnApprovedChangeSaysWhatHoldsIt(t *testing.T) {
	frozen := api.Hold{Kind: api.HoldKindFreeze, ID: clitest.AttemptA, Holder: api.Person{Issuer: clitest.StubIssuer, Subject: "otto"}, Since: clitest.StubNow, Scope: api.HoldScopeMachine, Reason: "a disk"}
	drift := api.Hold{Kind: api.HoldKindDrift, ID: driftA, Since: clitest.StubNow, Scope: api.HoldScopeMachine}
	other := drift
	other.ID = "drf_01kb8v6d3kfq0r8mz7n2c5w9te"
	apply := clitest.OneChange()
	adopt, _ := adoption()
	revert := adopt
	revert.Kind = api.Revert
	for name, row := range map[string]struct {
		c    api.Change
		hold api.Hold
		held bool
	}{
		"a freeze":                     {apply, frozen, true},
		"a drift":                      {apply, drift, true},
		"a freeze holds no adoption":   {adopt, frozen, false},
		"its own drift holds it not":   {revert, drift, false},
		"another drift holds a revert": {revert, other, true},
		"a freeze holds a revert":      {revert, frozen, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := clitest.Approved(row.c)
			shows(t, c, clitest.DiffOf(c), row.hold)
			held := []string{"held by ", "its machine is held: it cannot be ", "bronzeward machines show worker-1"}
			free := []string{"can be "}
			if row.held {
				says(t, []string{"changes", "show", c.ID}, append(held, row.hold.ID), []string{" once\n"})
			} else {
				says(t, []string{"changes", "show", c.ID}, free, held)
			}
		})
	}
}

// A superseded change says its real reason once, and advises only what can work.
func TestASupersededChangeSaysWhyAndWhatCanBeDone(t *testing.T) {
	drift := api.Hold{Kind: api.HoldKindDrift, ID: driftA, Since: clitest.StubNow, Scope: api.HoldScopeMachine}
	retired := api.Hold{Kind: api.HoldKindRetired, ID: clitest.StubDecision, Since: clitest.StubNow, Scope: api.HoldScopeMachine}
	submit, show := "bronzeward changes submit -n worker-1 -f FILE", "bronzeward drift show "+driftA
	for name, row := range map[string]struct {
		kind         api.ChangeKind
		reason, by   string
		holds        []api.Hold
		headline     string
		next, absent []string
	}{
		"the base moved":    {api.Apply, "the machine runs another configuration than it was made for", "hmac-sha256:k1:3", nil, "is superseded: the machine runs another configuration than it was made for; it has hmac-sha256:k1:3\n", []string{submit}, []string{show}},
		"by a drift":        {api.Apply, "the machine runs another configuration than it was made for (drift " + driftA + ")", "hmac-sha256:k1:3", []api.Hold{drift}, "(drift " + driftA + "); it has", []string{show}, []string{submit}},
		"by an adoption":    {api.Revert, "drift " + driftA + " is adopted", "", nil, "is superseded: drift " + driftA + " is adopted\n", []string{show}, []string{submit, "runs something else", "runs another"}},
		"by the retirement": {api.Apply, "the machine was retired: burnt", "", []api.Hold{retired}, "is superseded: the machine was retired: burnt\n", nil, []string{submit, show, "runs another"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := clitest.OneChange()
			c.State, c.Kind, c.Reason, c.OvertakenBy, c.DriftID = api.ChangeStateSuperseded, row.kind, row.reason, row.by, ""
			if row.kind != api.Apply {
				c.DriftID = driftA
			}
			shows(t, c, clitest.DiffOf(c), row.holds...)
			says(t, []string{"changes", "show", c.ID}, append(row.next, row.headline), row.absent)
		})
	}
}
