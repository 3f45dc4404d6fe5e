package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
)

// answering is a law whose admission decision is the given Rego.
func answering(t *testing.T, rego string) *Engine {
	t.Helper()
	return using(t, EngineConfig{}, map[string]string{
		"a.rego": "package bronzeward.admission\n\n" + rego,
		"b.rego": "package bronzeward.api\n\ndefault decision := false\n",
	})
}

func using(t *testing.T, c EngineConfig, m map[string]string) *Engine {
	t.Helper()
	b, err := Load(files(m))
	if err != nil {
		t.Fatal(err)
	}
	e := New(c)
	if err := e.Use(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return e
}

const rest = `"approvals": {"required": 0, "groups": ["g"], "self_approval": false}, "upstream_roles": ["os:reader"], "redact": true`

func TestTheEngineFailsClosed(t *testing.T) {
	deny := `{"code": "BW-A1-001", "message": "m", "rule": "r", "severity": "deny", "hint": ""}`
	for _, c := range []struct{ name, rego, want string }{
		{"an undefined decision", `decision := 1 if input.nosuch`, CodeUndefined},
		{"another package", `other := 1`, CodeUndefined},
		{"true alone", `decision := true`, CodeMalformed},
		{"a string", `decision := "allow"`, CodeMalformed},
		{"an empty object", `decision := {}`, CodeMalformed},
		{"null", `decision := null`, CodeMalformed},
		{"allow as a string", `decision := {"allow": "true", "reasons": [], ` + rest + `}`, CodeMalformed},
		{"allow as a number", `decision := {"allow": 1, "reasons": [], ` + rest + `}`, CodeMalformed},
		{"allow missing", `decision := {"reasons": [], ` + rest + `}`, CodeMalformed},
		{"a key too many", `decision := {"allow": true, "extra": 1, "reasons": [], ` + rest + `}`, CodeMalformed},
		{"a key misspelled", `decision := {"allow": true, "reason": [], ` + rest + `}`, CodeMalformed},
		{"reasons as an object", `decision := {"allow": true, "reasons": {}, ` + rest + `}`, CodeMalformed},
		{"a reason as a string", `decision := {"allow": true, "reasons": ["no"], ` + rest + `}`, CodeMalformed},
		{"a reason without hint", `decision := {"allow": true, "reasons": [{"code": "BW-A1-001", "message": "m", "rule": "r", "severity": "warn"}], ` + rest + `}`, CodeMalformed},
		{"a severity nobody knows", `decision := {"allow": true, "reasons": [{"code": "BW-A1-001", "message": "m", "rule": "r", "severity": "off", "hint": ""}], ` + rest + `}`, CodeMalformed},
		{"a code of the engine", `decision := {"allow": false, "reasons": [{"code": "BW-POLICY-001", "message": "m", "rule": "r", "severity": "deny", "hint": ""}], ` + rest + `}`, CodeMalformed},
		{"a quorum of a half", `decision := {"allow": true, "reasons": [], "approvals": {"required": 0.5, "groups": ["g"], "self_approval": false}, "upstream_roles": ["os:reader"], "redact": true}`, CodeMalformed},
		{"a quorum below zero", `decision := {"allow": true, "reasons": [], "approvals": {"required": -1, "groups": ["g"], "self_approval": false}, "upstream_roles": ["os:reader"], "redact": true}`, CodeMalformed},
		{"a quorum beyond all people", `decision := {"allow": true, "reasons": [], "approvals": {"required": 1e30, "groups": ["g"], "self_approval": false}, "upstream_roles": ["os:reader"], "redact": true}`, CodeMalformed},
		{"a quorum as a string", `decision := {"allow": true, "reasons": [], "approvals": {"required": "0", "groups": ["g"], "self_approval": false}, "upstream_roles": ["os:reader"], "redact": true}`, CodeMalformed},
		{"a quorum from nobody", `decision := {"allow": true, "reasons": [], "approvals": {"required": 1, "groups": [], "self_approval": false}, "upstream_roles": ["os:reader"], "redact": true}`, CodeMalformed},
		{"the impersonator's role", `decision := {"allow": true, "reasons": [], "approvals": {"required": 0, "groups": ["g"], "self_approval": false}, "upstream_roles": ["os:impersonator"], "redact": true}`, CodeMalformed},
		{"a role twice", `decision := {"allow": true, "reasons": [], "approvals": {"required": 0, "groups": ["g"], "self_approval": false}, "upstream_roles": ["os:reader", "os:reader"], "redact": true}`, CodeMalformed},
		{"allow without a role", `decision := {"allow": true, "reasons": [], "approvals": {"required": 0, "groups": ["g"], "self_approval": false}, "upstream_roles": [], "redact": true}`, CodeContradiction},
		{"allow beside a denial", `decision := {"allow": true, "reasons": [` + deny + `], ` + rest + `}`, CodeContradiction},
		{"no reason", `decision := {"allow": false, "reasons": [], ` + rest + `}`, CodeNoReason},
		{"a built-in that fails", `decision := {"allow": true, "reasons": [], ` + rest + `} if not time.parse_rfc3339_ns("yesterday")`, CodeEvaluation},
		{"two values", "decision := {\"allow\": true, \"reasons\": [], " + rest + "}\n\ndecision := {\"allow\": false, \"reasons\": [], " + rest + "}", CodeEvaluation},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := answering(t, c.rego)
			d := e.Decide(context.Background(), sampleApply())
			if d.Allow || len(d.Reasons) != 1 || d.Reasons[0].Code != c.want || d.Reasons[0].Severity != SeverityDeny {
				t.Fatalf("decision = %+v, want a denial %s", d, c.want)
			}
			if d.Revision != e.Revision() || d.OPA == "" || !d.Redact {
				t.Errorf("decision = %+v lacks its revision, version or redaction", d)
			}
		})
	}
}

