package facts

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"

	"bronzeward/policy"
)

// effects are the shipped law's tables for the Talos that is served here.
func effects(t *testing.T) (fields, kinds map[string]string) {
	t.Helper()
	fields, kinds, err := policy.ShippedEffects("1.13")
	if err != nil {
		t.Fatal(err)
	}
	return fields, kinds
}

// The law calls live exactly what Talos's own check takes without a reboot.
func TestTheLawsLiveFieldsAreThoseOfTalosSource(t *testing.T) {
	fields, _ := effects(t)
	var live []string
	for field, effect := range fields {
		if effect == "live" {
			live = append(live, field)
		}
	}
	slices.Sort(live)
	if diff := cmp.Diff(immediateInSource(t), live); diff != "" {
		t.Fatalf("Talos's source (-) and the law (+) differ:\n%s", diff)
	}
}

// inertBelowLive are the fields Talos takes in no-reboot mode and makes nothing of before
// the next start, by the words of its own source.
func inertBelowLive() []string {
	return []string{"machine.kernel.modules.parameters", "machine.registries.config.auth"}
}

// What is not live is either below a live field, where Talos does not look, or inert.
func TestWhatTalosRefusesTheLawCallsInert(t *testing.T) {
	fields, _ := effects(t)
	for field, effect := range fields {
		switch refused := needsReboot(field); {
		case refused && effect != "inert":
			t.Errorf("Talos refuses %s without a reboot and the law calls it %s", field, effect)
		case !refused && effect == "inert" && !slices.Contains(inertBelowLive(), field):
			t.Errorf("Talos takes %s and the law calls it inert", field)
		}
	}
}

// Every field of the main document has an effect but the one that names its version, and
// every entry belongs to a field there is.
func TestTheLawKnowsTheEffectOfEveryField(t *testing.T) {
	fields, _ := effects(t)
	all := mainFields()
	if len(all) < 200 {
		t.Fatalf("found %d fields", len(all))
	}
	if missing := withoutEffect(fields, all); !slices.Equal(missing, []string{"version"}) {
		t.Errorf("no effect is known of %v", missing)
	}
	for field := range fields {
		if !slices.ContainsFunc(all, func(f string) bool { return f == field || strings.HasPrefix(f, field+".") }) {
			t.Errorf("the law names %s and v1alpha1 does not have it", field)
		}
	}
	t.Run("control: an entry that is gone is missed", func(t *testing.T) {
		less := maps.Clone(fields)
		delete(less, "machine.udev")
		if missing := withoutEffect(less, all); !slices.Contains(missing, "machine.udev.rules") {
			t.Errorf("missing are %v", missing)
		}
	})
}

func TestTheLawKnowsTheEffectOfEveryKind(t *testing.T) {
	_, kinds := effects(t)
	want := slices.DeleteFunc(DocumentKinds(), func(kind string) bool { return kind == "v1alpha1" })
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(kinds))); diff != "" {
		t.Fatalf("kinds (-) and the law (+) differ:\n%s", diff)
	}
}

func TestAMinorWithoutATableHasNoEffects(t *testing.T) {
	if _, _, err := policy.ShippedEffects("1.14"); err == nil {
		t.Error("the law has a table of a minor that is not served")
	}
}

// mainFields are the fields of the v1alpha1 document that hold values, sorted.
func mainFields() []string {
	found := map[string]bool{}
	var walk func(t reflect.Type, field string, depth int)
	walk = func(t reflect.Type, field string, depth int) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if depth > 16 {
			return
		}
		switch shapeOf(t) {
		case record:
			for _, m := range membersOf(reflect.New(t).Elem()) {
				walk(m.value.Type(), place{field: field, path: field}.member(m.name).field, depth+1)
			}
		case list, dictionary:
			walk(t.Elem(), field, depth+1)
		case leaf:
			found[field] = true
		}
	}
	walk(reflect.TypeFor[v1alpha1.Config](), "", 0)
	return slices.Sorted(maps.Keys(found))
}

// withoutEffect are the fields that begin with no entry.
func withoutEffect(entries map[string]string, fields []string) []string {
	return slices.DeleteFunc(slices.Clone(fields), func(field string) bool {
		for at := field; ; {
			if entries[at] != "" {
				return true
			}
			cut := strings.LastIndexByte(at, '.')
			if cut < 0 {
				return false
			}
			at = at[:cut]
		}
	})
}
