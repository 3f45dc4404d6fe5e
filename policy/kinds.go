package policy

import (
	"fmt"
	"maps"
	"slices"
)

// ShippedKinds are the kinds of configuration documents that the shipped law knows, in
// order. The room that knows Talos's own registry holds them against it: a kind that is
// registered there and missing here is a kind no rule mentions.
func ShippedKinds() ([]string, error) { return shippedKeys("kinds") }

// ShippedFields are the v1alpha1 fields that the shipped law gives a meaning, in order.
// A field that begins with none of them is refused.
func ShippedFields() ([]string, error) { return shippedKeys("fields") }

func shippedKeys(table string) ([]string, error) {
	b, err := Shipped()
	if err != nil {
		return nil, err
	}
	var at any = b.parsed.data
	for _, part := range []string{"bronzeward", "config", table} {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("reading %s: the shipped data has no such table", table)
		}
		at = m[part]
	}
	m, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading %s: the shipped data has no such table", table)
	}
	return slices.Sorted(maps.Keys(m)), nil
}