// The control of the table above: the same rest with nothing wrong is an allow.
func TestAWellFormedAllowAllows(t *testing.T) {
	d := answering(t, `decision := {"allow": true, "reasons": [], `+rest+`}`).Decide(context.Background(), sampleApply())
	if !d.Allow || !slices.Equal(d.UpstreamRoles, []string{"os:reader"}) {
		t.Fatalf("decision = %+v", d)
	}
}

func TestWithoutALawNothingIsAllowed(t *testing.T) {
	e := New(EngineConfig{})
	for _, d := range []Decision{e.Decide(context.Background(), sampleApply()), e.DecideAct(context.Background(), &Act{Version: 1})} {
		if d.Allow || d.Reasons[0].Code != CodeNoPolicy || d.Revision != "" {
			t.Errorf("decision = %+v", d)
		}
	}
}

func TestAnEmptyBundleDeniesEverything(t *testing.T) {
	e := using(t, EngineConfig{}, nil)
	d := e.Decide(context.Background(), sampleApply())
	if d.Allow || d.Reasons[0].Code != CodeUndefined || d.Revision == "" {
		t.Errorf("decision = %+v", d)
	}
}

func TestFactsThatAreMissingOrOfAnotherVersionAreDenied(t *testing.T) {
	e := lawOf(t, noQuorum)
	newer := sampleApply()
	newer.Version = 2
	for name, d := range map[string]Decision{
		"no facts":    e.Decide(context.Background(), nil),
		"newer facts": e.Decide(context.Background(), newer),
		"no act":      e.DecideAct(context.Background(), nil),
	} {
		if d.Allow || d.Reasons[0].Code != CodeFacts {
			t.Errorf("%s: decision = %+v", name, d)
		}
	}
}

const endless = `decision := count([1 | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i == j + 200000])`

func TestADecisionOverItsBudgetIsDenied(t *testing.T) {
	e := using(t, EngineConfig{Budget: 20 * time.Millisecond}, map[string]string{"a.rego": "package bronzeward.admission\n\n" + endless})
	if d := e.Decide(context.Background(), sampleApply()); d.Allow || d.Reasons[0].Code != CodeBudget {
		t.Errorf("decision = %+v", d)
	}
}

func TestACancelledDecisionIsDenied(t *testing.T) {
	e := using(t, EngineConfig{Budget: time.Hour}, map[string]string{"a.rego": "package bronzeward.admission\n\n" + endless})
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if d := e.Decide(ctx, sampleApply()); d.Allow || d.Reasons[0].Code != CodeCancelled {
		t.Errorf("decision = %+v", d)
	}
}

