package facts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/siderolabs/talos/pkg/machinery/api/security"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"bronzeward/policy"
)

func TestTableAgreesWithTheServicesOfTheSupportedMinor(t *testing.T) {
	if err := CheckTable(SupportedMinor); err != nil {
		t.Fatal(err)
	}
	if err := CheckTable("1.14"); err == nil {
		t.Fatal("a minor whose services are not compiled in passed")
	}
}

func TestTableHasEveryMethodApidServes(t *testing.T) {
	per := map[string]int{}
	for _, m := range Table() {
		for _, minor := range m.Minors {
			per[minor]++
		}
	}
	if diff := cmp.Diff(map[string]int{"1.13": 74, "1.14": 80}, per); diff != "" {
		t.Fatal(diff)
	}
}

// The check must fail for each way a table can be wrong; otherwise it proves nothing.
func TestCheckTableRefusesEveryDisagreement(t *testing.T) {
	edit := func(change func([]Method) []Method) []Method { return change(rows()) }
	at := func(all []Method, name string) int {
		return slices.IndexFunc(all, func(m Method) bool { return m.Name == name })
	}
	const version = "/machine.MachineService/Version"
	tests := []struct {
		name     string
		rows     []Method
		services []string
		want     string
	}{
		{"a served method without a row", edit(func(all []Method) []Method {
			return slices.Delete(all, at(all, version), at(all, version)+1)
		}), served(), version + " is served and has no row"},
		{"a row of another minor only", edit(func(all []Method) []Method {
			all[at(all, version)].Minors = []string{"1.14"}
			return all
		}), served(), version + " is served and has no row"},
		{"a row without a method", edit(func(all []Method) []Method {
			return append(all, Method{Name: "/machine.MachineService/Gone", Class: policy.ClassRead, Minors: []string{"1.13"}})
		}), served(), "/machine.MachineService/Gone has a row and is not served"},
		{
			"a service that is not served", rows(), slices.DeleteFunc(served(), func(s string) bool { return s == "time.TimeService" }),
			"/time.TimeService/Time has a row and is not served",
		},
		{"a service that is not compiled in", rows(), append(served(), "no.Service"), "no.Service is not compiled in"},
		{"a message named as a service", rows(), append(served(), "machine.Version"), "machine.Version is not a service"},
		{"two rows", edit(func(all []Method) []Method { return append(all, all[0]) }), served(), "has two rows"},
		{"a wrong server stream", edit(func(all []Method) []Method {
			all[at(all, version)].ServerStream = true
			return all
		}), served(), "server stream"},
		{"a wrong client stream", edit(func(all []Method) []Method {
			all[at(all, version)].ClientStream = true
			return all
		}), served(), "client stream"},
		{"an upload with another class", edit(func(all []Method) []Method {
			all[at(all, "/machine.MachineService/EtcdRecover")].Class = policy.ClassMutate
			return all
		}), served(), "are uploads"},
		{"a class nobody knows", edit(func(all []Method) []Method {
			all[at(all, version)].Class = "harmless"
			return all
		}), served(), "no known class"},
		{"fan-out where apid refuses it", edit(func(all []Method) []Method {
			all[at(all, "/cosi.resource.State/List")].Nodes = true
			return all
		}), served(), "nodes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := checkTable(SupportedMinor, test.rows, test.services, protoregistry.GlobalFiles)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// A service machinery adds must be served or be known not to be.
func TestEveryCompiledTalosServiceIsServedOrKnownNotToBe(t *testing.T) {
	elsewhere := []string{"securityapi.SecurityService"} // trustd, port 50001
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(file.Package()), "grpc.") || strings.HasPrefix(string(file.Package()), "google.") {
			return true
		}
		for i := range file.Services().Len() {
			name := string(file.Services().Get(i).FullName())
			if slices.Contains(served(), name) == slices.Contains(elsewhere, name) {
				t.Errorf("service %s is neither served nor known not to be, or both", name)
			}
		}
		return true
	})
}

