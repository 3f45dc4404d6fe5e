package facts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// The node's own check assigns the parts it allows from the current configuration to
// the new one; the assignments in its source are the list.
func TestImmediateFieldsAreThoseOfTalosSource(t *testing.T) {
	path := filepath.Join(moduleDir(t, talosModule), "internal/app/machined/pkg/runtime/v1alpha1/v1alpha1_runtime.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
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
	if diff := cmp.Diff(got, immediate()); diff != "" {
		t.Fatal(diff)
	}
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
