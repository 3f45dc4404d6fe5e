package facts

import (
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

func TestImmediateFieldsAreThoseOfTalosSource(t *testing.T) {
	if diff := cmp.Diff(immediateInSource(t), immediate()); diff != "" {
		t.Fatal(diff)
	}
}

// checkSource is the SHA-256 of the file the check stands in: no sum of go.mod covers it.
const checkSource = "95a264846742fbf1b56a5fe7eaf2aa98409455a1cae26bb10374072fce63fc0b"

// immediateInSource reads the fields from the node's own check, sorted. It assigns the parts
// it allows from the current configuration to the new one; the assignments are the list.
func immediateInSource(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(moduleDir(t, talosModule), "internal/app/machined/pkg/runtime/v1alpha1/v1alpha1_runtime.go")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(text)); sum != checkSource {
		t.Fatalf("%s is not the file that was read for this: its sum is %s", path, sum)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, declared := range file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok || function.Name.Name != "CanApplyImmediate" {
			continue
		}
		ast.Inspect(function.Body, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || len(assign.Lhs) != 1 || assign.Tok != token.ASSIGN {
				return true
			}
			names := selectors(assign.Lhs[0])
			if len(names) > 1 && names[0] == "newConfig" {
				got = append(got, yamlPath(t, names[1:]))
			}
			return true
		})
	}
	slices.Sort(got)
	return got
}

func selectors(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.Ident:
		return []string{e.Name}
	case *ast.SelectorExpr:
		return append(selectors(e.X), e.Sel.Name)
	default:
		return nil
	}
}

// yamlPath turns Go field names into the path in the document.
func yamlPath(t *testing.T, names []string) string {
	t.Helper()
	var out []string
	at := reflect.TypeFor[v1alpha1.Config]()
	for _, name := range names {
		field, ok := at.FieldByName(name)
		if !ok {
			t.Fatalf("%s has no field %s", at, name)
		}
		tag, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		out = append(out, tag)
		if at = field.Type; at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
	}
	return strings.Join(out, ".")
}

func TestNeedsReboot(t *testing.T) {
	for field, want := range map[string]bool{
		"machine.kubelet.image": false, "machine.kubelet": false, "machine.kubeletX": true, "machine": true, "version": true, "persist": true,
		"machine.features.rbac": true, "machine.features.kubePrism.port": false, "machine.features": true, "cluster.id": false, "": true,
	} {
		if got := needsReboot(field); got != want {
			t.Errorf("%q: %t", field, got)
		}
	}
}
