package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// ownRoles are the roles that Bronzeward's own acts are given to as shipped.
var ownRoles = []string{"viewer", "operator", "approver", "auditor", "recovery-admin", "policy-admin"}

// roleFaults says which roles of a data file nobody knows: a role is one of ownRoles, one that
// permissions name, or one that both a group and an act have. A schema cannot say so, as it sees
// one value at a time.
func roleFaults(b *Bundle, file string, data map[string]any, doc *yaml.Node) []Fault {
	law := memberOf(b.parsed.data, "bronzeward")
	bindings, acts := memberOf(law, "role_bindings"), memberOf(memberOf(law, "api"), "acts")
	var bound, acting []string
	for _, roles := range bindings {
		bound = append(bound, textsOf(roles)...)
	}
	for _, act := range acts {
		row, _ := act.(map[string]any)
		acting = append(acting, textsOf(row["roles"])...)
	}
	known := slices.Concat(ownRoles, slices.Collect(maps.Keys(memberOf(law, "permissions"))))
	var out []Fault
	check := func(roles any, also []string, place ...string) {
		for i, role := range textsOf(roles) {
			if role == "" || slices.Contains(known, role) || slices.Contains(also, role) {
				continue
			}
			at := append(slices.Clone(place), strconv.Itoa(i))
			out = append(out, Fault{
				File: file, Line: lineOf(doc, at, ""), Message: fmt.Sprintf("data: %s: nobody knows a role %q", strings.Join(at, "."), role),
				Hint: fmt.Sprintf("a role is one of %s, or one that permissions in bronzeward/data.yaml name; its schema is schema/data/law/schema.json", strings.Join(ownRoles, ", ")),
			})
		}
	}
	switch strings.TrimSuffix(file, extension(file)) {
	case "bronzeward/data":
		own := memberOf(data, "role_bindings")
		for _, group := range slices.Sorted(maps.Keys(own)) {
			check(own[group], acting, "role_bindings", group)
		}
	case "bronzeward/api/data":
		own := memberOf(data, "acts")
		for _, act := range slices.Sorted(maps.Keys(own)) {
			row, _ := own[act].(map[string]any)
			check(row["roles"], bound, "acts", act, "roles")
		}
	}
	return out
}

// memberOf is an object's member that is an object; empty without.
func memberOf(m map[string]any, name string) map[string]any {
	inner, _ := m[name].(map[string]any)
	return inner
}

// textsOf are a list's texts, with "" for whatever is none: that is a fault of the schema's.
func textsOf(v any) []string {
	list, _ := v.([]any)
	out := make([]string, len(list))
	for i, e := range list {
		out[i], _ = e.(string)
	}
	return out
}
