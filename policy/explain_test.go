package policy

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const stagedCall = `
call: {method: /machine.MachineService/ApplyConfiguration, class: apply, mode: staged, mode_given: true, targets: 1}
caller: {issuer: i, subject: olga, kind: human, groups: [operators], proof_ends: 2026-03-02T11:00:00Z}
machine: {name: worker-1, cluster: lab, role: worker, pinned: true}
now: 2026-03-02T10:00:00Z
phase: early
`

func TestAnExplanationSaysWhatFiredAndWhyTheRestDidNot(t *testing.T) {
	x := explained(t, stagedCall)
	rules := map[string]RuleExplanation{}
	for _, r := range x.Rules {
		rules[r.Code] = r
	}
	if r := rules["BW-MODE-004"]; !r.Fired || len(r.Messages) != 1 || r.Why != "" {
		t.Errorf("BW-MODE-004 = %+v", r)
	}
	if r := rules["BW-MODE-002"]; r.Fired || r.Why != `input.call.mode == "reboot"` || r.WhyLine == 0 || !slices.Equal(r.WhyFacts, []FactRead{{"call.mode", `"staged"`}}) {
		t.Errorf("BW-MODE-002 = %+v", r)
	}
	// What the rules it asks read counts, too.
	if r := rules["BW-TARGET-007"]; r.Fired || r.Why != "change.final" || !slices.Contains(r.WhyFacts, FactRead{"phase", `"early"`}) {
		t.Errorf("BW-TARGET-007 = %+v", r)
	}
	if r := rules["BW-IDENTITY-001"]; r.Fired || r.Why != "not input.caller.revoked == false" {
		t.Errorf("BW-IDENTITY-001 = %+v", r)
	}
	for code, r := range rules {
		if !r.Fired && r.Why == "" {
			t.Errorf("%s is silent and nothing says why", code)
		}
	}
	text := x.String()
	for _, want := range []string{"DENIED by revision", "DENY BW-MODE-004", "try: talosctl -n worker-1 apply-config", "BW-MODE-002"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

// explained is what the shipped law says of a call.
func explained(t *testing.T, call string) Explanation {
	t.Helper()
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	f, err := DecodeFacts([]byte(call))
	if err != nil {
		t.Fatal(err)
	}
	e := New(EngineConfig{})
	if err := e.Use(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	x, err := e.Explain(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A variable of the expression has the value that it was last tried with, and no other expression's
// variables are told.
func TestAnExplanationTellsTheVariablesOfWhatDidNotHold(t *testing.T) {
	b, err := Load(files(map[string]string{"bronzeward/rules/site/site.rego": `# METADATA
# description: A site's own.
package bronzeward.rules.site

# METADATA
# title: t
# description: d
# custom:
#   code: BW-SITE-001
#   hint: ""
deny contains "x" if {
	other := 1
	some group in input.caller.groups
	length := count(group)
	length > other + 90
}
`, "bronzeward/admission/decision.rego": `package bronzeward.admission

import data.bronzeward.rules.site

decision := {"allow": count(site.deny) == 0}
`, "bronzeward/api/decision.rego": `package bronzeward.api

decision := {"allow": false}
`}))
	if err != nil {
		t.Fatal(err)
	}
	e := New(EngineConfig{})
	if err := e.Use(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	x, err := e.Explain(t.Context(), &Facts{Version: 1, Phase: "final", Caller: Caller{Groups: []string{"operators"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []RuleExplanation{{
		Code: "BW-SITE-001", Title: "t", Rule: "data.bronzeward.rules.site", File: "bronzeward/rules/site/site.rego", Line: 11,
		Why: "length > other + 90", WhyLine: 15, WhyFacts: []FactRead{{"length", "9"}, {"other", "1"}},
	}}
	if diff := cmp.Diff(want, x.Rules); diff != "" {
		t.Error(diff)
	}
}

func TestFactsAreReadStrictly(t *testing.T) {
	for name, text := range map[string]string{
		"a key nobody knows": "cal: {}\n",
		"a key twice":        "call: {}\ncall: {}\n",
		"a wrong type":       "call: {targets: many}\n",
		"two documents":      "{}\n---\n{}\n",
	} {
		if _, err := DecodeFacts([]byte(text)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestCheckNamesEveryFault(t *testing.T) {
	faults, err := Check(context.Background(), files(map[string]string{
		"mode.rego":  "package bronzeward.rules.mode\n\ndeny contains \"x\" if   input.x\n",
		"other.rego": "package bronzeward.rules.other\n\n# METADATA\n# title: t\n# description: d\n# custom:\n#   code: wrong\ndeny contains \"x\" if input.x\n",
		"use.rego":   "package use\n\nimport data.other\n\nx := nosuch(1)\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range faults {
		all = append(all, f.String())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"mode.rego:3: rule has no METADATA", "mode.rego:3: file is not formatted", `other.rego:8: rule's code "wrong"`,
		"other.rego:8: rule's METADATA lacks custom.hint", "use.rego:3: import data.other unused", "use.rego:5: undefined function nosuch",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("faults lack %q:\n%s", want, text)
		}
	}
	broken, err := Check(context.Background(), files(map[string]string{"a.rego": "package a\n\nallow { input.x }\n"}))
	if err != nil || len(broken) == 0 || broken[0].Line != 3 || broken[0].File != "a.rego" {
		t.Errorf("faults = %v, %v", broken, err)
	}
}

func TestTheShippedLawHasNoFault(t *testing.T) {
	sub := shippedDir(t)
	faults, err := Check(context.Background(), sub)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}
