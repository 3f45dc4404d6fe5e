package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// roleFaults names bound roles that the data give nothing to: a house may add roles of its own, and a
// misspelt one looks like that.
func roleFaults(b *Bundle) []Fault {
	ours := member(b.parsed.data, "bronzeward")
	known := member(ours, "permissions")
	roles := slices.Collect(maps.Keys(known))
	for _, act := range member(member(ours, "api"), "acts") {
		said, _ := act.(map[string]any)
		list, _ := said["roles"].([]any)
		for _, r := range list {
			if role, ok := r.(string); ok {
				roles = append(roles, role)
			}
		}
	}
	slices.Sort(roles)
	roles = slices.Compact(roles)
	var out []Fault
	bindings := member(ours, "role_bindings")
	for _, group := range slices.Sorted(maps.Keys(bindings)) {
		bound, _ := bindings[group].([]any)
		for i, r := range bound {
			role, ok := r.(string)
			if !ok || slices.Contains(roles, role) {
				continue
			}
			f := Fault{
				Message: fmt.Sprintf("role_bindings: the role %q of %s is given nothing: permissions have no such role, and no act names it", role, group),
				Hint:    "one of " + strings.Join(roles, ", ") + ", or a role of your own under permissions",
			}
			f.File, f.Line = ourDataLine(b, "role_bindings", group, strconv.Itoa(i))
			out = append(out, f)
		}
	}
	return out
}

// member is a map in a map; null where there is none.
func member(of map[string]any, key string) map[string]any {
	m, _ := of[key].(map[string]any)
	return m
}

// ourDataLine is where a place in the data of bronzeward is written, in the file where such data are.
func ourDataLine(b *Bundle, place ...string) (file string, line int) {
	for _, f := range b.files {
		var doc yaml.Node
		if isData(f.Path) && path.Dir(f.Path) == "bronzeward" && yaml.Unmarshal(f.Body, &doc) == nil && len(doc.Content) > 0 &&
			nodeMember(doc.Content[0], place[0]) != nil {
			return f.Path, lineOf(&doc, place, "")
		}
	}
	return "", 0
}
