package facts

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/config"

	"bronzeward/policy"
)

// changesOf lists the differences between two parsed configurations, in document order
// and within a document in field order; map keys are sorted. Documents are matched by
// kind and name. It stops after MaxChanges with an error.
//
// Two values differ when Go's deep equality says so: that is how the node decides
// whether a change can be applied without a reboot, down to an empty list against none.
func changesOf(ctx context.Context, view viewer, before, after *parsed) ([]policy.ConfigChange, error) {
	w := &differ{ctx: ctx, view: view, out: []policy.ConfigChange{}}
	old := make(map[string]config.Document, len(before.documents))
	for _, document := range before.documents {
		old[identity(document)] = document
	}
	for _, document := range after.documents {
		id := identity(document)
		w.document(old[id], document)
		delete(old, id)
	}
	for _, document := range before.documents {
		if gone, ok := old[identity(document)]; ok {
			w.document(gone, nil)
		}
	}
	return w.out, w.err
}

// identity is what matches a document with its earlier self.
func identity(document config.Document) string {
	id := document.Kind() + "\x00"
	if named, ok := document.(config.NamedDocument); ok {
		id += named.Name()
	}
	return id
}

type differ struct {
	ctx  context.Context
	view viewer
	out  []policy.ConfigChange
	err  error

	label, kind string // of the document being compared
}

// place is where in a document the walk is.
type place struct {
	path, field string
}

func (p place) member(name string) place {
	switch {
	case name == "":
		return p
	case p.path == "":
		return place{path: name, field: name}
	default:
		return place{path: p.path + "." + name, field: p.field + "." + name}
	}
}

func (p place) element(i int) place {
	return place{path: p.path + "[" + strconv.Itoa(i) + "]", field: p.field}
}

func (p place) key(key string) place {
	if plainKey(key) {
		return place{path: p.path + "." + key, field: p.field}
	}
	return place{path: p.path + "[" + strconv.Quote(key) + "]", field: p.field}
}

func plainKey(key string) bool {
	return key != "" && strings.IndexFunc(key, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

func (w *differ) document(before, after config.Document) {
	if before != nil && after != nil && reflect.TypeOf(before) != reflect.TypeOf(after) {
		w.document(before, nil)
		before = nil
	}
	shown := after
	if shown == nil {
		shown = before
	}
	w.label, w.kind = labelOf(w.view, shown), kindOf(shown)
	w.walk(place{}, reflect.ValueOf(before), reflect.ValueOf(after), false)
}

func kindOf(document config.Document) string {
	if kind := document.Kind(); kind != "" {
		return kind
	}
	return "v1alpha1"
}

// walk compares two values; an invalid one is absent. Element is true for elements of
// lists and maps, which exist even when they are zero.
func (w *differ) walk(at place, before, after reflect.Value, element bool) {
	if w.err != nil {
		return
	}
	a, aGiven, aOK := strip(before)
	b, bGiven, bOK := strip(after)
	if !aOK && !bOK {
		return
	}
	if aOK && bOK {
		if reflect.DeepEqual(a.Interface(), b.Interface()) && aGiven == bGiven {
			return
		}
		if a.Type() != b.Type() {
			w.emit(at, w.shown(at, a, true), w.shown(at, b, true))
			return
		}
	}
	typ := b
	if !bOK {
		typ = a
	}

	already := len(w.out)
	switch shapeOf(typ.Type()) {
	case record:
		w.record(at, typ.Type(), a, b)
	case list:
		for i := range max(length(a), length(b)) {
			w.walk(at.element(i), index2(a, i), index2(b, i), true)
		}
	case dictionary:
		for _, key := range keysOf(a, b) {
			w.walk(at.key(w.view.key(key.String())), lookup2(a, key), lookup2(b, key), true)
		}
	case leaf:
		w.leafChange(at, a, b, aGiven || element, bGiven || element)
	}

	// What no part explains is still a difference: an empty list against none, a block
	// without values, state the type keeps to itself. A block that appears or goes as a
	// whole is told too where the node's own check looks at the block.
	if len(w.out) == already && !explained(a, b, aGiven, bGiven) || aOK != bOK && wholeMatters(w.kind, at.field) {
		w.emit(at, w.presence(aOK, a), w.presence(bOK, b))
	}
}

// explained is true when two values without a differing part are the same after all: a
// zero value against one that is absent and no pointer. A block without values against
// no block is a difference.
func explained(a, b reflect.Value, aGiven, bGiven bool) bool {
	switch {
	case a.IsValid() && b.IsValid():
		return reflect.DeepEqual(a.Interface(), b.Interface())
	case a.IsValid():
		return !aGiven && a.IsZero()
	default:
		return !bGiven && b.IsZero()
	}
}

func (w *differ) record(at place, t reflect.Type, a, b reflect.Value) {
	zero := reflect.New(t).Elem()
	from, to := zero, zero
	if a.IsValid() {
		from = a
	}
	if b.IsValid() {
		to = b
	}
	left, right := membersOf(from), membersOf(to)
	for i := range left {
		w.walk(at.member(left[i].name), left[i].value, right[i].value, false)
	}
}

func (w *differ) leafChange(at place, a, b reflect.Value, aGiven, bGiven bool) {
	from, to := w.shown(at, a, aGiven), w.shown(at, b, bGiven)
	if from == nil && to == nil {
		return
	}
	w.emit(at, from, to)
}

// shown is the value as a policy may see it: null when absent, which a zero value
// that is neither pointed to nor an element is.
func (w *differ) shown(at place, v reflect.Value, given bool) any {
	if !v.IsValid() || !given && v.IsZero() {
		return nil
	}
	return w.view.show(w.kind, at.field, v)
}

// presence stands for a block, list or map as a whole.
func (w *differ) presence(ok bool, v reflect.Value) any {
	if !ok {
		return nil
	}
	switch shapeOf(v.Type()) {
	case list:
		if v.Kind() == reflect.Slice && v.IsNil() {
			return nil
		}
		return []any{}
	case dictionary:
		if v.IsNil() {
			return nil
		}
		return map[string]any{}
	case leaf:
		return w.view.fingerprint(encode(v))
	default:
		return map[string]any{}
	}
}

func (w *differ) emit(at place, before, after any) {
	switch {
	case w.err != nil:
		return
	case len(w.out) == MaxChanges:
		w.err = fmt.Errorf("the configuration changes more than %d values", MaxChanges)
		return
	case len(w.out)%256 == 0 && w.ctx.Err() != nil:
		w.err = errors.New("comparing the configurations took longer than the call allows")
		return
	}
	w.out = append(w.out, policy.ConfigChange{
		Document: w.label,
		Path:     at.path,
		Field:    at.field,
		Before:   before,
		After:    after,
		Reboot:   w.kind == "v1alpha1" && needsReboot(at.field),
	})
}

func length(v reflect.Value) int {
	if !v.IsValid() {
		return 0
	}
	return v.Len()
}

func index2(v reflect.Value, i int) reflect.Value {
	if i >= length(v) {
		return reflect.Value{}
	}
	return v.Index(i)
}

func lookup2(v, key reflect.Value) reflect.Value {
	if !v.IsValid() {
		return reflect.Value{}
	}
	return v.MapIndex(key)
}

func keysOf(a, b reflect.Value) []reflect.Value {
	var out []reflect.Value
	if a.IsValid() {
		out = a.MapKeys()
	}
	if b.IsValid() {
		for _, key := range b.MapKeys() {
			if !a.IsValid() || !a.MapIndex(key).IsValid() {
				out = append(out, key)
			}
		}
	}
	slices.SortFunc(out, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	return out
}
