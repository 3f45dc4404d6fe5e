package law

import (
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/loader"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"bronzeward/cmd/bronzeward/cli"
)

// initiated is a directory as init writes it.
func initiated(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "law")
	if r := (&world{}).run(t, "init", dir); r.err != nil || !strings.Contains(r.out, "README.md") {
		t.Fatalf("init: %+v", r)
	}
	return dir
}

// edit replaces a piece of a file, which must be there.
func edit(t *testing.T, dir, file, old, new string) {
	t.Helper()
	name := filepath.Join(dir, file)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What init writes is whole: it checks, its tests and cases hold.
func TestWhatInitWritesIsWhole(t *testing.T) {
	dir := initiated(t)
	if r := (&world{}).run(t, "check", "--regal=", dir); r.err != nil || !strings.Contains(r.out, "no problem found") {
		t.Errorf("check: %+v", r)
	}
	junit := filepath.Join(t.TempDir(), "junit.xml")
	if r := (&world{}).run(t, "test", dir, "--coverage-min=95", "--junit", junit); r.err != nil || !strings.Contains(r.out, " cases hold, 0 do not") {
		t.Errorf("test: %+v", r)
	}
	text, err := os.ReadFile(junit)
	if err != nil {
		t.Fatal(err)
	}
	var suites junitSuites
	if err := xml.Unmarshal(text, &suites); err != nil || len(suites.Suites) != 2 || suites.Suites[0].Tests < 100 || suites.Suites[1].Tests < 150 {
		t.Errorf("junit: %v, %.300s", err, text)
	}
	if r := (&world{}).run(t, "init", dir); r.err == nil || !strings.Contains(r.err.Error(), "not empty") {
		t.Errorf("init over a directory: %+v", r)
	}
}

// A house has its own groups, and asks for as many approvals as it likes: no shipped test or case minds.
func TestTheShippedTestsHoldInAnyHouse(t *testing.T) {
	dir := initiated(t)
	for _, group := range []string{"viewers", "operators", "approvers", "auditors", "recovery-admins", "policy-admins", "automation"} {
		edit(t, dir, "bronzeward/data.yaml", "\n  "+group+": [", "\n  our-"+group+": [")
	}
	edit(t, dir, "bronzeward/data.yaml", "required: 1\n  groups: [approvers]\n  self_approval: false\n  still_member: false",
		"required: 3\n  groups: [our-approvers]\n  self_approval: true\n  still_member: true")
	if r := (&world{}).run(t, "test", dir); r.err != nil || !strings.Contains(r.out, " 0 do not") {
		t.Errorf("%+v", r)
	}
	// The control: a stance is the house's own, and the cases that say otherwise are named, and no Rego test.
	edit(t, dir, "bronzeward/config/data.yaml", "\napprovals:\n", "\napprovals:\n  time: 2\n")
	r := (&world{}).run(t, "test", dir)
	if !errors.Is(r.err, cli.ErrChanged) || !strings.Contains(r.out, " 0 failed") || strings.Count(r.out, "FAIL  ") != 2 {
		t.Errorf("%+v", r)
	}
}

// Nothing of ours is needed: OPA's own loader and tester take the directory, cases and all.
func TestOPATestsWhatInitWrites(t *testing.T) {
	loaded, err := loader.NewFileLoader().WithRegoVersion(ast.RegoV1).WithProcessAnnotation(true).Filtered([]string{initiated(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := inmem.NewFromObject(loaded.Documents)
	txn, err := store.NewTransaction(t.Context(), storage.TransactionParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Abort(t.Context(), txn)
	results, err := tester.NewRunner().SetStore(store).SetModules(loaded.ParsedModules()).SetDefaultRegoVersion(ast.RegoV1).RunTests(t.Context(), txn)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range results {
		n++
		if !r.Pass() {
			t.Errorf("%s: %s.%s: %v", r.Location, r.Package, r.Name, r.Error)
		}
	}
	if n < 100 {
		t.Errorf("only %d tests ran", n)
	}
}

func TestACaseThatDoesNotHoldIsNamedAtItsLine(t *testing.T) {
	dir := initiated(t)
	edit(t, dir, "cases/windows/windows.yaml", `name: "a leap day", facts: {now: 2028-02-29T12:00:00Z`, `name: "a leap day", facts: {now: 2028-03-29T12:00:00Z`)
	text, err := os.ReadFile(filepath.Join(dir, "cases/windows/windows.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), `"a leap day"`)
	junit := filepath.Join(t.TempDir(), "junit.xml")
	r := (&world{}).run(t, "test", dir, "--run=a leap day", "--junit", junit)
	if !errors.Is(r.err, cli.ErrChanged) || !strings.Contains(r.out, "; 0 cases hold, 1 do not") {
		t.Errorf("%+v", r)
	}
	if want := "FAIL  windows/windows: a leap day (cases/windows/windows.yaml:" + itoa(1+strings.Count(before, "\n")) + ")"; !strings.Contains(r.out, want) {
		t.Errorf("no %q in %s", want, r.out)
	}
	if out, err := os.ReadFile(junit); err != nil || !strings.Contains(string(out), "<failure message=") {
		t.Errorf("junit: %v %s", err, out)
	}
}

func TestTooLittleCoverageFails(t *testing.T) {
	dir := initiated(t)
	if err := os.Remove(filepath.Join(dir, "bronzeward/rules/holds/holds_test.rego")); err != nil {
		t.Fatal(err)
	}
	if r := (&world{}).run(t, "test", dir, "--coverage-min=99"); !errors.Is(r.err, cli.ErrChanged) || !strings.Contains(r.errOut, "fewer than 99 %") {
		t.Errorf("%+v", r)
	}
}

func TestFmtWritesWhatOPAWould(t *testing.T) {
	dir := initiated(t)
	const file = "bronzeward/rules/mode/mode.rego"
	whole, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	edit(t, dir, file, "package bronzeward.rules.mode\n", "package   bronzeward.rules.mode\n")
	for _, flag := range []string{"--check", "--diff"} {
		if r := (&world{}).run(t, "fmt", flag, dir); !errors.Is(r.err, cli.ErrChanged) || !strings.Contains(r.out, file) {
			t.Errorf("fmt %s: %+v", flag, r)
		}
	}
	if r := (&world{}).run(t, "fmt", dir); r.err != nil || r.out != file+"\n" {
		t.Errorf("fmt: %+v", r)
	}
	if now, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(now) != string(whole) {
		t.Errorf("%v, or the file is not as it was", err)
	}
	if r := (&world{}).run(t, "fmt", "--check", dir); r.err != nil || r.out != "" {
		t.Errorf("fmt --check of a formatted directory: %+v", r)
	}
}
