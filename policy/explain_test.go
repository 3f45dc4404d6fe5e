package policy

import (
	"context"
	"strings"
	"testing"
)

const stagedCall = `
call: {method: /machine.MachineService/ApplyConfiguration, class: apply, mode: staged, mode_given: true, targets: 1}
caller: {issuer: i, subject: olga, kind: human, groups: [operators], proof_ends: 2026-03-02T11:00:00Z}
machine: {name: worker-1, cluster: lab, role: worker, pinned: true}
now: 2026-03-02T10:00:00Z
phase: early
`

func TestAnExplanationSaysWhatFiredAndWhyTheRestDidNot(t *testing.T) {
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	x, err := Eval(context.Background(), b, []byte(stagedCall))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]RuleExplanation{}
	for _, r := range x.Rules {
		rules[r.Code] = r
	}
	if r := rules["BW-MODE-004"]; !r.Fired || len(r.Messages) != 1 || r.Why != "" {
		t.Errorf("BW-MODE-004 = %+v", r)
	}
	if r := rules["BW-MODE-002"]; r.Fired || r.Why != `input.call.mode == "reboot"` || r.WhyLine == 0 {
		t.Errorf("BW-MODE-002 = %+v", r)
	}
	if r := rules["BW-TARGET-007"]; r.Fired || r.Why != "change.final" {
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
