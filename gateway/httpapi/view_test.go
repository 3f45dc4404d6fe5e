package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"bronzeward/gateway/control"
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