func TestABundleThatDoesNotCompileLeavesTheLawAsItWas(t *testing.T) {
	e := lawOf(t, noQuorum)
	was := e.Revision()
	bad, err := Load(files(map[string]string{"a.rego": "package a\n\nx := nosuch(1)\n"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Bundle{bad, nil} {
		if err := e.Use(context.Background(), b); err == nil {
			t.Error("a broken bundle became the law")
		}
	}
	if d := e.Decide(context.Background(), sampleApply()); !d.Allow || d.Revision != was {
		t.Errorf("decision = %+v", d)
	}
}

func TestTheLawCanBeSwappedUnderLoadWithoutADroppedCall(t *testing.T) {
	ctx := context.Background()
	e := lawOf(t, noQuorum)
	first := e.live.Load().bundle
	second, err := Overlay(first, files(map[string]string{"bronzeward/data.yaml": "supported: {minors: [\"1.13\", \"1.99\"]}\n"}))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{first.Revision(): true, second.Revision(): true}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				if d := e.Decide(ctx, sampleApply()); !d.Allow && d.Reasons[0].Code != CodeBudget || !known[d.Revision] {
					t.Errorf("decision = %+v", d)
					return
				}
			}
		})
	}
	for i := range 6 {
		if err := e.Use(ctx, []*Bundle{second, first}[i%2]); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestTheSameFactsGiveTheSameDecision(t *testing.T) {
	f := sampleApply()
	f.Call.Mode, f.Machine.Pinned, f.Caller.Revoked, f.Evidence.Type = "staged", false, true, "controlplane"
	e := lawOf(t, nil)
	want := e.Decide(context.Background(), f)
	if len(want.Reasons) < 5 || !slices.IsSortedFunc(want.Reasons, compareReasons) {
		t.Fatalf("reasons = %v", want.Codes())
	}
	for range 10 {
		if diff := cmp.Diff(want, lawOf(t, nil).Decide(context.Background(), f)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestNoBuiltInReachesTheWorld(t *testing.T) {
	for _, b := range capabilities().Builtins {
		if b.Nondeterministic {
			t.Errorf("%s is not deterministic", b.Name)
		}
		for _, p := range []string{"http.", "rand.", "uuid.", "opa.", "io.jwt.", "net.lookup", "time.now"} {
			if strings.HasPrefix(b.Name, p) {
				t.Errorf("%s is left", b.Name)
			}
		}
	}
	if c := capabilities(); c.AllowNet == nil || len(c.AllowNet) != 0 {
		t.Error("schemas may be fetched from the network")
	}
	for _, call := range []string{
		`http.send({"method": "get", "url": "http://127.0.0.1"})`, `rand.intn("x", 3)`, `uuid.rfc4122("x")`, `time.now_ns()`, `opa.runtime()`, `net.lookup_ip_addr("localhost")`, `io.jwt.decode("x")`, `trace("x")`,
		// These end when they like, and not with the budget.
		`bits.lsh(1, 100000000000)`, `graph.reachable_paths({1: {1}}, {1})`, `strings.render_template("x", {})`,
	} {
		b, err := Load(files(map[string]string{"a.rego": "package a\n\nx := " + call + "\n"}))
		if err != nil {
			continue
		}
		if err := New(EngineConfig{}).Use(context.Background(), b); err == nil {
			t.Errorf("%s compiles", call)
		}
	}
}

func TestTheInputIsWhatJSONWouldBe(t *testing.T) {
	full := worker15K()
	full.Call.Resource = &Resource{Namespace: "config", Type: "T", ID: "v1alpha1"}
	full.Holds = []Hold{{Kind: "freeze", ID: "h", Holder: Person{"i", "s"}, Since: sampleNow, Scope: "machine"}}
	full.Change = &Change{ID: "c", Kind: "apply", Approvals: []Approval{{Groups: []string{"a"}}, {GroupsNow: []string{"b"}}}}
	full.Config.Changes = append(full.Config.Changes,
		ConfigChange{Before: true, After: 3.5}, ConfigChange{Before: 1 << 40, After: uint64(7)},
		ConfigChange{Before: []any{"x", 1.0}, After: map[string]any{"k": nil}}, ConfigChange{Before: int64(-4), After: false})
	full.Config.Collections = []Collection{{"v1alpha1", "f", 600}}
	full.Config.Problems = []Problem{{"syntax", 3, "m"}}
	for i, f := range []*Facts{full, {Version: 1}, sampleApply()} {
		got, err := factsValue(f)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(viaJSON(t, f), got.String()); diff != "" {
			t.Errorf("facts %d: %s", i, diff)
		}
	}
	for _, change := range []*Change{nil, full.Change} {
		a := &Act{Version: 1, Act: "machines.add", Caller: sampleCaller("operators"), Subject: "w", Change: change, Now: sampleNow}
		if diff := cmp.Diff(viaJSON(t, a), actValue(a).String()); diff != "" {
			t.Error(diff)
		}
	}
}

func viaJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	val, err := ast.ValueFromReader(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return val.String()
}

func TestAChangeThatCannotBeWrittenIsDenied(t *testing.T) {
	f := sampleApply()
	f.Config.Changes[0].After = func() {}
	if d := lawOf(t, noQuorum).Decide(context.Background(), f); d.Allow || d.Reasons[0].Code != CodeFacts {
		t.Errorf("decision = %+v", d)
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add(`{"allow": true, "reasons": [], ` + rest + `}`)
	f.Add(`{"allow": true}`)
	f.Add(`[1, {"allow": NaN}]`)
	f.Fuzz(func(t *testing.T, text string) {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			return
		}
		d, err := readAdmission(v)
		if err != nil && d.Allow {
			t.Fatalf("an answer in error allows: %s", text)
		}
		if d.Allow && (len(d.UpstreamRoles) == 0 || len(d.Denials()) > 0 || !strings.Contains(text, "true")) {
			t.Fatalf("allowed by %s: %s", text, fmt.Sprint(d))
		}
	})
}
