package facts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bronzeward/policy"
)

// definitions reads the resource definitions of machinery's source: type name to
// whether Talos marks it sensitive.
func definitions(t *testing.T) map[string]bool {
	t.Helper()
	root := filepath.Join(moduleDir(t, machineryModule), "resources")
	files := map[string][]*ast.File{} // by folder, which is a package
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		files[filepath.Dir(path)] = append(files[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for dir, parsed := range files {
		constants := map[string]string{}
		for _, file := range parsed {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok {
					return true
				}
				for i, value := range spec.Values {
					call, ok := value.(*ast.CallExpr)
					if !ok || len(call.Args) != 1 || !selects(call.Fun, "Type") {
						continue
					}
					if literal, ok := call.Args[0].(*ast.BasicLit); ok {
						constants[spec.Names[i].Name], _ = strconv.Unquote(literal.Value)
					}
				}
				return true
			})
		}
		for _, file := range parsed {
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.CompositeLit)
				if !ok || !selects(literal.Type, "ResourceDefinitionSpec") {
					return true
				}
				typ, sensitive := "", false
				for _, element := range literal.Elts {
					pair, ok := element.(*ast.KeyValueExpr)
					if !ok {
						t.Fatalf("a definition in %s is not keyed", dir)
					}
					switch pair.Key.(*ast.Ident).Name {
					case "Type":
						typ = constants[pair.Value.(*ast.Ident).Name]
					case "Sensitivity":
						sensitive = selects(pair.Value, "Sensitive")
						if !sensitive && !selects(pair.Value, "NonSensitive") {
							t.Fatalf("a definition in %s has a sensitivity of another name", dir)
						}
					}
				}
				if typ == "" {
					t.Fatalf("a definition in %s has no readable type", dir)
				}
				out[typ] = sensitive
				return true
			})
		}
	}
	if len(out) < 150 {
		t.Fatalf("found %d definitions in %s", len(out), root)
	}
	return out
}

func selects(n ast.Expr, name string) bool {
	selector, ok := n.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == name
}

// Talos marks types sensitive in their definitions; the hand lists must say the same of
// every type, and a type that is on no list fails here before it is a surprise.
func TestEveryResourceTypeHasTheClassTalosGivesIt(t *testing.T) {
	defined := definitions(t)
	for typ, sensitive := range defined {
		want := policy.ClassRead
		if sensitive {
			want = policy.ClassSecretRead
		}
		if typ == machineConfigType {
			want = policy.ClassConfigRead
		}
		if got, listed := resourceClasses[typ]; !listed || got != want {
			t.Errorf("%s is a %q, Talos makes it a %s", typ, got, want)
		}
	}
	for typ := range resourceClasses {
		if _, ok := defined[typ]; !ok && !strings.HasSuffix(typ, ".meta.cosi.dev") {
			t.Errorf("%s is listed and machinery does not have it", typ)
		}
	}
}

func TestAnUnknownResourceTypeIsASecretRead(t *testing.T) {
	for _, typ := range []string{"", "machineconfigs.config.talos.dev", "MachineConfig", "mc", "Members.cluster.talos.dev ", "KubeSecrets.future.talos.dev"} {
		if got := ClassOfResource(typ); got != policy.ClassSecretRead {
			t.Errorf("%q is a %s", typ, got)
		}
	}
}