// Talos's own rules name the same methods, and say which of them os:reader may call.
func TestRowsAgreeWithTalosRoleRules(t *testing.T) {
	file := filepath.Join(moduleDir(t, talosModule), "internal/app/machined/pkg/system/services/machined.go")
	readers := roleRules(t, file)
	for name, m := range Table() {
		if !m.In("1.13") {
			continue
		}
		reader, ok := readers[name]
		if !ok {
			t.Errorf("%s has a row and Talos no rule", name)
			continue
		}
		// os:reader stands in two rules for maintenance mode only.
		maintenance := m.Applies() || name == "/storage.StorageService/BlockDeviceWipe"
		if m.Reader != (reader && !maintenance) {
			t.Errorf("%s: the row says reader %t, Talos %t", name, m.Reader, reader)
		}
	}
	for name := range readers {
		if m, ok := Lookup(name); !ok || !m.In("1.13") {
			t.Errorf("Talos has a rule for %s and it has no row", name)
		}
	}
}

func roleRules(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := pair.Key.(*ast.BasicLit)
		call, isCall := pair.Value.(*ast.CallExpr)
		if !ok || !isCall || key.Kind != token.STRING {
			return true
		}
		name, _ := strconv.Unquote(key.Value)
		reader := false
		for _, arg := range call.Args {
			if sel, ok := arg.(*ast.SelectorExpr); ok && sel.Sel.Name == "Reader" {
				reader = true
			}
		}
		out[name] = reader
		return true
	})
	if len(out) < 70 {
		t.Fatalf("found %d rules in %s", len(out), file)
	}
	return out
}

func TestLookupComparesWholeNames(t *testing.T) {
	for _, name := range []string{
		"", "/", "machine.MachineService/Version", "/machine.MachineService/version", "/machine.MachineService/Version/",
		"/machine.MachineService/VersionX", "//machine.MachineService/Version", "/machine.MachineService/", "/machine.MachineService/DebugContainer",
		"/os.OSService/Dmesg", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Health/Check",
		"/securityapi.SecurityService/Certificate", "/auth.AuthService/RegisterPublicKey",
	} {
		if m, ok := Lookup(name); ok {
			t.Errorf("%q has a row: %+v", name, m)
		}
	}
}

func TestTableIsACopy(t *testing.T) {
	table := Table()
	maps.DeleteFunc(table, func(string, Method) bool { return true })
	if _, ok := Lookup("/machine.MachineService/Version"); !ok {
		t.Fatal("emptying the returned table emptied the table")
	}
}

func TestClassesOfMethodsThatMatter(t *testing.T) {
	want := map[string]policy.Class{
		"/machine.MachineService/ApplyConfiguration":          policy.ClassApply,
		"/machine.MachineService/Version":                     policy.ClassRead,
		"/machine.MachineService/Reboot":                      policy.ClassMutate,
		"/machine.MachineService/Upgrade":                     policy.ClassMutate,
		"/machine.LifecycleService/Upgrade":                   policy.ClassMutate,
		"/machine.MachineService/Kubeconfig":                  policy.ClassMint,
		"/machine.MachineService/GenerateClientConfiguration": policy.ClassMint,
		"/machine.MachineService/Read":                        policy.ClassSensitiveRead,
		"/machine.MachineService/Copy":                        policy.ClassSensitiveRead,
		"/machine.MachineService/EtcdSnapshot":                policy.ClassSensitiveRead,
		"/machine.MachineService/PacketCapture":               policy.ClassSensitiveRead,
		"/machine.MachineService/EtcdRecover":                 policy.ClassUpload,
		"/machine.ImageService/Import":                        policy.ClassUpload,
		"/machine.DebugService/ContainerRun":                  policy.ClassUpload,
		"/machine.ImageService/Pull":                          policy.ClassMutate,
		"/cluster.ClusterService/HealthCheck":                 policy.ClassEgress,
		"/time.TimeService/TimeCheck":                         policy.ClassEgress,
		"/machine.ImageService/Verify":                        policy.ClassEgress,
		"/storage.StorageService/BlockDeviceWipe":             policy.ClassMutate,
		"/cosi.resource.State/Create":                         policy.ClassMutate,
	}
	got := map[string]policy.Class{}
	for name := range want {
		m, _ := Lookup(name)
		got[name] = m.Class
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestAMethodOfAnUnknownClassMutates(t *testing.T) {
	if !(Method{Class: "something new"}).Mutates() {
		t.Fatal("a class nobody thought of is not treated as a change")
	}
}
