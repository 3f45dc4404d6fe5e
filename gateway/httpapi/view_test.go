package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// An attempt shows which version of the credential it was sent with; none is null, not 0.
func TestAnAttemptShowsItsCredential(t *testing.T) {
	for version, want := range map[int64]string{0: `"credential_version":null`, 12: `"credential_version":12`} {
		raw := must(json.Marshal(viewAttempt(&control.Attempt{CredentialVersion: version})))(t)
		if !strings.Contains(string(raw), want) {
			t.Errorf("version %d shows as %s", version, raw)
		}
	}
}

// A machine is told as it was last read, whoever read it, with what closes the whole house.
func TestAMachineIsToldAsItWasLastRead(t *testing.T) {
	const runs, other = "hmac-sha256:k1:aa", "hmac-sha256:k1:bb"
	m := control.Machine{Name: "w1", Observed: &control.Observed{RecordedAt: begin, Active: runs, Persistent: other, Version: "v1"}}
	house := []policy.Hold{control.Standing{State: control.RecoveryEntered, Since: begin}.Hold(numbered(7))}
	for name, row := range map[string]struct {
		seen   *control.Seen
		staged bool
		at     time.Time
	}{
		"nothing was seen":          {nil, true, begin},
		"seen before the observing": {&control.Seen{Active: runs, Persistent: runs, At: begin.Add(-time.Second)}, true, begin},
		"seen since":                {&control.Seen{Active: runs, Persistent: runs, At: begin.Add(time.Second)}, false, begin.Add(time.Second)},
	} {
		v := viewMachine(&m, row.seen, nil, nil, house)
		if v.Staged == nil || *v.Staged != row.staged || !v.Observed.At.Equal(row.at) || v.Observed.Version != "v1" {
			t.Errorf("%s: staged %v, observed %+v", name, v.Staged, v.Observed)
		}
		if len(v.Holds) != 1 || v.Holds[0].Kind != api.HoldKindRecovery || !v.Holds[0].Since.Equal(begin) {
			t.Errorf("%s: held by %+v", name, v.Holds)
		}
	}
	m.Retired = &control.Retirement{}
	if v := viewMachine(&m, nil, nil, nil, house); len(v.Holds) != 1 || v.Holds[0].Kind != api.HoldKindRetired {
		t.Errorf("a retired machine is held by %+v", v.Holds)
	}
}

// Whether a machine is the one it is pinned to is not told of one that nobody has looked at.
func TestNobodyKnowsWhatNobodyHasLookedAt(t *testing.T) {
	at := begin
	held := viewRecovery(&control.RecoveryStatus{Machines: []control.HeldMachine{{Name: "w1"}, {Name: "w2", ObservedAt: &at}, {Name: "w3", ObservedAt: &at, Matches: true}}}).HeldMachines
	if held[0].Matches != nil || *held[1].Matches || !*held[2].Matches {
		t.Errorf("%+v", held)
	}
}

// What nothing could be compared with counts no value: null, not 0, and its difference says so.
// Control: of another change the number is given, 0 as well.
func TestAChangeThatNothingWasComparedWithCountsNothing(t *testing.T) {
	unknown := control.Review{Warnings: []policy.Reason{{Code: control.CodeNotCompared}}}
	known := control.Review{Warnings: []policy.Reason{{Code: "BW-DRIFT-006"}}}
	for _, row := range []struct {
		change control.Change
		review control.Review
		want   string
	}{
		{control.Change{NotCompared: true}, unknown, `"changes_count":null`},
		{control.Change{}, known, `"changes_count":0`},
		{control.Change{Diffs: 3}, known, `"changes_count":3`},
	} {
		raw, err := json.Marshal(viewChange(&row.change, nil, uuid.Nil))
		if err != nil || !strings.Contains(string(raw), row.want) {
			t.Errorf("%s, %v, want %s", raw, err, row.want)
		}
		if d := viewDiff(&row.change, &row.review); d.Compared == row.change.NotCompared {
			t.Errorf("compared is %t", d.Compared)
		}
	}
}
