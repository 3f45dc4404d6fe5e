package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"bronzeward/policy"
)

// Entry is what the record of a decision holds of the call and of the law's answer, by the
// names the book uses (docs/record.md), as JSON's own types. Members that are empty are
// left out, as they are there. What only a running gateway knows, ids and addresses among
// it, is not in it, nor are the facts themselves.
func Entry(f *policy.Facts, d policy.Decision) (map[string]any, error) {
	verdict := "deny"
	if d.Allow {
		verdict = "allow"
	}
	e := map[string]any{
		"kind": "rpc", "verdict": verdict,
		"method": f.Call.Method, "class": string(f.Call.Class), "mode": f.Call.Mode, "dry_run": f.Call.DryRun,
		"caller": filled(map[string]any{
			"issuer": f.Caller.Issuer, "subject": f.Caller.Subject, "kind": f.Caller.Kind, "groups": f.Caller.Groups, "proof": f.Caller.Proof,
		}),
		"policy_revision": d.Revision, "opa_version": d.OPA,
		"reasons": d.Reasons, "codes": d.Codes(),
	}
	if f.Machine != nil {
		e["machine"] = filled(map[string]any{"name": f.Machine.Name, "cluster": f.Machine.Cluster})
	}
	if f.Config != nil {
		e["digest"], e["base_digest"], e["persistent_digest"] = f.Config.Digest, f.Config.Base, f.Config.Persistent
	}
	if f.Change != nil {
		e["change_id"] = f.Change.ID
	}
	e = filled(e)
	e["approvals_needed"] = d.Approvals.Required
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding entry: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("decoding entry: %w", err)
	}
	return out, nil
}

// filled drops what is empty.
func filled(m map[string]any) map[string]any {
	maps.DeleteFunc(m, func(_ string, v any) bool {
		at := reflect.ValueOf(v)
		return at.IsZero() || (at.Kind() == reflect.Slice || at.Kind() == reflect.Map) && at.Len() == 0
	})
	return m
}

// missing says what of the wanted members an entry does not have: a map is wanted member
// by member, null wants that there is none, all else is wanted as it stands.
func missing(at string, want, got map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		have, there := got[name]
		switch w := want[name].(type) {
		case nil:
			if there {
				out = append(out, fmt.Sprintf("the entry's %s%s is %v, want none", at, name, have))
			}
		case map[string]any:
			inner, _ := have.(map[string]any)
			out = append(out, missing(at+name+".", w, inner)...)
		default:
			if !there || !reflect.DeepEqual(w, have) {
				out = append(out, fmt.Sprintf("the entry's %s%s is %v, want %v", at, name, have, w))
			}
		}
	}
	return out
}
