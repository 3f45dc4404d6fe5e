package facts

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/cel"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/types/meta"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"

	"bronzeward/policy"
)

// registeredKinds reads the kinds machinery registers from its source: the registry
// itself is not exported.
func registeredKinds(t *testing.T) []string {
	t.Helper()
	root := filepath.Join(moduleDir(t, machineryModule), "config", "types")
	register := regexp.MustCompile(`registry\.Register\((\w+|"\w+"),`)
	constant := regexp.MustCompile(`(\w+)\s*=\s*"(\w+)"`)
	var out []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		constants := map[string]string{}
		for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
			constants[m[1]] = m[2]
		}
		for _, m := range register.FindAllStringSubmatch(string(text), -1) {
			kind := strings.Trim(m[1], `"`)
			if named, ok := constants[kind]; ok {
				kind = named
			}
			out = append(out, kind)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func TestDocumentKindsAreThoseMachineryRegisters(t *testing.T) {
	if diff := cmp.Diff(registeredKinds(t), DocumentKinds()); diff != "" {
		t.Fatal(diff)
	}
}

// U32: a kind that is registered and that no rule mentions must not pass in silence.
func TestTheShippedLawMentionsEveryDocumentKind(t *testing.T) {
	shipped, err := policy.ShippedKinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range DocumentKinds() {
		if !slices.Contains(shipped, kind) {
			t.Errorf("no rule mentions %s", kind)
		}
	}
}

// emptyDocument makes a document of a kind as machinery's registry does.
func emptyDocument(t testing.TB, kind string) config.Document {
	t.Helper()
	text := "apiVersion: v1alpha1\nkind: " + kind + "\n"
	if kind == "v1alpha1" {
		text = "version: v1alpha1\nmachine: {}\n"
	}
	loaded, err := configloader.NewFromBytes([]byte(text))
	if err != nil {
		t.Fatalf("making a %s: %v", kind, err)
	}
	return loaded.Documents()[0]
}

// textFields lists the fields of a kind whose values are judged by their field rather
// than by their type.
func textFields(kind string, t reflect.Type, field string, depth int, note func(string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > 16 {
		return
	}
	switch shapeOf(t) {
	case record:
		for _, m := range membersOf(reflect.New(t).Elem()) {
			textFields(kind, m.value.Type(), place{field: field, path: field}.member(m.name).field, depth+1, note)
		}
	case list, dictionary:
		textFields(kind, t.Elem(), field, depth+1, note)
	case leaf:
		switch {
		case t.Kind() == reflect.String, t.Kind() == reflect.Interface, t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !typedText(t),
			t == reflect.TypeFor[meta.URL](), t == reflect.TypeFor[v1alpha1.Endpoint](), t == reflect.TypeFor[cel.Expression](),
			t == reflect.TypeFor[v1alpha1.Unstructured](), t == reflect.TypeFor[v1alpha1.ArgValue](), t == reflect.TypeFor[v1alpha1.InstallDiskSizeMatcher]():
			note(kind + ":" + field)
		}
	}
}

// typedText is true for byte slices that are addresses rather than content.
func typedText(t reflect.Type) bool { return t.Name() == "HardwareAddr" }

// A text field machinery adds is on no list and therefore masked; this test makes
// somebody decide about it.
func TestEveryTextFieldIsOnOneList(t *testing.T) {
	listed := map[string]int{}
	for _, l := range [][]string{shownFields(), originFields(), numericFields(), maskedFields()} {
		for _, field := range l {
			listed[field]++
		}
	}
	found := map[string]bool{}
	for _, kind := range DocumentKinds() {
		textFields(kind, reflect.TypeOf(emptyDocument(t, kind)), "", 0, func(field string) {
			name := field[strings.Index(field, ":")+1:]
			if kind != "v1alpha1" && (name == "apiVersion" || name == "kind" || name == "name") {
				return
			}
			found[field] = true
			if listed[field] != 1 {
				t.Errorf("%s is on %d lists", field, listed[field])
			}
		})
	}
	for field := range listed {
		if !found[field] {
			t.Errorf("%s is listed and machinery does not have it", field)
		}
	}
	if len(found) < 200 {
		t.Fatalf("found %d fields", len(found))
	}
}

// eachLeaf visits the values of a document that hold no others.
func eachLeaf(document config.Document, look func(at place, v reflect.Value)) {
	var visit func(at place, v reflect.Value)
	visit = func(at place, v reflect.Value) {
		v, _, ok := strip(v)
		if !ok {
			return
		}
		switch shapeOf(v.Type()) {
		case record:
			for _, m := range membersOf(v) {
				visit(at.member(m.name), m.value)
			}
		case list:
			for i := range v.Len() {
				visit(at.element(i), v.Index(i))
			}
		case dictionary:
			for _, key := range v.MapKeys() {
				visit(at.key(key.String()), v.MapIndex(key))
			}
		case leaf:
			look(at, v)
		}
	}
	visit(place{}, reflect.ValueOf(document))
}

// What machinery's own redactor hides must be masked here too (U31).
func TestWhatMachineryRedactsIsMasked(t *testing.T) {
	const mark = "r3d4ct3d"
	for _, kind := range DocumentKinds() {
		document := emptyDocument(t, kind)
		fill(reflect.ValueOf(document), "canary", 0)
		secret, ok := document.(config.SecretDocument)
		if !ok {
			continue
		}
		secret.Redact(mark)
		seen := 0
		eachLeaf(document, func(at place, v reflect.Value) {
			text := string(encode(v))
			if !strings.Contains(text, mark) {
				return
			}
			seen++
			if got, _ := (viewer{digester: testKeys(t)}).show(kind, at.field, v).(string); strings.Contains(got, mark) {
				t.Errorf("%s %s is redacted by machinery and shown here", kind, at.field)
			}
		})
		if seen == 0 {
			t.Errorf("%s redacts nothing: the test does not reach its secrets", kind)
		}
	}
}
