package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
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
