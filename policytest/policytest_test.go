package policytest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v4"

	"bronzeward/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func law(t *testing.T) *policy.Bundle {
	t.Helper()
	b, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheShippedCasesHold(t *testing.T) {
	fsys, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	results, err := Run(context.Background(), law(t), fsys)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Holds() {
			t.Errorf("%s: %s", r.Name, strings.Join(r.Failures, "; "))
		}
	}
	if len(results) < 150 {
		t.Errorf("only %d cases ran", len(results))
	}
}

func TestTheShippedCasesFitTheirSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(CaseSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("case.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("case.json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := shipped.ReadDir("cases")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d case files, %v", len(files), err)
	}
	for _, file := range files {
		name := file.Name()
		text, err := shipped.ReadFile("cases/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(inst); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const small = `
base: {caller: {subject: olga}}
cases:
  - {name: nothing is allowed, want: {verdict: allow}}
`

// The control of the runner: a case that wants the wrong thing does not hold.
func TestACaseThatWantsTheWrongThingDoesNotHold(t *testing.T) {
	results, err := Run(context.Background(), law(t), fstest.MapFS{"a.yaml": {Data: []byte(small)}})
	if err != nil || len(results) != 1 || results[0].Holds() {
		t.Errorf("results = %+v, %v", results, err)
	}
}

// What a case says of the first reason is answered in words.
func TestACaseSaysWhichReasonCameFirst(t *testing.T) {
	text := "base: {caller: {subject: olga, kind: robot}}\ncases:\n  - {name: a, want: {verdict: deny, codes: [BW-IDENTITY-002], says: so, hint: elsewhere}}\n"
	results, err := Run(context.Background(), law(t), fstest.MapFS{"a.yaml": {Data: []byte(text)}})
	if err != nil || len(results) != 1 {
		t.Fatalf("%+v, %v", results, err)
	}
	said := strings.Join(results[0].Failures, "\n")
	for _, want := range []string{"the first reason is BW-", `, want "so" in it`, `, want "elsewhere" in it`} {
		if !strings.Contains(said, want) || strings.Contains(said, "Code:") {
			t.Errorf("no %q in %s", want, said)
		}
	}
}

func TestCaseFilesAreReadStrictly(t *testing.T) {
	for name, text := range map[string]string{
		"a key nobody knows":    "base: {}\ncases: []\nextra: 1\n",
		"no cases":              "base: {}\ncases: []\n",
		"a name twice":          "base: {}\ncases: [{name: a, want: {verdict: allow}}, {name: a, want: {verdict: allow}}]\n",
		"a verdict nobody gave": "base: {}\ncases: [{name: a, want: {verdict: maybe}}]\n",
		"a deny without a code": "base: {}\ncases: [{name: a, want: {verdict: deny}}]\n",
		"two documents":         small + "---\n" + small,
	} {
		if _, err := Read(fstest.MapFS{"a.yaml": {Data: []byte(text)}}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := Run(context.Background(), law(t), fstest.MapFS{"a.yaml": {Data: []byte("base: {cal: {}}\ncases: [{name: a, want: {verdict: allow}}]\n")}}); err == nil {
		t.Error("a fact nobody knows is taken")
	}
}

//go:embed methods.yaml
var methodTable []byte

// groups are the groups of the demo, one per role, and one that has none.
var groups = []string{"viewers", "operators", "approvers", "auditors", "recovery-admins", "policy-admins", "automation", "guests"}

type methodRow struct{ Method, Class, Allowed string }

func methods(t *testing.T) []methodRow {
	t.Helper()
	var table struct{ Methods []methodRow }
	if err := yaml.Unmarshal(methodTable, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Methods) != 80 {
		t.Fatalf("the table has %d methods, want 80", len(table.Methods))
	}
	return table.Methods
}

func TestEveryMethodOfTheTalosAPIForEveryRole(t *testing.T) {
	ctx := context.Background()
	e, err := File{Data: map[string]any{"quorum": map[string]any{"required": 0}}}.engine(ctx, law(t))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for _, m := range methods(t) {
		for _, group := range groups {
			f := &policy.Facts{
				Version: 1, Phase: "final", Now: now, Holds: []policy.Hold{},
				Call:    policy.Call{Method: m.Method, Class: policy.Class(m.Class), Targets: 1, Mode: "no-reboot", ModeGiven: true},
				Caller:  policy.Caller{Issuer: "i", Subject: "s", Kind: "human", Groups: []string{group}, ProofEnds: now.Add(time.Minute)},
				Machine: &policy.Machine{Name: "worker-1", Cluster: "lab", Role: "worker", Pinned: true},
				Evidence: &policy.Evidence{
					Version: "v1.13.6", Minor: "1.13", Stage: "running", Type: "worker", IdentityMatches: true,
				},
				Config: &policy.Config{
					Digest: "d", Base: "b", Persistent: "b",
					Problems: []policy.Problem{}, Documents: []policy.Document{}, Changes: []policy.ConfigChange{}, Collections: []policy.Collection{},
				},
			}
			want := group != "guests" && (m.Allowed == "pass" ||
				m.Allowed == "apply" && slices.Contains([]string{"operators", "automation"}, group))
			if d := e.Decide(ctx, f); d.Allow != want {
				t.Errorf("%s by %s: allow = %v, want %v (%v)", m.Method, group, d.Allow, want, d.Codes())
			} else if m.Class == "read" && want && !slices.Equal(d.UpstreamRoles, []string{"os:reader"}) {
				t.Errorf("%s by %s goes as %v", m.Method, group, d.UpstreamRoles)
			}
		}
	}
}
