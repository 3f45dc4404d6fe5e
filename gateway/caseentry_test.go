package gateway

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/fixtures/talosd"
	"bronzeward/policy"
	"bronzeward/policytest"
)

// What case files say of the book's entry is about what the book holds: of a refused, a
// captured and an allowed call, what a case would be held against is in the record as it
// stands.
func TestTheEntryOfACaseIsTheRecordsOwn(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	as := h.as(t, "olga")
	waits(t, as.apply(t, "w1", noReboot(t, labelled("one"))))
	as.apply(t, "w1", noReboot(t, []byte("nothing that could be a configuration")))
	rows, err := h.store.Pool().Query(t.Context(), "select record from audit.entries where kind = 'rpc' and method = $1", talosd.MethodApply)
	ok(t, err)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var raw []byte
		ok(t, rows.Scan(&raw))
		compareEntry(t, raw)
		seen++
	}
	ok(t, rows.Err())
	if seen != 2 {
		t.Errorf("%d entries were compared", seen)
	}
}

func compareEntry(t *testing.T, raw []byte) {
	t.Helper()
	var record map[string]any
	ok(t, json.Unmarshal(raw, &record))
	facts, err := json.Marshal(record["facts"])
	ok(t, err)
	saw, err := policy.DecodeFacts(facts)
	ok(t, err)
	var d policy.Decision
	reasons, err := json.Marshal(record["reasons"])
	ok(t, err)
	ok(t, json.Unmarshal(reasons, &d.Reasons))
	d.Allow = record["verdict"] == "allow"
	d.Revision, _ = record["policy_revision"].(string)
	d.OPA, _ = record["opa_version"].(string)
	needed, _ := record["approvals_needed"].(float64)
	d.Approvals.Required = int(needed)
	want, err := policytest.Entry(saw, d)
	ok(t, err)
	for name, value := range want {
		have := record[name]
		inner, isMap := value.(map[string]any)
		if !isMap {
			if diff := cmp.Diff(value, have); diff != "" {
				t.Errorf("%s: case (-) and record (+) differ:\n%s", name, diff)
			}
			continue
		}
		of, _ := have.(map[string]any)
		for name, value := range inner {
			if diff := cmp.Diff(value, of[name]); diff != "" {
				t.Errorf("%s: case (-) and record (+) differ:\n%s", name, diff)
			}
		}
	}
}
