package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ShippedKinds are the kinds of configuration documents that the shipped law knows, in
// order. The room that knows Talos's own registry holds them against it: a kind that is
// registered there and missing here is a kind no rule mentions.
func ShippedKinds() ([]string, error) { return shippedKeys("kinds") }

// ShippedFields are the v1alpha1 fields that the shipped law gives a meaning, in order.
// A field that begins with none of them is refused.
func ShippedFields() ([]string, error) { return shippedKeys("fields") }

// ShippedEffects are the shipped law's words on what a change does on a Talos minor
// ("1.13"): "live", "inert" or "disruptive", by v1alpha1 field and by kind of separate
// document. It errs for a minor that has no table.
func ShippedEffects(minor string) (fields, kinds map[string]string, err error) {
	if fields, err = shippedWords("oracle", minor, "fields"); err != nil {
		return nil, nil, err
	}
	if kinds, err = shippedWords("oracle", minor, "kinds"); err != nil {
		return nil, nil, err
	}
	return fields, kinds, nil
}

func shippedWords(path ...string) (map[string]string, error) {
	m, err := shippedTable(path...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		word, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("reading %s: %s is no word", strings.Join(path, "."), key)
		}
		out[key] = word
	}
	return out, nil
}

func shippedKeys(table string) ([]string, error) {
	m, err := shippedTable("config", table)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(m)), nil
}

// shippedTable is a map of the shipped data below data.bronzeward.
func shippedTable(path ...string) (map[string]any, error) {
	b, err := Shipped()
	if err != nil {
		return nil, err
	}
	at, _ := b.parsed.data["bronzeward"].(map[string]any)
	for _, part := range path {
		next, ok := at[part].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("reading %s: the shipped data has no such table", strings.Join(path, "."))
		}
		at = next
	}
	return at, nil
}
