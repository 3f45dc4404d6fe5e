package facts

import (
	"reflect"
	"slices"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"

	"bronzeward/policy"
)

// MaxEntries is how many entries a map or list may have without being listed in
// Config.Collections. Twenty thousand stop a node; four thousand did not.
const MaxEntries = 500

// collectionsOf lists the large maps and lists of a configuration, and the kinds with
// many documents, in a stable order. Of lists within lists the largest is named.
func collectionsOf(documents []config.Document) []policy.Collection {
	sizes := make(map[policy.Collection]int)
	note := func(document, field string, entries int) {
		if entries > MaxEntries {
			key := policy.Collection{Document: document, Field: field}
			sizes[key] = max(sizes[key], entries)
		}
	}
	perKind := make(map[string]int)
	for _, document := range documents {
		kind := kindOf(document)
		perKind[kind]++
		measure(kind, "", reflect.ValueOf(document), note)
	}
	for kind, n := range perKind {
		note(kind, "", n)
	}

	out := make([]policy.Collection, 0, len(sizes))
	for key, entries := range sizes {
		key.Entries = entries
		out = append(out, key)
	}
	slices.SortFunc(out, func(a, b policy.Collection) int {
		if c := strings.Compare(a.Document, b.Document); c != 0 {
			return c
		}
		return strings.Compare(a.Field, b.Field)
	})
	return out
}

func measure(kind, field string, v reflect.Value, note func(kind, field string, entries int)) {
	v, _, ok := strip(v)
	if !ok {
		return
	}
	if v.Type() == reflect.TypeFor[v1alpha1.Unstructured]() {
		note(kind, field, largest(v.Field(0).Interface()))
		return
	}
	switch shapeOf(v.Type()) {
	case record:
		for _, m := range membersOf(v) {
			measure(kind, place{field: field, path: field}.member(m.name).field, m.value, note)
		}
	case list:
		note(kind, field, v.Len())
		if !scalar(v.Type().Elem()) {
			for i := range v.Len() {
				measure(kind, field, v.Index(i), note)
			}
		}
	case dictionary:
		note(kind, field, v.Len())
		if !scalar(v.Type().Elem()) {
			for entries := v.MapRange(); entries.Next(); {
				measure(kind, field, entries.Value(), note)
			}
		}
	case leaf:
	}
}

func scalar(t reflect.Type) bool { return t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String }

// largest is the size of the largest map or list in free-form content.
func largest(content any) int {
	out := 0
	switch content := content.(type) {
	case map[string]any:
		out = len(content)
		for _, inner := range content {
			out = max(out, largest(inner))
		}
	case []any:
		out = len(content)
		for _, inner := range content {
			out = max(out, largest(inner))
		}
	}
	return out
}
